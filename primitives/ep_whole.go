package primitives

import (
	"context"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
)

// lowerWhole combines rows of tokens that are whole over the experts' axis. Every rank has
// the rows of its own experts, and ends with the result for all tokens. pairRow is the row of
// every pair, -1 for pairs with a row on another rank.
//
// With ep.Rows each rank scatters its rows into the order of the pairs, with zeros for the
// pairs of other ranks. An all_sum then gives every rank all rows, and every rank adds the
// rows of a token in the order of its choices. With ep.Sum each rank adds its own rows of a
// token, followed by an all_sum of the ranks' sums.
func (p CombineOp) lowerWhole(e *lowering.Emitter, out, payload []lowering.Buf, pairRow lowering.Buf) error {
	l := p.layer()
	if l.exchange == ep.Sum {
		return l.sumRanks(e, out, payload, pairRow)
	}
	k, types, axes := pairRow.Type.Shape[1], rowTypes(bufTypes(payload), 1), pairRow.Spec.At(0)
	size, tokens := bytesOf(types), e.Eqn.Out[0].Type.Shape[0]
	mine, all := e.PackedPairs(axes, tokens, k, types...), e.PackedPairs(axes, tokens, k, types...)
	if err := e.Emit(lowering.KernelSpec{Op: ops.EPSpread, Out: []lowering.Buf{mine}, In: append(payload[:len(payload):len(payload)], pairRow), Kernel: func(a *exec.Args) error {
		n := len(a.In) - 1
		from, at := arrayLayout(a.In[:n], 1), data[int32](a.In[n])
		exec.Share(a, len(at), movedGrain(size), rowMove{to: packedResult(a, from.values.size, 1, n == 2), from: from, at: at, clear: true})
		return nil
	}}); err != nil {
		return err
	}
	l.mergeRanks(e, all, mine)
	return e.Emit(lowering.KernelSpec{Op: ops.EPSum, Out: out, In: []lowering.Buf{all}, Kernel: func(a *exec.Args) error {
		combineRows(a, rowSum[float32]{from: returnedRows(a, a.In[0], 1), d: a.Out[0].Type.DType, k: k})
		return nil
	}})
}

// sumRanks adds this rank's rows of each token, and then the ranks' sums in the wire type.
func (l epLayer) sumRanks(e *lowering.Emitter, out, payload []lowering.Buf, pairRow lowering.Buf) error {
	wide := graph.F32
	if out[0].Type.DType == graph.F64 {
		wide = graph.F64
	}
	wire := l.wire
	if wire == graph.NoDType {
		wire = wide
	}
	mine := make([]lowering.Buf, len(out))
	as := func(d graph.DType) lowering.Buf { return e.Placed(e.Eqn.Out[0].Type.With(d), out[0].Spec) }
	mine[0] = as(wide)
	if len(out) == 2 {
		mine[1] = e.Placed(e.Eqn.Out[1].Type, out[1].Spec)
	}
	if err := combineLocal(e, mine, payload, pairRow); err != nil {
		return err
	}
	sum, err := convertTo(e, mine[0], as(wire))
	if err != nil {
		return err
	}
	all := out[0]
	if all.Type.DType != wire {
		all = as(wire)
	}
	l.allSum(e, all, sum, wire)
	if _, err := convertTo(e, all, out[0]); err != nil {
		return err
	}
	if len(out) == 2 {
		l.mergeRanks(e, out[1], mine[1])
	}
	return nil
}

// convertTo emits the conversion of in to out, returning out. If both have the same type, it returns in.
func convertTo(e *lowering.Emitter, in, out lowering.Buf) (lowering.Buf, error) {
	if in.Type.DType == out.Type.DType {
		return in, nil
	}
	return out, e.Emit(lowering.KernelSpec{Op: ops.ConvertElementType, Does: convertElementTypeOp{DType: out.Type.DType},
		Out: []lowering.Buf{out}, In: []lowering.Buf{in}, Elementwise: true, Kernel: func(a *exec.Args) error {
			return convert(a, a.Out[0], a.In[0])
		}})
}

// mergeRanks emits the all_sum merging the ranks' shares of in: each byte is set on one rank and
// zero on all others. The bytes are added as integers, preserving the bits of signed zeros and
// NaNs.
func (l epLayer) mergeRanks(e *lowering.Emitter, out, in lowering.Buf) {
	d, bytes := graph.U32, in.Type.Bytes()
	if !e.Even(in, 0) { // ranks have different numbers of whole rows
		bytes /= int64(in.Type.Shape[0])
	}
	if bytes%4 != 0 {
		d = graph.U8
	}
	l.allSum(e, out, in, d)
}

// allSum emits the sum of in, as elements of type d, over the ranks with experts.
func (l epLayer) allSum(e *lowering.Emitter, out, in lowering.Buf, d graph.DType) {
	e.EmitCollective(lowering.CollectiveSpec{Op: ops.AllSum, Axes: []string{l.axis}, DType: d, Bytes: in.Type.Bytes(),
		Out: []lowering.Buf{out}, In: []lowering.Buf{in}, InPlace: true, Travels: true,
		Exchange: func(ctx context.Context, g collective.Group, c collective.Call, a *exec.Args) error {
			return g.AllSum(ctx, c, a.Out[0].Bytes(), a.In[0].Bytes())
		}})
}
