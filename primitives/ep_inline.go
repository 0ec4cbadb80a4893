package primitives

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
)

// With PrepareOp.Inline, choices are not gathered before rows travel. Every rank sends every
// member of its group a segment with room for all of its tokens, so that sizes are known. Behind
// each row stand the number of the token and its choices; number -1 ends a segment. The rank
// that receives them learns what it has to know of other ranks' choices: those of the tokens
// whose rows it has.

// alone reports whether ep_prepare needs nothing from other ranks: nothing can be dropped, and
// only the layer's own operations use the routing.
func (p PrepareOp) alone(e *lowering.Emitter, axes []string) bool {
	l, t := p.layer(), e.Eqn.In[0].Type.Shape
	if !p.Inline || !l.travels(e.Mesh, axes) {
		return false
	}
	if p.Capacity > 0 && p.Capacity < t[0]*t[1] || p.Receive > 0 && p.Receive < l.groupTokens(e.Mesh, axes, t[0]) {
		return false
	}
	for i, v := range e.Eqn.Out {
		users, result := e.Users(v)
		if result || i > 0 && len(users) > 0 {
			return false
		}
		for _, q := range users {
			switch q.Prim.(type) {
			case DispatchOp, CombineOp, GroupedMatMulOp, GroupedOuterOp, GroupedScaledMatMulOp, GroupedAffineMatMulOp:
				// They read the experts of pairs and not the places in queues.
			default:
				return false
			}
		}
	}
	return true
}

// prepareAlone computes the routing of this rank's tokens. The place of a pair in its queue is
// that among the pairs of this rank. Nobody reads the other results.
func (p PrepareOp) prepareAlone(e *lowering.Emitter, axes []string, out []lowering.Buf, idx lowering.Buf) error {
	tokens := e.Eqn.In[0].Type.Shape[0]
	return e.Emit(lowering.KernelSpec{Name: "ep_prepare_alone", Out: out[:2], In: []lowering.Buf{idx}, Kernel: func(a *exec.Args) error {
		idx, err := indices(a.In[0], p.Experts)
		if err == nil {
			err = ep.Count(exec.Make[int32](a, p.Experts), idx, a.In[0].Type.Shape[1])
		}
		if err != nil {
			first, _ := a.Part(axes, tokens)
			return inBatch(err, first)
		}
		ep.Assign(data[int32](a.Out[0]), data[bool](a.Out[1]), exec.Make[int32](a, p.Experts), idx, 0)
		return nil
	}})
}

// inlined is rows that have arrived with their choices.
type inlined struct {
	sent bool // false if all choices were known before
	got  lowering.Buf
	at   lowering.Buf // i32[rows that arrive]: where each of them lies in got
}

// sendInline emits the exchange of rows and choices, unless the choices are known already, and
// keeps the choices for the layer.
func (l epLayer) sendInline(e *lowering.Emitter, routing *graph.Value, axes []string, payload []lowering.Buf) (came inlined, err error) {
	_, err = e.Memo(l.key(routing, axes, "chosen"), func() (lowering.Buf, error) {
		came.sent = true
		return l.inlineChoices(e, routing, axes, payload, &came)
	})
	return came, err
}

// inlineChoices exchanges rows and choices, and returns chosen i32[T,K]: the choices of this
// rank's tokens and of those whose rows have arrived, and -1 for all others.
func (l epLayer) inlineChoices(e *lowering.Emitter, routing *graph.Value, axes []string, payload []lowering.Buf, came *inlined) (lowering.Buf, error) {
	r, err := l.routing(e, routing, axes)
	if err != nil {
		return lowering.Buf{}, err
	}
	all, k, n := routing.Type.Shape[0], routing.Type.Shape[1], l.members(e.Mesh, axes)
	tokens, experts := e.Mesh.Cuts(axes, all), l.experts(e.Mesh)
	segment := tokens.Largest() // rows
	types := append(rowTypes(payload, k), graph.T(graph.I32, 1+k))
	size := bytesOf(types)
	tail := size - int(types[len(types)-1].Bytes())
	send := e.Packed(n*segment, types...)
	came.got = e.Packed(n*segment, types...)
	if err := e.Emit(lowering.KernelSpec{Name: "ep_pack_inline", Out: []lowering.Buf{send}, In: append(payload[:len(payload):len(payload)], r), Kernel: func(a *exec.Args) error {
		g, _ := l.group(a, axes, experts)
		own, err := l.ownChoices(a, a.In[len(a.In)-1])
		if err != nil {
			return err
		}
		order, rows := exec.Make[int32](a, len(own)), exec.Make[int32](a, n)
		g.RowsOut(order, rows, nil, own, k, exec.Make[int32](a, 2*n))
		exec.Share(a, n*segment, movedGrain(size), segmentsPacked{a.Out[0], a.In[:len(a.In)-1], order, rows, own, segment, tail, k})
		return nil
	}}); err != nil {
		return lowering.Buf{}, err
	}
	e.EmitCollective(lowering.CollectiveSpec{Op: "all_to_all", Axes: []string{l.axis}, DType: graph.U8, Bytes: int64(n*segment) * int64(size),
		Out: []lowering.Buf{came.got}, In: []lowering.Buf{send}, Travels: true,
		Exchange: func(ctx context.Context, g collective.Group, c collective.Call, a *exec.Args) error {
			rows := exec.Make[int32](a, n)
			for i := range rows {
				rows[i] = int32(segment)
			}
			return g.AllToAll(ctx, c, parcelsOf(a, a.Out[0], rows, size), parcelsOf(a, a.In[0], rows, size))
		}})
	chosen := e.Temp(graph.T(graph.I32, all, k))
	came.at = e.Temp(graph.T(graph.I32, n*segment))
	return chosen, e.Emit(lowering.KernelSpec{Name: "ep_arrived", Out: []lowering.Buf{chosen, came.at}, In: []lowering.Buf{came.got, r}, Kernel: func(a *exec.Args) error {
		g, member := l.group(a, axes, experts)
		chosen, at := data[int32](a.Out[0]), data[int32](a.Out[1])
		for i := range chosen {
			chosen[i] = -1
		}
		own, err := l.ownChoices(a, a.In[1])
		if err != nil {
			return err
		}
		first, _ := tokens.Part(g.Sources[member])
		copy(chosen[first*k:], own)
		arrived := 0
		for m, s := range g.Sources {
			first, end := tokens.Part(s)
			for row := m * segment; row < (m+1)*segment; row++ {
				note := packed(a.In[0], row)[tail:]
				t := first + int(int32(binary.LittleEndian.Uint32(note)))
				if t < first {
					break
				}
				if t >= end {
					return fmt.Errorf("row %d of member %d is token %d, want one of its %d", row-m*segment, m, t-first, end-first)
				}
				for c := range k {
					chosen[t*k+c] = int32(binary.LittleEndian.Uint32(note[4*(1+c):]))
				}
				at[arrived] = int32(row)
				arrived++
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
	return from, e.Emit(lowering.KernelSpec{Name: "ep_from_segments", Out: []lowering.Buf{from}, In: []lowering.Buf{j.from, came.at}, Kernel: func(a *exec.Args) error {
		from, at := data[int32](a.Out[0]), data[int32](a.In[1])
		for i, j := range data[int32](a.In[0]) {
			if from[i] = j; j >= 0 {
				from[i] = at[j]
			}
		}
		return nil
	}})
}

// segmentsPacked is the work of packing rows, and behind each its token and the token's
// choices, into segments. What is behind the last row of a segment is zero but for its number.
type segmentsPacked struct {
	buf              array.Array
	payload          []array.Array
	order, rows, own []int32
	segment, tail, k int
}

func (w *segmentsPacked) Piece(lo, hi int) {
	for i := lo; i < hi; i++ {
		dst, m := packed(w.buf, i), i/w.segment
		place := i - m*w.segment
		if place >= int(w.rows[m]) {
			clear(dst)
			binary.LittleEndian.PutUint32(dst[w.tail:], ^uint32(0))
			continue
		}
		for _, n := range w.rows[:m] {
			place += int(n)
		}
		t := int(w.order[place])
		for _, a := range w.payload {
			dst = dst[copy(dst, entry(a, t)):]
		}
		binary.LittleEndian.PutUint32(dst, uint32(t))
		for c, x := range w.own[t*w.k : (t+1)*w.k] {
			binary.LittleEndian.PutUint32(dst[4*(1+c):], uint32(x))
		}
	}
}
