package primitives

import (
	"math"
	"slices"

	"github.com/gomoe/gomoe/array"
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
		rows := data[int32](a.In[n+1])
		exec.Share(a, len(rows), movedGrain(size), rowsPassed{a.Out[0], a.In[:n], a.In[n], rows})
		return nil
	}}); err != nil {
		return err
	}
	l.exchangeRows(e, v.axisWithin, got, pass, v.within, size, v.roomPassing, false)
	return p.place(e, out, payload, got, v.from, v.journey)
}

// rowsPassed is the work of packing the rows that a rank passes on: rows that have come from other
// machines, and those of its own tokens.
type rowsPassed struct {
	buf     array.Array
	payload []array.Array
	come    array.Array
	rows    []int32 // see ep.Passage.Pass
}

func (w *rowsPassed) Piece(lo, hi int) {
	for i := lo; i < hi; i++ {
		switch j := w.rows[i]; {
		case j >= 0:
			copy(packed(w.buf, i), packed(w.come, int(j)))
		case j == math.MinInt32:
			return
		default:
			putPayload(packed(w.buf, i), w.payload, int(-1-j))
		}
	}
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
	travels, weight := ops.None, 0
	if wire != payload[0].Type.DType {
		travels = ops.Wire
	}
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
		sumPairsTo(a, come, rowSums{Args: a, d: wire, k: k, n: own, row: passedRow(k, weight, 1), to: sumOfMachine(k, weight), put: weightOfMachine(k, weight)}, wire)
		return nil
	}}); err != nil {
		return err
	}
	l.exchangeRows(e, v.axisBetween, home, leave, v.between, size, v.roomLeaving, true)
	return e.Emit(lowering.KernelSpec{Op: ops.EPSumMachines | travels, Out: out, In: []lowering.Buf{passed, home, v.home}, Kernel: func(a *exec.Args) error {
		sumHome(a, k, wire, passedRow(k, weight, 2))
		return nil
	}})
}

// passedRow returns the pairRow of sums that have been passed back, of rows with a weight of that
// many bytes for each of k choices. The first pair of those that share a sum has the values, and
// every pair its own weight. Argument `at` is the row of each pair, and the arguments before it are
// the packed rows, which are numbered through.
func passedRow(k, weight, at int) pairRow {
	return func(a *exec.Args, pair int) (x, w []byte) {
		index := data[int32](a.In[at])
		j := int(index[pair])
		if j < 0 {
			return nil, nil
		}
		from := a.In
		for n := from[0].Type.Shape[0]; j >= n; n = from[0].Type.Shape[0] {
			from, j = from[1:], j-n
		}
		row := packed(from[0], j)
		xs := len(row) - k*weight
		if weight > 0 {
			w = row[xs+pair%k*weight:][:weight]
		}
		if slices.Contains(index[pair/k*k:pair], index[pair]) {
			return nil, w
		}
		return row[:xs], w
	}
}

// sumOfMachine returns where the values of packed row i lie.
func sumOfMachine(k, weight int) func(a *exec.Args, i int) []byte {
	return func(a *exec.Args, i int) []byte {
		row := packed(a.Out[0], i)
		return row[:len(row)-k*weight]
	}
}

// weightOfMachine writes the weight of a pair, or 0 if it has no row, behind the values of its
// packed row.
func weightOfMachine(k, weight int) func(a *exec.Args, pair int, w []byte) {
	return func(a *exec.Args, pair int, w []byte) {
		row := packed(a.Out[0], pair/k)
		dst := row[len(row)-k*weight:][pair%k*weight:][:weight]
		clear(dst)
		copy(dst, w)
	}
}
