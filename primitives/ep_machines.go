package primitives

import (
	"math"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// If the mesh places the ranks along the experts' axis on several machines, rows are sent in two
// exchanges: once to each machine, and then within the machine. Sums of ranks return the same way,
// and the sums of a machine are added before leaving it. With one row per pair the return path is one
// exchange, because two would not save bytes.

// machines returns the number of machines on the way of rows, for tokens split over axes. It is 1
// if rows are sent to their ranks directly.
func (l epLayer) machines(m sharding.Mesh, axes []string) int {
	n := m.Machines(l.axis)
	if !l.travels(m, axes) || n == m.Size(l.axis) {
		return 1
	}
	return n
}

// machineExchange holds the buffers of an ep.Passage, computed by ep_passage, and the other buffers
// of a rowExchange.
type machineExchange struct {
	rowExchange                    // sent and pairRow are Out and Home of the passage; sizes is unused
	pass, relay, between, within   lowering.Buf
	machines                       int
	axisBetween, axisWithin        string
	maxSent, maxRelayed, maxPassed int // rows
}

// machineExchange returns the buffers of the exchange through machines. rows is the capacity in
// expert order.
func (l epLayer) machineExchange(e *lowering.Emitter, routing *graph.Value, axes []string, rows int) (p machineExchange, err error) {
	all, k, n := routing.Type.Shape[0], routing.Type.Shape[1], l.members(e.Mesh, axes)
	tokens, experts := e.Mesh.Cuts(axes, all), l.experts(e.Mesh)
	p.machines = l.machines(e.Mesh, axes)
	p.axisBetween, p.axisWithin = sharding.Levels(l.axis)
	shape := ep.Machines{Group: ep.Group{Experts: experts, Sources: make([]int, n)}, N: p.machines}
	p.maxSent, p.maxRelayed, p.maxPassed = shape.Room(tokens.Largest(), k)
	p.capacity = l.arrivals(e.Mesh, axes, all, k)
	list := func(dst *lowering.Buf, name string, dims ...int) {
		if err == nil {
			*dst, err = e.Memo(l.key(routing, axes, "machines "+name), func() (lowering.Buf, error) { return e.Temp(graph.T(graph.I32, dims...)), nil })
		}
	}
	list(&p.pass, "pass", p.maxPassed)
	list(&p.relay, "relay", p.maxRelayed, k)
	list(&p.between, "between", 2, p.machines)
	list(&p.within, "within", 2, n/p.machines)
	list(&p.from, "from", rows)
	list(&p.choice, "choice", rows)
	if err != nil {
		return p, err
	}
	if p.pairRow, err = e.Memo(l.key(routing, axes, "machines home"), func() (lowering.Buf, error) {
		return e.Placed(graph.T(graph.I32, all, k), sharding.Spec{Dims: [][]string{axes, nil}}), nil
	}); err != nil {
		return p, err
	}
	p.sent, err = e.Memo(l.key(routing, axes, "machines out"), func() (lowering.Buf, error) {
		out := e.Temp(graph.T(graph.I32, p.maxSent))
		chosen, err := l.chosen(e, routing, axes)
		if err != nil {
			return out, err
		}
		table, err := l.table(e, routing, axes)
		if err != nil {
			return out, err
		}
		return out, e.Emit(lowering.KernelSpec{Op: ops.EPPassage, Out: []lowering.Buf{out, p.pass, p.pairRow, p.relay, p.between, p.within, p.from, p.choice}, In: []lowering.Buf{chosen, table}, Kernel: func(a *exec.Args) error {
			group, member := l.group(a, axes, experts)
			g := ep.Machines{Group: group, N: p.machines}
			out := func(i int) []int32 { return data[int32](a.Out[i]) }
			chosen, base, each := data[int32](a.In[0]), exec.Make[int32](a, n), experts.Size(member)
			_, _, _, arrive := g.Find(ep.Passage{Out: out(0), Pass: out(1), Home: out(2), Relay: out(3), Between: out(4), Within: out(5), Base: base}, chosen, tokens, k, member)
			start, counts := exec.Make[int32](a, each), exec.Make[int32](a, each)
			if used := g.Zones(start, counts, data[int32](a.In[1]), member, l.Align); used > rows {
				return DispatchOp{}.NoRoom(used, rows)
			}
			if arrive > p.capacity {
				return DispatchOp{}.NoRoom(arrive, p.capacity)
			}
			sent := exec.Make[int32](a, n)
			g.RowsIn(out(6), out(7), sent, chosen, start, tokens, k, member)
			ep.Arrive(out(6), sent, base, exec.Make[int32](a, p.capacity))
			return nil
		}})
	})
	return p, err
}

// dispatchThroughMachines lowers a dispatch sending rows through machines.
func (p DispatchOp) dispatchThroughMachines(e *lowering.Emitter, routing *graph.Value, axes []string, out, payload []lowering.Buf) error {
	l := p.layer()
	v, err := l.machineExchange(e, routing, axes, out[0].Spec.Ragged.Rows)
	if err != nil {
		return err
	}
	types := rowTypes(bufTypes(payload), routing.Type.Shape[1])
	size := bytesOf(types)
	send, come := e.Packed(v.maxSent, types...), e.Packed(v.maxRelayed, types...)
	if err := packTokens(e, send, payload, v.sent); err != nil {
		return err
	}
	l.exchangeRows(e, v.axisBetween, come, send, v.between, size, v.maxSent, false)
	pass, got := e.Packed(v.maxPassed, types...), e.Packed(v.capacity, types...)
	if err := e.Emit(lowering.KernelSpec{Op: ops.EPPass, Out: []lowering.Buf{pass}, In: append(payload[:len(payload):len(payload)], come, v.pass), Kernel: func(a *exec.Args) error {
		n := len(a.In) - 2
		pass := data[int32](a.In[n+1]) // see ep.Passage.Pass
		come, own := exec.MakeDirty[int32](a, len(pass)), exec.MakeDirty[int32](a, len(pass))
		for i, j := range pass {
			if come[i], own[i] = j, -1; j < 0 && j != math.MinInt32 {
				own[i] = -1 - j
			}
		}
		from := tokenLayout(a.In[:n])
		to := packedLayout(a.Out[0], from.values.size, from.values.size, from.weights.size)
		exec.Share(a, len(pass), movedGrain(size), rowMove{to: to, from: from, at: own})
		exec.Share(a, len(pass), movedGrain(size), rowMove{to: packedLayout(a.Out[0], size, 0, 0), from: packedLayout(a.In[n], size, 0, 0), at: come})
		return nil
	}}); err != nil {
		return err
	}
	l.exchangeRows(e, v.axisWithin, got, pass, v.within, size, v.maxPassed, false)
	return p.placeRows(e, out, payload, got, v.from, v.choice)
}

// combineThroughMachines lowers a combine with ep.Sum returning sums through machines.
func (l epLayer) combineThroughMachines(e *lowering.Emitter, routing *graph.Value, axes []string, out, payload []lowering.Buf) error {
	k := routing.Type.Shape[1]
	v, err := l.machineExchange(e, routing, axes, payload[0].Spec.Ragged.Rows)
	if err != nil {
		return err
	}
	slots, err := l.slots(e, routing, axes, v.rowExchange, k)
	if err != nil {
		return err
	}
	types, wire := wireTypes(e, payload, k)
	travels, weight := wireVariant(payload, wire), 0
	if len(payload) == 2 {
		weight = payload[1].Type.DType.Size()
	}
	size, columns, over := bytesOf(types), e.Eqn.In[0].Type.Shape[1], payload[0].Spec.At(1)
	send, passed := returnBuf(e, payload[0], v.capacity, types), returnBuf(e, payload[0], v.maxPassed, types)
	if err := e.Emit(lowering.KernelSpec{Op: ops.EPPackSums | travels, Out: []lowering.Buf{send}, In: append(payload[:len(payload):len(payload)], slots, v.within), Kernel: packSums(k, wire), Within: canAlias(payload, wire)}); err != nil {
		return err
	}
	l.exchangeRows(e, v.axisWithin, passed, send, v.within, size, v.maxPassed, true)
	leave, home := returnBuf(e, payload[0], v.maxRelayed, types), returnBuf(e, payload[0], v.maxSent, types)
	if err := e.Emit(lowering.KernelSpec{Op: ops.EPSumMachine | travels, Out: []lowering.Buf{leave}, In: []lowering.Buf{passed, v.relay, v.between}, Kernel: func(a *exec.Args) error {
		come := sumOf(data[int32](a.In[2])[v.machines:])
		_, own := a.Part(over, columns) // scales of 8-bit values follow the rank's own columns
		values := size - k*weight
		sumPairs(a, come, rowSum[float32]{to: packedLayout(a.Out[0], values, values, weight), from: packedLayout(a.In[0], values, values, weight), index: data[int32](a.In[1]), shared: true, d: wire, as: wire, k: k, n: own})
		return nil
	}}); err != nil {
		return err
	}
	l.exchangeRows(e, v.axisBetween, home, leave, v.between, size, v.maxSent, true)
	return e.Emit(lowering.KernelSpec{Op: ops.EPSumMachines | travels, Out: out, In: []lowering.Buf{passed, home, v.pairRow}, Kernel: func(a *exec.Args) error {
		combineRows(a, rowSum[float32]{from: returnedRows(a, a.In[0], k), next: returnedRows(a, a.In[1], k), index: data[int32](a.In[2]), shared: true, d: wire, k: k})
		return nil
	}})
}
