package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// defaultAxis is the mesh axis splitting the experts, unless a layer names another axis.
const defaultAxis = "ep"

// epLayer holds the parameters common to the primitives of one MoE layer.
type epLayer struct {
	ep.Layer
	receive  int
	axis     string
	exchange ep.Exchange
	wire     graph.DType
}

func (l epLayer) String() string {
	s := fmt.Sprintf("experts=%d capacity=%d align=%d axis=%q", l.Experts, l.Capacity, l.Align, l.axis)
	if l.receive > 0 {
		s += fmt.Sprintf(" receive=%d", l.receive)
	}
	if l.exchange != ep.Rows {
		s += fmt.Sprintf(" exchange=%q", string(l.exchange))
	}
	if l.wire != graph.NoDType {
		s += " wire=" + l.wire.String()
	}
	return s
}

// check returns an error if tokens × choices cannot be routed, or if the layer's exchange or
// wire type is invalid.
func (l epLayer) check(tokens, choices int) error {
	if err := l.exchange.Validate(); err != nil {
		return err
	}
	if l.receive < 0 {
		return fmt.Errorf("receive=%d, want 0 for no limit or the number of rows that a rank accepts", l.receive)
	}
	switch l.wire {
	case graph.NoDType:
	case graph.F32, graph.BF16, graph.F16:
		if l.exchange != ep.Sum {
			return fmt.Errorf("wire=%s without exchange=%q; rows travel as they are, or in 8 bits", l.wire, string(ep.Sum))
		}
	default:
		return fmt.Errorf("wire=%s, want f32, bf16, f16, f8_e4m3 or f8_e5m2, or nothing", l.wire)
	}
	return l.Check(tokens, choices)
}

// dispatchOf returns the operation dispatching rows by a routing made by ep_prepare or
// ep_copies.
func dispatchOf(routing *graph.Value) (d DispatchOp, ok bool) {
	if routing.Def == nil {
		return d, false
	}
	switch p := routing.Def.Prim.(type) {
	case PrepareOp:
		return p.dispatch(), true
	case CopiesOp:
		return p.dispatch(routing.Def.In[1].Type.Len()), true
	}
	return d, false
}

// checkLayer returns an error if ep_prepare or ep_copies made the routing for another layer.
func (l epLayer) checkLayer(routing *graph.Value) error {
	if d, ok := dispatchOf(routing); ok && d.layer() != l {
		return fmt.Errorf("%v, but the routing was made by %s with %v; give both the same", l, routing.Def.Prim.Name(), d.layer())
	}
	return nil
}

// checkRanges returns an error if the mesh has ranges for another number of experts.
func (l epLayer) checkRanges(m sharding.Mesh) error {
	if r := m.Ranges(l.axis); r != nil && r.Len() != l.Experts {
		return fmt.Errorf("%d experts over axis %s, whose ranges %s are for %d; give ranges for %d, or the number of ranks", l.Experts, l.axis, r, r.Len(), l.Experts)
	}
	return nil
}

// experts returns the split of the experts over the ranks along their axis.
func (l epLayer) experts(m sharding.Mesh) ep.Split { return m.Cuts(l.expertAxes(m), l.Experts) }

// owners returns the number of ranks over which the experts are split.
func (l epLayer) owners(m sharding.Mesh) int { return max(m.Size(l.axis), 1) }

// members returns the number of ranks exchanging rows with each other, for tokens split over
// axes. It is 1 if one rank has all experts, and if the tokens are whole over the experts'
// axis: each rank then gathers the rows of its own experts.
func (l epLayer) members(m sharding.Mesh, axes []string) int {
	if !sharding.Over(axes, l.axis) {
		return 1
	}
	return l.owners(m)
}

// groupTokens returns the number of tokens of the largest group of ranks exchanging rows, for
// tokens split over axes.
func (l epLayer) groupTokens(m sharding.Mesh, axes []string, tokens int) int {
	cuts := m.Cuts(axes, tokens)
	if !l.travels(m, axes) {
		return cuts.Largest()
	}
	most, sources := 0, make([]int, l.members(m, axes))
	for rank := range m.Ranks() {
		if l.sources(sources, m, rank, axes) > 0 {
			continue // each group is counted at its first member
		}
		sum := 0
		for _, s := range sources {
			sum += cuts.Size(s)
		}
		most = max(most, sum)
	}
	return most
}

// rowsSpec returns the placement of rows in the expert order of routing, for tokens split over
// axes. All ranks have the same capacity: the most rows that the rank with the most experts can
// receive in the largest group, limited by l.receive.
func (l epLayer) rowsSpec(m sharding.Mesh, axes []string, routing *graph.Value, layer graph.Primitive) sharding.Spec {
	experts, each := l.experts(m).Largest(), routing.Type.Shape[1]
	if distinct(routing) {
		each = min(each, experts)
	}
	pairs := l.accepted(l.groupTokens(m, axes, routing.Type.Shape[0]), m, axes) * each
	split := axes
	if l.owners(m) > 1 && !sharding.Over(axes, l.axis) {
		split = append(slices.Clone(axes), l.axis)
	}
	return sharding.Spec{
		Dims:   [][]string{split},
		Ragged: &sharding.Ragged{Routing: routing, Tokens: axes, Rows: l.RankRows(pairs, experts), Layer: layer},
	}
}

// accepted returns an upper bound of the rows that a rank accepts from a group with the given
// number of tokens, split over axes.
func (l epLayer) accepted(tokens int, m sharding.Mesh, axes []string) int {
	if l.receive > 0 && l.travels(m, axes) {
		return min(tokens, l.receive)
	}
	return tokens
}

// distinct reports whether no token of a routing can choose an expert twice. A rank with n
// experts, or n replicas, then has at most n rows for a token.
func distinct(routing *graph.Value) bool {
	if routing.Def == nil {
		return false
	}
	if _, ok := routing.Def.Prim.(CopiesOp); ok {
		return distinct(routing.Def.In[0].Origin())
	}
	p, ok := routing.Def.Prim.(PrepareOp)
	if !ok {
		return false
	}
	chosen := routing.Def.In[0].Origin()
	for chosen.Def != nil {
		in := chosen.Def.In
		switch chosen.Def.Prim.(type) {
		case RouteOp, topKOp:
			return true
		case reshapeOp:
			// Merges the leading dimensions of the choices.
			if chosen.Rank() == 0 || in[0].Rank() == 0 || chosen.Dim(-1) != in[0].Dim(-1) {
				return p.Distinct
			}
		case convertElementTypeOp, shardingConstraintOp, stopGradientOp:
		default:
			return p.Distinct
		}
		chosen = in[0].Origin()
	}
	return p.Distinct
}

// group returns this rank's group, the ranks that together hold the experts once, and the rank's
// index in it, for tokens split over axes. experts is the split of the experts.
func (l epLayer) group(a *exec.Args, axes []string, experts ep.Split) (ep.Group, int) {
	g := ep.Group{Experts: experts, Sources: exec.Make[int](a, l.members(a.Mesh, axes))}
	return g, l.sources(g.Sources, a.Mesh, a.Rank, axes)
}

// sources sets dst to each member's row in the layer's table, for the members of the rank's group,
// or to the one row of replicated tokens. It returns the rank's index in the group.
func (l epLayer) sources(dst []int, m sharding.Mesh, rank int, axes []string) (member int) {
	member = m.Index(rank, []string{l.axis})
	if len(dst) == 1 {
		dst[0] = m.Index(rank, axes)
		return member
	}
	for i := range dst {
		dst[i] = m.Index(m.Along(rank, l.axis, i), axes)
	}
	return member
}

// Group returns the rank's group, the ranks that together hold the experts once, and the rank's
// index in it, for tokens split over axes.
func (p DispatchOp) Group(m sharding.Mesh, rank int, axes []string) (ep.Group, int) {
	l := p.layer()
	g := ep.Group{Experts: l.experts(m), Sources: make([]int, l.members(m, axes))}
	return g, l.sources(g.Sources, m, rank, axes)
}

// Leaving returns the experts [lo, hi) for which the rank packs rows of its tokens, split over
// axes: all experts or, if the tokens are replicated over the ranks holding experts, the rank's
// own.
func (p DispatchOp) Leaving(m sharding.Mesh, rank int, axes []string) (lo, hi int) {
	return p.layer().leaving(m, rank, axes)
}

func (l epLayer) leaving(m sharding.Mesh, rank int, axes []string) (lo, hi int) {
	if l.travels(m, axes) {
		return 0, l.Experts
	}
	start, n := m.Part(rank, l.expertAxes(m), l.Experts)
	return start, start + n
}

// planKey identifies an integer buffer shared by dispatch, combine and the grouped matmuls
// of one routing. Such a buffer depends on the routing alone.
type planKey struct {
	layer   epLayer
	routing *graph.Value
	axes    string
	name    string
}

func (l epLayer) key(routing *graph.Value, axes []string, name string) planKey {
	return planKey{l, routing, fmt.Sprint(axes), name}
}

// table returns i32[sources, E]: the number of pairs kept by each source, in token order, for
// each expert. ep_prepare has computed the table for its routing. For other routings it is
// counted from the choices of all ranks or, if no rows travel, gathered from each rank's counts.
func (l epLayer) table(e *lowering.Emitter, routing *graph.Value, axes []string) (lowering.Buf, error) {
	return e.Memo(l.key(routing, axes, "table"), func() (lowering.Buf, error) {
		if l.travels(e.Mesh, axes) {
			chosen, err := l.chosen(e, routing, axes)
			if err != nil {
				return lowering.Buf{}, err
			}
			return l.countChoices(e, chosen, axes)
		}
		r, err := l.routing(e, routing, axes)
		if err != nil {
			return lowering.Buf{}, err
		}
		mine := e.Temp(graph.T(graph.I32, l.Experts))
		err = e.Emit(lowering.KernelSpec{Op: ops.EPCount, Out: []lowering.Buf{mine}, In: []lowering.Buf{r}, Kernel: func(a *exec.Args) error {
			n := data[int32](a.Out[0])
			clear(n)
			routing := data[int32](a.In[0])
			for i := 0; i < len(routing); i += 2 {
				switch x := routing[i]; {
				case x >= 0 && int(x) < len(n):
					n[x]++
				case x != -1:
					return DispatchOp{}.NoExpert(i/2, int(x), len(n))
				}
			}
			return nil
		}})
		if err != nil {
			return lowering.Buf{}, err
		}
		all := e.Temp(graph.T(graph.I32, e.Mesh.Parts(axes), l.Experts))
		e.AllGather(axes, all, mine)
		return all, nil
	})
}

func (l epLayer) routing(e *lowering.Emitter, routing *graph.Value, axes []string) (lowering.Buf, error) {
	return e.Have(routing, sharding.Spec{Dims: [][]string{axes, nil, nil}})
}

// counts returns i32[experts of the rank]: the number of this rank's rows for each expert.
func (l epLayer) counts(e *lowering.Emitter, routing *graph.Value, axes []string, rows int) (lowering.Buf, error) {
	return e.Memo(l.key(routing, axes, "counts"), func() (lowering.Buf, error) {
		table, err := l.table(e, routing, axes)
		if err != nil {
			return lowering.Buf{}, err
		}
		experts := l.experts(e.Mesh)
		out := e.Placed(graph.T(graph.I32, l.Experts), sharding.Spec{Dims: [][]string{l.expertAxes(e.Mesh)}})
		return out, e.Emit(lowering.KernelSpec{Op: ops.EPZones, Out: []lowering.Buf{out}, In: []lowering.Buf{table}, Kernel: func(a *exec.Args) error {
			g, member := l.group(a, axes, experts)
			start := exec.Make[int32](a, experts.Size(member))
			if used := g.Zones(start, data[int32](a.Out[0]), data[int32](a.In[0]), member, l.Align); used > rows {
				return DispatchOp{}.NoRoom(used, rows)
			}
			return nil
		}})
	})
}

// sendPlace returns i32[T,K]: for every pair of this rank, its index among the packed rows,
// sorted by expert, token and choice. It is -1 for a pair without a row, and for a pair
// with its row on another rank (see DispatchOp.Leaving).
func (l epLayer) sendPlace(e *lowering.Emitter, routing *graph.Value, axes []string) (lowering.Buf, error) {
	return e.Memo(l.key(routing, axes, "send"), func() (lowering.Buf, error) {
		// The table comes first: counting checks routings not made by ep_prepare.
		if _, err := l.table(e, routing, axes); err != nil {
			return lowering.Buf{}, err
		}
		r, err := l.routing(e, routing, axes)
		if err != nil {
			return lowering.Buf{}, err
		}
		out := e.Placed(graph.T(graph.I32, routing.Type.Shape[:2]...), sharding.Spec{Dims: [][]string{axes, nil}})
		return out, e.Emit(lowering.KernelSpec{Op: ops.EPSendOrder, Out: []lowering.Buf{out}, In: []lowering.Buf{r}, Kernel: func(a *exec.Args) error {
			place := data[int32](a.Out[0])
			order := exec.Make[int32](a, len(place))
			lo, hi := l.leaving(a.Mesh, a.Rank, axes)
			n := ep.SendOrder(order, exec.Make[int32](a, hi-lo), data[int32](a.In[0]), lo)
			ep.Inverse(place, order[:n])
			return nil
		}})
	})
}

// recvOrder returns i32[capacity]: for each received row, its index in expert order.
func (l epLayer) recvOrder(e *lowering.Emitter, routing *graph.Value, axes []string, rows int) (lowering.Buf, error) {
	return e.Memo(l.key(routing, axes, "recv"), func() (lowering.Buf, error) {
		table, err := l.table(e, routing, axes)
		if err != nil {
			return lowering.Buf{}, err
		}
		experts := l.experts(e.Mesh)
		out := e.Temp(graph.T(graph.I32, rows))
		return out, e.Emit(lowering.KernelSpec{Op: ops.EPRecvOrder, Out: []lowering.Buf{out}, In: []lowering.Buf{table}, Kernel: func(a *exec.Args) error {
			g, member := l.group(a, axes, experts)
			n := experts.Size(member)
			start, counts := exec.Make[int32](a, n), exec.Make[int32](a, n)
			kept := data[int32](a.In[0])
			if used := g.Zones(start, counts, kept, member, l.Align); used > rows {
				return DispatchOp{}.NoRoom(used, rows)
			}
			g.RecvOrder(data[int32](a.Out[0]), start, kept, member)
			return nil
		}})
	})
}

// localOrder maps between tokens and rows in expert order, if rows stay on their rank. A pair
// without a row has -1, and so has a row without a pair.
type localOrder struct {
	pairRow      lowering.Buf // i32[T,K]: the row of every pair of this rank
	from, choice lowering.Buf // i32[rows]: the token and the choice of every row
}

func (l epLayer) localOrder(e *lowering.Emitter, routing *graph.Value, axes []string, rows int) (o localOrder, err error) {
	for _, b := range []struct {
		dst  *lowering.Buf
		name string
	}{{&o.from, "own from"}, {&o.choice, "own choice"}} {
		if *b.dst, err = e.Memo(l.key(routing, axes, b.name), func() (lowering.Buf, error) { return e.Temp(graph.T(graph.I32, rows)), nil }); err != nil {
			return o, err
		}
	}
	o.pairRow, err = e.Memo(l.key(routing, axes, "own home"), func() (lowering.Buf, error) {
		place, err := l.sendPlace(e, routing, axes)
		if err != nil {
			return place, err
		}
		recv, err := l.recvOrder(e, routing, axes, rows)
		if err != nil {
			return recv, err
		}
		out := e.Placed(graph.T(graph.I32, routing.Type.Shape[:2]...), place.Spec)
		return out, e.Emit(lowering.KernelSpec{Op: ops.EPOrder, Out: []lowering.Buf{out, o.from, o.choice}, In: []lowering.Buf{place, recv}, Kernel: func(a *exec.Args) error {
			ep.Order(data[int32](a.Out[0]), data[int32](a.Out[1]), data[int32](a.Out[2]), data[int32](a.In[0]), data[int32](a.In[1]), a.In[0].Type.Shape[1])
			return nil
		}})
	})
	return o, err
}
