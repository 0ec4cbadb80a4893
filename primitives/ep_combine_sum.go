package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
)

// A combine with ep.Sum returns rows on the way on which they came: each row that arrived
// gets the sum of the experts' rows for it, and travels back to the place from which it left.

// combineSums lowers a combine with ep.Sum of rows that travel.
func (l epLayer) combineSums(e *lowering.Emitter, out, payload []lowering.Buf) error {
	routing, axes := e.Eqn.In[len(e.Eqn.In)-1].Origin(), payload[0].Spec.Ragged.Tokens
	k := routing.Type.Shape[1]
	if l.machines(e.Mesh, axes) > 1 {
		return l.combineThrough(e, routing, axes, out, payload)
	}
	j, err := l.journey(e, routing, axes, payload[0].Spec.Ragged.Rows)
	if err != nil {
		return err
	}
	slots, err := l.slots(e, routing, axes, j, k)
	if err != nil {
		return err
	}
	types, wire := wireTypes(e, payload, k)
	travels := ops.None
	if wire != payload[0].Type.DType {
		travels = ops.Wire
	}
	size, leave := bytesOf(types), j.out.Type.Len()
	send, got := homeward(e, payload[0], j.room, types), homeward(e, payload[0], leave, types)
	if err := e.Emit(lowering.KernelSpec{Op: ops.EPPackSums | travels, Out: []lowering.Buf{send}, In: append(payload[:len(payload):len(payload)], slots, j.sizes), Kernel: packSums(k, wire), Within: fitsZones(payload, wire)}); err != nil {
		return err
	}
	l.exchangeRows(e, l.axis, got, send, j.sizes, size, leave, true)
	return e.Emit(lowering.KernelSpec{Op: ops.EPSumRanks | travels, Out: out, In: []lowering.Buf{got, j.home}, Kernel: func(a *exec.Args) error {
		sumHome(a, k, wire, sumArrived)
		return nil
	}})
}

// slots returns i32[rows that arrive, K]: for every row that arrives and every choice the
// row of the zones, -1 if there is none.
func (l epLayer) slots(e *lowering.Emitter, routing *graph.Value, axes []string, j journey, k int) (lowering.Buf, error) {
	return e.Memo(l.key(routing, axes, "slots"), func() (lowering.Buf, error) {
		out := e.Temp(graph.T(graph.I32, j.room, k))
		return out, e.Emit(lowering.KernelSpec{Op: ops.EPSlots, Out: []lowering.Buf{out}, In: []lowering.Buf{j.from, j.choice}, Kernel: func(a *exec.Args) error {
			ep.Slots(data[int32](a.Out[0]), data[int32](a.In[0]), data[int32](a.In[1]), k)
			return nil
		}})
	})
}

// packSums returns the kernel that writes, for each row that has arrived, the sum of its rows
// of the zones over its k choices, in order, as type wire, and the weights of these. The arguments are
// rows, weights if they travel along, slots and sizes.
func packSums(k int, wire graph.DType) exec.Kernel {
	return func(a *exec.Args) error {
		sizes := data[int32](a.In[len(a.In)-1])
		t, arrived := a.In[0].Type, sumOf(sizes[len(sizes)/2:])
		sums := rowSums{Args: a, d: t.DType, k: k, n: t.Shape[1], row: rowOfSlot, to: sumLeaving, put: putLeaving}
		if overZones(a) {
			return sumsInZones(a, arrived, sums)
		}
		sumPairsTo(a, arrived, sums, wire)
		return nil
	}
}

// rowOfSlot is the pairRow of the rows of the zones, whose pairs are slots.
func rowOfSlot(a *exec.Args, slot int) (x, w []byte) {
	n := len(a.In) - 2
	i := int(data[int32](a.In[n])[slot])
	if i < 0 {
		return nil, nil
	}
	if n == 2 {
		w = element(a.In[1], i)
	}
	return entry(a.In[0], i), w
}

// sumLeaving returns where the values of packed row j lie.
func sumLeaving(a *exec.Args, j int) []byte {
	row := packed(a.Out[0], j)
	return row[:len(row)-weightsLeaving(a)]
}

// weightsLeaving returns the bytes of the weights behind the values of a packed row.
func weightsLeaving(a *exec.Args) int {
	if len(a.In) < 4 {
		return 0
	}
	return a.In[2].Type.Shape[1] * a.In[1].Type.DType.Size()
}

// putLeaving writes the weight of a slot, or 0 if the slot has no row, behind the values of
// its packed row. It does nothing if weights do not travel along.
func putLeaving(a *exec.Args, slot int, w []byte) {
	if len(a.In) == 4 {
		k := a.In[2].Type.Shape[1]
		size := a.In[1].Type.DType.Size()
		row := packed(a.Out[0], slot/k)
		dst := row[len(row)-weightsLeaving(a):][slot%k*size:][:size]
		clear(dst)
		copy(dst, w)
	}
}

// sumArrived is the pairRow of sums that have come home, of which the first pair of those
// that share a sum has the values, and every pair its own weight. The arguments are the packed
// rows, and the place of the row of each pair.
func sumArrived(a *exec.Args, pair int) (x, w []byte) {
	home := data[int32](a.In[1])
	j := home[pair]
	if j < 0 {
		return nil, nil
	}
	k := a.In[1].Type.Shape[1]
	row := packed(a.In[0], int(j))
	xs := len(row)
	if len(a.Out) == 2 {
		size := a.Out[1].Type.DType.Size()
		xs -= k * size
		w = row[xs+pair%k*size:][:size]
	}
	if slices.Contains(home[pair/k*k:pair], j) {
		return nil, w
	}
	return row[:xs], w
}
