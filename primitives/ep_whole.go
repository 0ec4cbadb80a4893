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

// lowerWhole brings together the rows of tokens that are whole over the experts' axis.
// Every rank has the rows of its own experts, and afterwards the result for all tokens.
// home is the row of every pair, of those on this rank.
//
// With ep.Rows each rank writes its rows in the order of the pairs, with zeros for the pairs
// of other ranks. One sum over the ranks then gives every rank all rows, and every rank adds
// the rows of a token in the order of its choices. With ep.Sum each rank adds its own rows
// of a token, and the ranks' sums are added.
func (p CombineOp) lowerWhole(e *lowering.Emitter, out, payload []lowering.Buf, home lowering.Buf) error {
	l := p.layer()
	if l.home == ep.Sum {
		return l.sumRanks(e, out, payload, home)
	}
	k, types, axes := home.Type.Shape[1], rowTypes(bufTypes(payload), 1), home.Spec.At(0)
	size, tokens := bytesOf(types), e.Eqn.Out[0].Type.Shape[0]
	mine, all := e.PackedPairs(axes, tokens, k, types...), e.PackedPairs(axes, tokens, k, types...)
	if err := e.Emit(lowering.KernelSpec{Op: ops.EPSpread, Out: []lowering.Buf{mine}, In: append(payload[:len(payload):len(payload)], home), Kernel: func(a *exec.Args) error {
		n := len(a.In) - 1
		from, home := inArrays(a.In[:n], 1), data[int32](a.In[n])
		exec.Share(a, len(home), movedGrain(size), rowMove{to: leaving(a, from.values.size, 1, n == 2), from: from, at: home, clear: true})
		return nil
	}}); err != nil {
		return err
	}
	l.together(e, all, mine)
	return e.Emit(lowering.KernelSpec{Op: ops.EPSum, Out: out, In: []lowering.Buf{all}, Kernel: func(a *exec.Args) error {
		sumHome(a, rowSum[float32]{from: returned(a, a.In[0], 1), d: a.Out[0].Type.DType, k: k})
		return nil
	}})
}

// sumRanks adds the rows that this rank has for each token, and the ranks' sums in the type
// in which they travel.
func (l epLayer) sumRanks(e *lowering.Emitter, out, payload []lowering.Buf, home lowering.Buf) error {
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
	if err := sumHere(e, mine, payload, home); err != nil {
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
		l.together(e, out[1], mine[1])
	}
	return nil
}

// convertTo emits the conversion of in to out, and returns out; in if both have one type.
func convertTo(e *lowering.Emitter, in, out lowering.Buf) (lowering.Buf, error) {
	if in.Type.DType == out.Type.DType {
		return in, nil
	}
	return out, e.Emit(lowering.KernelSpec{Op: ops.ConvertElementType, Does: convertElementTypeOp{DType: out.Type.DType},
		Out: []lowering.Buf{out}, In: []lowering.Buf{in}, Elementwise: true, Kernel: func(a *exec.Args) error {
			return convert(a, a.Out[0], a.In[0])
		}})
}

// together emits the exchange after which out holds, on every rank, the bytes that one of
// the ranks has in in. All other ranks have zeros there. The bytes are added as integers, so
// that the signs of zeros and NaNs keep their bits.
func (l epLayer) together(e *lowering.Emitter, out, in lowering.Buf) {
	d, bytes := graph.U32, in.Type.Bytes()
	if !e.Even(in, 0) { // the rank's, which are whole rows of dimension 0
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
