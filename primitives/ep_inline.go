package primitives

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// Where choices travel with the rows, they are not gathered before. Every rank sends every
// other member of its group a segment with room for all of its tokens, so that sizes are known.
// Behind each row stand the number of the token and its choices; number -1 ends a segment. The
// rank that receives them learns what it has to know of other ranks' choices: those of the tokens
// whose rows it has.

// gatherBytes is how many bytes one exchange more costs as much as: what a rank sends while it
// waits for the others. Between processes on one machine an all_gather of some numbers takes about
// as long as 16 KiB more in an all_to_all, and over a network longer.
const gatherBytes = 16 << 10

// inline reports whether rows travel with their choices: in segments that together have at most
// as many bytes as the rows that may leave a rank otherwise, or only gatherBytes more. A rank then
// sends all of its tokens to each of the other members, where otherwise a token goes to as many
// members as it has choices at most. payload is the types of the rows that travel first.
func (l epLayer) inline(m sharding.Mesh, axes []string, payload []graph.Type, tokens, k int) bool {
	n, segment := l.members(m, axes), m.Cuts(axes, tokens).Largest()
	if n == 1 || l.machines(m, axes) > 1 { // a row would travel to each rank of a machine
		return false
	}
	row := bytesOf(rowTypes(payload, k))
	with := row + bytesOf([]graph.Type{noteType(payload, k)})
	return (n-1)*segment*with <= min(n, k)*segment*row+gatherBytes
}

// noteType returns the type of what stands behind a row: the number of the token and its choices.
// Rows of elements of 8 bytes begin at multiples of 8.
func noteType(payload []graph.Type, k int) graph.Type {
	n := 1 + k
	if payload[0].DType.Size() == 8 {
		n += n % 2
	}
	return graph.T(graph.I32, n)
}

// alone reports whether ep_prepare, whose tokens are split over axes, needs nothing from other
// ranks but the sums of their counts: nothing can be dropped, only the layer's own operations use
// the routing, and the first rows, if they travel, do so with their choices.
func (p PrepareOp) alone(e *lowering.Emitter, axes []string) bool {
	l, t, out := p.layer(), e.Eqn.In[0].Type.Shape, e.Eqn.Out
	if e.Mesh.Parts(axes) == 1 || l.limits(e.Mesh, axes) && p.Receive < l.groupTokens(e.Mesh, axes, t[0]) {
		return false
	}
	demand := t[0] * t[1] // the most pairs that choose one expert
	if distinct(out[0]) {
		demand = t[0]
	}
	if p.Capacity > 0 && p.Capacity < demand {
		return false
	}
	users, result := e.Users(out[0])
	if result {
		return false
	}
	sent := !l.travels(e.Mesh, axes) // whether no rows need the choices of other ranks
	for _, q := range users {
		switch q.Prim.(type) {
		case DispatchOp:
			if !sent && !l.inline(e.Mesh, axes, argTypes(q.In[:len(q.In)-1]), t[0], t[1]) {
				return false
			}
			sent = true
		case CombineOp, groupedMatMulOp, groupedOuterOp, groupedScaledMatMulOp, groupedAffineMatMulOp:
			// They read the experts of pairs and not the places in queues.
		default:
			return false
		}
	}
	return sent
}

func argTypes(args []*graph.Value) []graph.Type {
	t := make([]graph.Type, len(args))
	for i, v := range args {
		t[i] = v.Type
	}
	return t
}

// prepareAlone computes the routing of this rank's tokens. The place of a pair in its queue is
// that among the pairs of this rank. Of the table, if rows do not travel, only this rank's row is
// read. The numbers of the experts' pairs, where something reads them, are one sum over the ranks,
// for which rows need not wait, and which is joined with those of other layers.
func (p PrepareOp) prepareAlone(e *lowering.Emitter, axes []string, out []lowering.Buf, idx lowering.Buf) error {
	tokens, totals := e.Eqn.In[0].Type.Shape[0], out[2:]
	out = out[:2:2]
	if l := p.layer(); !l.travels(e.Mesh, axes) {
		table, err := e.Memo(l.key(e.Eqn.Out[0], axes, "table"), func() (lowering.Buf, error) {
			return e.Temp(graph.T(graph.I32, e.Mesh.Parts(axes), l.Experts)), nil
		})
		if err != nil {
			return err
		}
		out = append(out, table)
	}
	if err := e.Emit(lowering.KernelSpec{Op: ops.EPPrepareAlone, Out: out, In: []lowering.Buf{idx}, Kernel: func(a *exec.Args) error {
		idx, err := indices(a.In[0], p.Experts)
		counts := exec.Make[int32](a, p.Experts)
		if err == nil {
			err = ep.Count(counts, idx, a.In[0].Type.Shape[1])
		}
		if len(a.Out) == 3 {
			table := data[int32](a.Out[2])
			clear(table)
			copy(table[a.Index(axes)*p.Experts:], counts)
		}
		if err != nil {
			first, _ := a.Part(axes, tokens)
			return inBatch(err, first)
		}
		ep.Assign(data[int32](a.Out[0]), data[bool](a.Out[1]), exec.Make[int32](a, p.Experts), idx, 0)
		return nil
	}}); err != nil || !slices.ContainsFunc(e.Eqn.Out[2:], e.Used) {
		return err
	}
	counts := e.Placed(totals[0].Type, sharding.Spec{Pending: axes})
	if err := p.count(e, axes, counts, idx); err != nil {
		return err
	}
	sum, err := e.Reshard(totals[0].Type, counts, sharding.Spec{})
	if err != nil {
		return err
	}
	e.Alias(totals[0], sum) // nothing is dropped
	e.Alias(totals[2], sum)
	if !e.Used(e.Eqn.Out[3]) {
		return nil
	}
	return e.Emit(lowering.KernelSpec{Op: ops.EPPadded, Out: totals[1:2], In: []lowering.Buf{sum}, Kernel: func(a *exec.Args) error {
		ep.Padded(data[int32](a.Out[0]), data[int32](a.In[0]), p.Align)
		return nil
	}})
}

// inlined is rows that have arrived with their choices.
type inlined struct {
	sent bool // false if all choices were known before, or are gathered
	got  lowering.Buf
	at   lowering.Buf // i32[rows that arrive]: where each of them lies in got
}

// sendInline emits the exchange of rows and choices, unless the choices are known already or the
// rows had better travel without them, and keeps the choices for the layer.
func (l epLayer) sendInline(e *lowering.Emitter, routing *graph.Value, axes []string, payload []lowering.Buf) (came inlined, err error) {
	if !l.inline(e.Mesh, axes, bufTypes(payload), routing.Type.Shape[0], routing.Type.Shape[1]) {
		return came, nil
	}
	_, err = e.Memo(l.key(routing, axes, "chosen"), func() (lowering.Buf, error) {
		came.sent = true
		return l.inlineChoices(e, routing, axes, payload, &came)
	})
	return came, err
}

// inlineChoices exchanges rows and choices, and returns chosen i32[T,K]: the choices of this
// rank's tokens and of those whose rows have arrived, and -1 for all others. Rows for experts of
// the rank itself do not travel.
func (l epLayer) inlineChoices(e *lowering.Emitter, routing *graph.Value, axes []string, payload []lowering.Buf, came *inlined) (lowering.Buf, error) {
	r, err := l.routing(e, routing, axes)
	if err != nil {
		return lowering.Buf{}, err
	}
	all, k, n := routing.Type.Shape[0], routing.Type.Shape[1], l.members(e.Mesh, axes)
	tokens, experts := e.Mesh.Cuts(axes, all), l.experts(e.Mesh)
	segment := tokens.Largest() // rows
	types := append(rowTypes(bufTypes(payload), k), noteType(bufTypes(payload), k))
	size := bytesOf(types)
	tail := size - bytesOf(types[len(types)-1:])
	send := e.Packed((n-1)*segment, types...)
	came.got = e.Packed(n*segment, types...)
	rows := append(payload[:len(payload):len(payload)], r)
	if err := e.Emit(lowering.KernelSpec{Op: ops.EPPackInline, Out: []lowering.Buf{send}, In: rows, Kernel: func(a *exec.Args) error {
		g, member := l.group(a, axes, experts)
		own, err := l.ownChoices(a, a.In[len(a.In)-1])
		if err != nil {
			return err
		}
		order, rows := exec.Make[int32](a, len(own)), exec.Make[int32](a, n)
		g.RowsOut(order, rows, nil, own, k, exec.Make[int32](a, 2*n))
		at := exec.MakeDirty[int32](a, (n-1)*segment)
		fillSegments(at, order, rows, member, segment)
		from := tokensIn(a.In[:len(a.In)-1])
		values := from.values.size
		exec.Share(a, len(at), movedGrain(size), rowMove{to: inPacked(a.Out[0], values, values, from.weights.size), from: from, at: at, clear: true})
		for i, t := range at {
			row := packed(a.Out[0], i)[values+from.weights.size:]
			clear(row) // rows of this rank may be shorter than those of others
			note := row[len(row)-size+tail:]
			if binary.LittleEndian.PutUint32(note, uint32(t)); t >= 0 {
				for c, x := range own[int(t)*k : int(t+1)*k] {
					binary.LittleEndian.PutUint32(note[4*(1+c):], uint32(x))
				}
			}
		}
		return nil
	}}); err != nil {
		return lowering.Buf{}, err
	}
	e.EmitCollective(lowering.CollectiveSpec{Op: ops.AllToAll, Axes: []string{l.axis}, DType: graph.U8, Bytes: int64((n-1)*segment) * int64(size),
		Out: []lowering.Buf{came.got}, In: append([]lowering.Buf{send}, rows...), Travels: true,
		Exchange: func(ctx context.Context, cg collective.Group, c collective.Call, a *exec.Args) error {
			g, member := l.group(a, axes, experts)
			there, here := exec.Make[int32](a, n), exec.Make[int32](a, n)
			for m := range n {
				there[m], here[m] = int32(segment), int32(segment)
			}
			there[member] = 0
			got := parcelsOf(a, a.Out[0], here, size)
			got[member] = nil
			if err := cg.AllToAll(ctx, c, got, parcelsOf(a, a.In[0], there, size)); err != nil {
				return err
			}
			own, err := l.ownChoices(a, a.In[len(a.In)-1])
			if err != nil {
				return err
			}
			from, at := tokensIn(a.In[1:len(a.In)-1]), exec.Make[int32](a, segment)[:0]
			for t := range len(own) / k {
				if g.Comes(own[t*k:(t+1)*k], member) {
					at = append(at, int32(t))
				}
			}
			stay := rowMove{to: inPacked(a.Out[0], from.values.size, from.values.size, from.weights.size), from: from, at: at}
			stay.to.values.first += member * segment * size
			stay.to.weights.first += member * segment * size
			stay.Piece(0, len(at))
			return nil
		}})
	chosen := e.Temp(graph.T(graph.I32, all, k))
	came.at = e.Temp(graph.T(graph.I32, n*segment))
	return chosen, e.Emit(lowering.KernelSpec{Op: ops.EPArrived, Out: []lowering.Buf{chosen, came.at}, In: []lowering.Buf{came.got, r}, Kernel: func(a *exec.Args) error {
		g, member := l.group(a, axes, experts)
		chosen, at := data[int32](a.Out[0]), data[int32](a.Out[1])
		for i := range chosen {
			chosen[i] = -1
		}
		own, err := l.ownChoices(a, a.In[1])
		if err != nil {
			return err
		}
		arrived := 0
		arrive := func(row int) {
			at[arrived] = int32(row)
			arrived++
		}
		for m, s := range g.Sources {
			first, end := tokens.Part(s)
			row := m * segment
			if m == member {
				copy(chosen[first*k:], own)
				for t := range len(own) / k {
					if g.Comes(own[t*k:(t+1)*k], member) {
						arrive(row)
						row++
					}
				}
				continue
			}
			for ; row < (m+1)*segment; row++ {
				note := packed(a.In[0], row)[tail:]
				t := first + int(int32(binary.LittleEndian.Uint32(note)))
				if t < first {
					break
				}
				if t >= end {
					return DispatchOp{}.NoToken(row-m*segment, m, t-first, end-first)
				}
				for c := range k {
					chosen[t*k+c] = int32(binary.LittleEndian.Uint32(note[4*(1+c):]))
				}
				arrive(row)
			}
		}
		clear(at[arrived:])
		return nil
	}})
}

// ownChoices returns the experts of a rank's routing i32[tokens,K,2], which may come from
// elsewhere than ep_prepare.
func (l epLayer) ownChoices(a *exec.Args, routing array.Array) ([]int32, error) {
	r := data[int32](routing)
	own := exec.Make[int32](a, len(r)/2)
	for i := range own {
		if own[i] = r[2*i]; own[i] < -1 || int(own[i]) >= l.Experts {
			return nil, DispatchOp{}.NoExpert(i, int(own[i]), l.Experts)
		}
	}
	return own, nil
}

// through returns i32[rows of the zones]: for every row of the zones the row of got that fills
// it, -1 for rows that belong to no pair.
func (came *inlined) through(e *lowering.Emitter, j journey) (lowering.Buf, error) {
	from := e.Temp(j.from.Type)
	return from, e.Emit(lowering.KernelSpec{Op: ops.EPFromSegments, Out: []lowering.Buf{from}, In: []lowering.Buf{j.from, came.at}, Kernel: func(a *exec.Args) error {
		from, at := data[int32](a.Out[0]), data[int32](a.In[1])
		for i, j := range data[int32](a.In[0]) {
			if from[i] = j; j >= 0 {
				from[i] = at[j]
			}
		}
		return nil
	}})
}

// fillSegments sets at to the token of every row of the segments of the other members, -1 behind the last row of a
// segment. order has the tokens that leave for each member, rows[member] of them.
func fillSegments(at, order, rows []int32, member, segment int) {
	for m, n := range rows {
		for i := range segment {
			switch {
			case m == member:
			case i < int(n):
				at[i] = order[i]
			default:
				at[i] = -1
			}
		}
		if order = order[n:]; m != member {
			at = at[segment:]
		}
	}
}
