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

// Rows may carry their choices, replacing the all_gather of choices. Counts are then unknown before
// the exchange, so every rank sends every other member of its group a segment of fixed size, with a
// capacity of all of its tokens. Each row is followed by a trailer: the token's number and choices.
// Number -1 ends a segment. The receiver learns the choices of the tokens it receives, and needs no
// others.

// gatherBytes is the payload with a transfer time equal to one additional exchange. Between processes
// on one machine, an all_gather of a few numbers takes about as long as 16 KiB more in an all_to_all,
// and over a network longer.
const gatherBytes = 16 << 10

// inline reports whether rows should carry their choices: if all segments of a rank exceed the most
// bytes of rows sent otherwise by at most gatherBytes. Segments have a row per token for each other
// member; otherwise a token is sent to at most min(n, k) of the n members. payload holds the types of
// the first rows sent.
func (l epLayer) inline(m sharding.Mesh, axes []string, payload []graph.Type, tokens, k int) bool {
	n, segment := l.members(m, axes), m.Cuts(axes, tokens).Largest()
	if n == 1 || l.machines(m, axes) > 1 { // segments address ranks, not machines
		return false
	}
	row := bytesOf(rowTypes(payload, k))
	with := row + bytesOf([]graph.Type{trailerType(payload, k)})
	return (n-1)*segment*with <= min(n, k)*segment*row+gatherBytes
}

// trailerType returns the type of a row's trailer: the number of the token and its choices. If
// elements have 8 bytes, it is padded to a multiple of 8.
func trailerType(payload []graph.Type, k int) graph.Type {
	n := 1 + k
	if payload[0].DType.Size() == 8 {
		n += n % 2
	}
	return graph.T(graph.I32, n)
}

// preparesLocally reports whether ep_prepare, with tokens split over axes, needs no values of other
// ranks except the sums of counts: nothing can be dropped, only the layer's own operations use the
// routing, and the first rows stay on their rank or carry their choices.
func (p PrepareOp) preparesLocally(e *lowering.Emitter, axes []string) bool {
	l, t, out := p.layer(), e.Eqn.In[0].Type.Shape, e.Eqn.Out
	if e.Mesh.Parts(axes) == 1 || l.limits(e.Mesh, axes) && p.Receive < l.groupTokens(e.Mesh, axes, t[0]) {
		return false
	}
	demand := t[0] * t[1] // upper bound of an expert's pairs
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
	sent := !l.travels(e.Mesh, axes) // whether rows need no further choices of other ranks
	for _, q := range users {
		switch q.Prim.(type) {
		case DispatchOp:
			if !sent && !l.inline(e.Mesh, axes, argTypes(q.In[:len(q.In)-1]), t[0], t[1]) {
				return false
			}
			sent = true
		case CombineOp, groupedMatMulOp, groupedOuterOp, groupedScaledMatMulOp, groupedAffineMatMulOp:
			// These read the experts of pairs, but not the positions in queues.
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

// prepareLocal computes the routing of this rank's tokens, with positions among the pairs of this
// rank. If rows stay on their rank, only the rank's own row of the table is read, and the others are
// zero. If counts are used, they are one all_sum, overlapping with the rows' exchange and joined with
// the sums of other layers.
func (p PrepareOp) prepareLocal(e *lowering.Emitter, axes []string, out []lowering.Buf, idx lowering.Buf) error {
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

// inlineRows holds rows received with their choices.
type inlineRows struct {
	sent bool // false if the choices were known before, or are gathered
	got  lowering.Buf
	at   lowering.Buf // i32[received rows]: the row's index in got
}

// sendInline emits the exchange of rows and choices, and keeps the choices for the layer. It does
// nothing if the choices are known already, or if gathering them takes less time.
func (l epLayer) sendInline(e *lowering.Emitter, routing *graph.Value, axes []string, payload []lowering.Buf) (rows inlineRows, err error) {
	if !l.inline(e.Mesh, axes, bufTypes(payload), routing.Type.Shape[0], routing.Type.Shape[1]) {
		return rows, nil
	}
	_, err = e.Memo(l.key(routing, axes, "chosen"), func() (lowering.Buf, error) {
		rows.sent = true
		return l.inlineChoices(e, routing, axes, payload, &rows)
	})
	return rows, err
}

// inlineChoices exchanges rows and choices, setting received. It returns chosen i32[T,K]: the choices
// of this rank's own tokens and of the received tokens, -1 for all others. Rows for the rank's own
// experts are copied, not sent.
func (l epLayer) inlineChoices(e *lowering.Emitter, routing *graph.Value, axes []string, payload []lowering.Buf, received *inlineRows) (lowering.Buf, error) {
	r, err := l.routing(e, routing, axes)
	if err != nil {
		return lowering.Buf{}, err
	}
	all, k, n := routing.Type.Shape[0], routing.Type.Shape[1], l.members(e.Mesh, axes)
	tokens, experts := e.Mesh.Cuts(axes, all), l.experts(e.Mesh)
	segment := tokens.Largest() // rows
	types := append(rowTypes(bufTypes(payload), k), trailerType(bufTypes(payload), k))
	size := bytesOf(types)
	trailerAt := size - bytesOf(types[len(types)-1:])
	send := e.Packed((n-1)*segment, types...)
	received.got = e.Packed(n*segment, types...)
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
		from := tokenLayout(a.In[:len(a.In)-1])
		values := from.values.size
		exec.Share(a, len(at), movedGrain(size), rowMove{to: packedLayout(a.Out[0], values, values, from.weights.size), from: from, at: at, clear: true})
		for i, t := range at {
			row := packedRow(a.Out[0], i)[values+from.weights.size:]
			clear(row) // this rank may have fewer columns than the packed row
			trailer := row[len(row)-size+trailerAt:]
			if binary.LittleEndian.PutUint32(trailer, uint32(t)); t >= 0 {
				for c, x := range own[int(t)*k : int(t+1)*k] {
					binary.LittleEndian.PutUint32(trailer[4*(1+c):], uint32(x))
				}
			}
		}
		return nil
	}}); err != nil {
		return lowering.Buf{}, err
	}
	e.EmitCollective(lowering.CollectiveSpec{Op: ops.AllToAll, Axes: []string{l.axis}, DType: graph.U8, Bytes: int64((n-1)*segment) * int64(size),
		Out: []lowering.Buf{received.got}, In: append([]lowering.Buf{send}, rows...), Travels: true,
		Exchange: func(ctx context.Context, cg collective.Group, c collective.Call, a *exec.Args) error {
			g, member := l.group(a, axes, experts)
			sendRows, recvRows := exec.Make[int32](a, n), exec.Make[int32](a, n)
			for m := range n {
				sendRows[m], recvRows[m] = int32(segment), int32(segment)
			}
			sendRows[member] = 0
			got := memberSlicesOf(a, a.Out[0], recvRows, size)
			got[member] = nil
			if err := cg.AllToAll(ctx, c, got, memberSlicesOf(a, a.In[0], sendRows, size)); err != nil {
				return err
			}
			own, err := l.ownChoices(a, a.In[len(a.In)-1])
			if err != nil {
				return err
			}
			from, at := tokenLayout(a.In[1:len(a.In)-1]), exec.Make[int32](a, segment)[:0]
			for t := range len(own) / k {
				if g.Comes(own[t*k:(t+1)*k], member) {
					at = append(at, int32(t))
				}
			}
			local := rowMove{to: packedLayout(a.Out[0], from.values.size, from.values.size, from.weights.size), from: from, at: at}
			local.to.values.first += member * segment * size
			local.to.weights.first += member * segment * size
			local.Piece(0, len(at))
			return nil
		}})
	chosen := e.Temp(graph.T(graph.I32, all, k))
	received.at = e.Temp(graph.T(graph.I32, n*segment))
	return chosen, e.Emit(lowering.KernelSpec{Op: ops.EPArrived, Out: []lowering.Buf{chosen, received.at}, In: []lowering.Buf{received.got, r}, Kernel: func(a *exec.Args) error {
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
				trailer := packedRow(a.In[0], row)[trailerAt:]
				t := first + int(int32(binary.LittleEndian.Uint32(trailer)))
				if t < first {
					break
				}
				if t >= end {
					return DispatchOp{}.NoToken(row-m*segment, m, t-first, end-first)
				}
				for c := range k {
					chosen[t*k+c] = int32(binary.LittleEndian.Uint32(trailer[4*(1+c):]))
				}
				arrive(row)
			}
		}
		clear(at[arrived:])
		return nil
	}})
}

// ownChoices returns the experts of a rank's routing i32[tokens,K,2]. It checks them, because
// the routing may not be made by ep_prepare.
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

// zoneRows returns i32[rows in expert order]: for every row, the row of got filling it, -1 for
// rows without a pair.
func (r *inlineRows) zoneRows(e *lowering.Emitter, x rowExchange) (lowering.Buf, error) {
	from := e.Temp(x.from.Type)
	return from, e.Emit(lowering.KernelSpec{Op: ops.EPFromSegments, Out: []lowering.Buf{from}, In: []lowering.Buf{x.from, r.at}, Kernel: func(a *exec.Args) error {
		from, at := data[int32](a.Out[0]), data[int32](a.In[1])
		for i, j := range data[int32](a.In[0]) {
			if from[i] = j; j >= 0 {
				from[i] = at[j]
			}
		}
		return nil
	}})
}

// fillSegments sets at to the token of every row in the segments for the other members, -1 after the last row of a
// segment. order has the tokens sent to each member, rows[member] of them.
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
