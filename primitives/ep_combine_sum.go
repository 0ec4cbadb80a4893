package primitives

import (
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
)

// A combine with ep.Sum reverses the exchange of the dispatch: each received row is replaced by
// the sum of its experts' outputs, which returns to the index from which the row was sent.

// combineSums lowers a combine with ep.Sum, if rows travel.
func (l epLayer) combineSums(e *lowering.Emitter, out, payload []lowering.Buf) error {
	routing, axes := e.Eqn.In[len(e.Eqn.In)-1].Origin(), payload[0].Spec.Ragged.Tokens
	k := routing.Type.Shape[1]
	if l.machines(e.Mesh, axes) > 1 {
		return l.combineThroughMachines(e, routing, axes, out, payload)
	}
	j, err := l.rowExchange(e, routing, axes, payload[0].Spec.Ragged.Rows)
	if err != nil {
		return err
	}
	slots, err := l.slots(e, routing, axes, j, k)
	if err != nil {
		return err
	}
	types, wire := wireTypes(e, payload, k)
	travels := wireVariant(payload, wire)
	size, leave := bytesOf(types), j.sent.Type.Len()
	send, got := returnBuf(e, payload[0], j.capacity, types), returnBuf(e, payload[0], leave, types)
	if err := e.Emit(lowering.KernelSpec{Op: ops.EPPackSums | travels, Out: []lowering.Buf{send}, In: append(payload[:len(payload):len(payload)], slots, j.sizes), Kernel: packSums(k, wire), Within: canAlias(payload, wire)}); err != nil {
		return err
	}
	l.exchangeRows(e, l.axis, got, send, j.sizes, size, leave, true)
	return e.Emit(lowering.KernelSpec{Op: ops.EPSumRanks | travels, Out: out, In: []lowering.Buf{got, j.pairRow}, Kernel: func(a *exec.Args) error {
		combineRows(a, rowSum[float32]{from: returnedRows(a, a.In[0], k), index: data[int32](a.In[1]), shared: true, d: wire, k: k})
		return nil
	}})
}

// slots returns i32[received rows, K]: for every received row and choice, the row in expert
// order, -1 if there is none.
func (l epLayer) slots(e *lowering.Emitter, routing *graph.Value, axes []string, j rowExchange, k int) (lowering.Buf, error) {
	return e.Memo(l.key(routing, axes, "slots"), func() (lowering.Buf, error) {
		out := e.Temp(graph.T(graph.I32, j.capacity, k))
		return out, e.Emit(lowering.KernelSpec{Op: ops.EPSlots, Out: []lowering.Buf{out}, In: []lowering.Buf{j.from, j.choice}, Kernel: func(a *exec.Args) error {
			ep.Slots(data[int32](a.Out[0]), data[int32](a.In[0]), data[int32](a.In[1]), k)
			return nil
		}})
	})
}

// packSums returns the kernel packing one sum per received row, as type wire: the sum of its rows in
// expert order over its k choices, in order, followed by their weights. The arguments are rows, weights
// if there are any, slots and sizes.
func packSums(k int, wire graph.DType) exec.Kernel {
	return func(a *exec.Args) error {
		n, t := len(a.In)-2, a.In[0].Type
		sizes := data[int32](a.In[n+1])
		arrived := sumOf(sizes[len(sizes)/2:])
		s := rowSum[float32]{from: arrayLayout(a.In[:n], 1), index: data[int32](a.In[n]), d: t.DType, as: wire, k: k, n: t.Shape[1]}
		if aliasesRows(a) {
			return sumInPlace(a, arrived, s)
		}
		s.to = packedResult(a, wireBytes(wire, s.n), k, n == 2)
		sumPairs(a, arrived, s)
		return nil
	}
}
