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

// Where the mesh says that the ranks along the experts' axis lie on several machines, rows travel
// in two exchanges: between machines, once to each, and then within a machine. Sums of ranks come
// home the same way, and those of a machine are added before they leave it. A row for each pair
// comes home in one exchange, as there is nothing to be saved.

// machines returns the number of machines through which rows travel, of tokens that are split over
// axes; 1 if they go straight to their ranks.
func (l epLayer) machines(m sharding.Mesh, axes []string) int {
	n := m.Machines(l.axis)
	if !l.travels(m, axes) || n == m.Size(l.axis) {
		return 1
	}
	return n
}

// passage is the buffers of an ep.Passage, and what a journey has beside it.
type passage struct {
	journey                              // its out and home are those of the passage, and it has no sizes
	pass, relay, between, within         lowering.Buf
	machines                             int
	axisBetween, axisWithin              string
	roomLeaving, roomComing, roomPassing int // rows
}

// passage returns the buffers that say which rows travel through machines, for rows that take
// `rows` rows in the zones.
func (l epLayer) passage(e *lowering.Emitter, routing *graph.Value, axes []string, rows int) (p passage, err error) {
	all, k, n := routing.Type.Shape[0], routing.Type.Shape[1], l.members(e.Mesh, axes)
	tokens, experts := e.Mesh.Cuts(axes, all), l.experts(e.Mesh)
	p.machines = l.machines(e.Mesh, axes)
	p.axisBetween, p.axisWithin = sharding.Levels(l.axis)
	shape := ep.Machines{Group: ep.Group{Experts: experts, Sources: make([]int, n)}, N: p.machines}
	p.roomLeaving, p.roomComing, p.roomPassing = shape.Room(tokens.Largest(), k)
	p.room = l.arrivals(e.Mesh, axes, all, k)
	list := func(dst *lowering.Buf, what string, dims ...int) {
		if err == nil {
			*dst, err = e.Memo(l.key(routing, axes, "machines "+what), func() (lowering.Buf, error) { return e.Temp(graph.T(graph.I32, dims...)), nil })
		}
	}
	list(&p.pass, "pass", p.roomPassing)
	list(&p.relay, "relay", p.roomComing, k)
	list(&p.between, "between", 2, p.machines)
	list(&p.within, "within", 2, n/p.machines)
	list(&p.from, "from", rows)
	list(&p.choice, "choice", rows)
	if err != nil {
		return p, err
	}
	if p.home, err = e.Memo(l.key(routing, axes, "machines home"), func() (lowering.Buf, error) {
		return e.Placed(graph.T(graph.I32, all, k), sharding.Spec{Dims: [][]string{axes, nil}}), nil
	}); err != nil {
		return p, err
	}
	p.out, err = e.Memo(l.key(routing, axes, "machines out"), func() (lowering.Buf, error) {
		out := e.Temp(graph.T(graph.I32, p.roomLeaving))
		chosen, err := l.chosen(e, routing, axes)
		if err != nil {
			return out, err
		}
		table, err := l.table(e, routing, axes)
		if err != nil {
			return out, err
		}
		return out, e.Emit(lowering.KernelSpec{Op: ops.EPPassage, Out: []lowering.Buf{out, p.pass, p.home, p.relay, p.between, p.within, p.from, p.choice}, In: []lowering.Buf{chosen, table}, Kernel: func(a *exec.Args) error {
			group, member := l.group(a, axes, experts)
			g := ep.Machines{Group: group, N: p.machines}
			out := func(i int) []int32 { return data[int32](a.Out[i]) }
			chosen, base, each := data[int32](a.In[0]), exec.Make[int32](a, n), experts.Size(member)
			_, _, _, arrive := g.Find(ep.Passage{Out: out(0), Pass: out(1), Home: out(2), Relay: out(3), Between: out(4), Within: out(5), Base: base}, chosen, tokens, k, member)
			start, counts := exec.Make[int32](a, each), exec.Make[int32](a, each)
			if used := g.Zones(start, counts, data[int32](a.In[1]), member, l.Align); used > rows {
				return DispatchOp{}.NoRoom(used, rows)
			}
			if arrive > p.room {
				return DispatchOp{}.NoRoom(arrive, p.room)
			}
			sent := exec.Make[int32](a, n)
			g.RowsIn(out(6), out(7), sent, chosen, start, tokens, k, member)
			ep.Arrive(out(6), sent, base, exec.Make[int32](a, p.room))
			return nil
		}})
	})
	return p, err
}

// dispatchThrough lowers a dispatch whose rows travel through machines.
func (p DispatchOp) dispatchThrough(e *lowering.Emitter, routing *graph.Value, axes []string, out, payload []lowering.Buf) error {
	l := p.layer()
	v, err := l.passage(e, routing, axes, out[0].Spec.Ragged.Rows)
	if err != nil {
		return err
	}
	types := rowTypes(bufTypes(payload), routing.Type.Shape[1])
	size := bytesOf(types)
	send, come := e.Packed(v.roomLeaving, types...), e.Packed(v.roomComing, types...)
	if err := packTokens(e, send, payload, v.out); err != nil {
		return err
	}
	l.exchangeRows(e, v.axisBetween, come, send, v.between, size, v.roomLeaving, false)
	pass, got := e.Packed(v.roomPassing, types...), e.Packed(v.room, types...)
	if err := e.Emit(lowering.KernelSpec{Op: ops.EPPass, Out: []lowering.Buf{pass}, In: append(payload[:len(payload):len(payload)], come, v.pass), Kernel: func(a *exec.Args) error {
		n := len(a.In) - 2
		pass := data[int32](a.In[n+1]) // see ep.Passage.Pass
		come, own := exec.MakeDirty[int32](a, len(pass)), exec.MakeDirty[int32](a, len(pass))
		for i, j := range pass {
			if come[i], own[i] = j, -1; j < 0 && j != math.MinInt32 {
				own[i] = -1 - j
			}
		}
		from := tokensIn(a.In[:n])
		to := inPacked(a.Out[0], from.values.size, from.values.size, from.weights.size)
		exec.Share(a, len(pass), movedGrain(size), rowMove{to: to, from: from, at: own})
		exec.Share(a, len(pass), movedGrain(size), rowMove{to: inPacked(a.Out[0], size, 0, 0), from: inPacked(a.In[n], size, 0, 0), at: come})
		return nil
	}}); err != nil {
		return err
	}
	l.exchangeRows(e, v.axisWithin, got, pass, v.within, size, v.roomPassing, false)
	return p.place(e, out, payload, got, v.from, v.choice)
}

// combineThrough lowers a combine with ep.Sum of rows that travel through machines.
func (l epLayer) combineThrough(e *lowering.Emitter, routing *graph.Value, axes []string, out, payload []lowering.Buf) error {
	k := routing.Type.Shape[1]
	v, err := l.passage(e, routing, axes, payload[0].Spec.Ragged.Rows)
	if err != nil {
		return err
	}
	slots, err := l.slots(e, routing, axes, v.journey, k)
	if err != nil {
		return err
	}
	types, wire := wireTypes(e, payload, k)
	travels, weight := onWireAs(payload, wire), 0
	if len(payload) == 2 {
		weight = payload[1].Type.DType.Size()
	}
	size, columns, over := bytesOf(types), e.Eqn.In[0].Type.Shape[1], payload[0].Spec.At(1)
	send, passed := homeward(e, payload[0], v.room, types), homeward(e, payload[0], v.roomPassing, types)
	if err := e.Emit(lowering.KernelSpec{Op: ops.EPPackSums | travels, Out: []lowering.Buf{send}, In: append(payload[:len(payload):len(payload)], slots, v.within), Kernel: packSums(k, wire), Within: fitsZones(payload, wire)}); err != nil {
		return err
	}
	l.exchangeRows(e, v.axisWithin, passed, send, v.within, size, v.roomPassing, true)
	leave, home := homeward(e, payload[0], v.roomComing, types), homeward(e, payload[0], v.roomLeaving, types)
	if err := e.Emit(lowering.KernelSpec{Op: ops.EPSumMachine | travels, Out: []lowering.Buf{leave}, In: []lowering.Buf{passed, v.relay, v.between}, Kernel: func(a *exec.Args) error {
		come := sumOf(data[int32](a.In[2])[v.machines:])
		_, own := a.Part(over, columns) // behind which the scales of values of 8 bits are
		values := size - k*weight
		sumPairs(a, come, rowSum[float32]{to: inPacked(a.Out[0], values, values, weight), from: inPacked(a.In[0], values, values, weight), index: data[int32](a.In[1]), shared: true, d: wire, as: wire, k: k, n: own})
		return nil
	}}); err != nil {
		return err
	}
	l.exchangeRows(e, v.axisBetween, home, leave, v.between, size, v.roomLeaving, true)
	return e.Emit(lowering.KernelSpec{Op: ops.EPSumMachines | travels, Out: out, In: []lowering.Buf{passed, home, v.home}, Kernel: func(a *exec.Args) error {
		sumHome(a, rowSum[float32]{from: returned(a, a.In[0], k), next: returned(a, a.In[1], k), index: data[int32](a.In[2]), shared: true, d: wire, k: k})
		return nil
	}})
}
