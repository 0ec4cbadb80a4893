package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// defaultAxis is the mesh axis that splits the experts of a layer that names no
// other axis.
const defaultAxis = "ep"

// epLayer is what the primitives of one MoE layer have in common.
type epLayer struct {
	ep.Layer
	axis     string
	exchange ep.Exchange
}

func newEPLayer(experts, capacity, align int, axis string, exchange ep.Exchange) epLayer {
	if axis == "" {
		axis = defaultAxis
	}
	return epLayer{ep.Layer{Experts: experts, Capacity: capacity, Align: align}, axis, exchange}
}

func (l epLayer) String() string {
	return fmt.Sprintf("experts=%d capacity=%d align=%d axis=%q exchange=%q", l.Experts, l.Capacity, l.Align, l.axis, string(l.exchange))
}

// Check returns an error if a batch of tokens × k choices cannot be routed.
func (l epLayer) Check(tokens, k int) error {
	if err := l.exchange.Validate(); err != nil {
		return err
	}
	return l.Layer.Check(tokens, k)
}

// madeFor returns an error if ep_prepare made the routing for another layer.
func (l epLayer) madeFor(routing *graph.Value) error {
	if routing.Def == nil {
		return nil
	}
	if p, ok := routing.Def.Prim.(PrepareOp); ok && p.layer() != l {
		return fmt.Errorf("%v, but the routing was made by ep_prepare with %v; give both the same", l, p.layer())
	}
	return nil
}

// tokenAxes returns the axes that split the tokens while they are dispatched: axes,
// which split them already, and the experts' axis. Ranks that exchange rows thus hold
// different tokens.
func (l epLayer) tokenAxes(m sharding.Mesh, axes []string) ([]string, error) {
	n := m.Size(l.axis)
	if n <= 1 {
		return axes, nil
	}
	if l.Experts%n != 0 {
		return nil, fmt.Errorf("%d experts over the %d ranks of axis %s; want a multiple", l.Experts, n, l.axis)
	}
	if slices.Contains(axes, l.axis) {
		return axes, nil
	}
	return append(slices.Clone(axes), l.axis), nil
}

// local returns how many experts a rank holds.
func (l epLayer) local(m sharding.Mesh) int { return l.Experts / max(m.Size(l.axis), 1) }

// members returns the number of ranks that exchange rows with each other.
func (l epLayer) members(m sharding.Mesh) int { return max(m.Size(l.axis), 1) }

// rowsSpec returns the placement of the rows that routing puts in expert order, of
// tokens that are split over axes. pairs is T·K.
func (l epLayer) rowsSpec(m sharding.Mesh, axes []string, routing *graph.Value, pairs int, layer graph.Primitive) sharding.Spec {
	group := pairs / m.Parts(axes) * l.members(m)
	return sharding.Spec{
		Dims:   [][]string{axes},
		Ragged: &sharding.Ragged{Routing: routing, Rows: l.RankRows(group, l.local(m)), Layer: layer},
	}
}

// group returns the group of ranks with which this rank exchanges rows, and this rank's
// index in it, for tokens that are split over axes.
func (l epLayer) group(a *exec.Args, axes []string) (ep.Group, int) {
	g := ep.Group{Experts: l.Experts, Sources: exec.Make[int](a, l.members(a.Mesh))}
	return g, l.sources(g.Sources, a.Mesh, a.Rank, axes)
}

// sources sets dst to the row of the layer's table that each member of the rank's group
// has, and returns the rank's index in the group.
func (l epLayer) sources(dst []int, m sharding.Mesh, rank int, axes []string) (member int) {
	if len(dst) == 1 {
		dst[0] = m.Index(rank, axes)
		return 0
	}
	member, step := m.Step(rank, l.axis)
	for i := range dst {
		dst[i] = m.Index(rank+(i-member)*step, axes)
	}
	return member
}

// Sources returns, for each rank of the group that exchanges rows, which part it has of
// the tokens, which are split over axes; and the index of the given rank in the group.
func (p DispatchOp) Sources(m sharding.Mesh, rank int, axes []string) (sources []int, member int) {
	l := p.layer()
	sources = make([]int, l.members(m))
	return sources, l.sources(sources, m, rank, axes)
}

// planKey identifies an integer buffer that dispatch, combine and the grouped matmuls
// of one routing share. Such a buffer depends on the routing alone.
type planKey struct {
	layer   epLayer
	routing *graph.Value
	axes    string
	what    string
}

func (l epLayer) key(routing *graph.Value, axes []string, what string) planKey {
	return planKey{l, routing, fmt.Sprint(axes), what}
}

// table returns i32[sources, E]: how many pairs each source, in token order, keeps for
// each expert. For a routing made by ep_prepare, ep_prepare has computed the table; for
// other routings the pairs are counted, where tokens stay on their rank before the counts
// are gathered.
func (l epLayer) table(e *lowering.Emitter, routing *graph.Value, axes []string) (lowering.Buf, error) {
	return e.Memo(l.key(routing, axes, "table"), func() (lowering.Buf, error) {
		if l.travels(e) {
			chosen, err := l.chosen(e, routing, axes)
			if err != nil {
				return lowering.Buf{}, err
			}
			return l.countChoices(e, chosen)
		}
		r, err := l.routing(e, routing, axes)
		if err != nil {
			return lowering.Buf{}, err
		}
		mine := e.Temp(graph.T(graph.I32, l.Experts))
		err = e.Emit(lowering.KernelSpec{Name: "ep_count", Out: []lowering.Buf{mine}, In: []lowering.Buf{r}, Kernel: func(a *exec.Args) error {
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

// counts returns i32[local experts]: how many rows this rank holds of each expert.
func (l epLayer) counts(e *lowering.Emitter, routing *graph.Value, axes []string, rows int) (lowering.Buf, error) {
	return e.Memo(l.key(routing, axes, "counts"), func() (lowering.Buf, error) {
		table, err := l.table(e, routing, axes)
		if err != nil {
			return lowering.Buf{}, err
		}
		out := e.Temp(graph.T(graph.I32, l.local(e.Mesh)))
		return out, e.Emit(lowering.KernelSpec{Name: "ep_zones", Out: []lowering.Buf{out}, In: []lowering.Buf{table}, Kernel: func(a *exec.Args) error {
			g, member := l.group(a, axes)
			start := exec.Make[int32](a, l.local(a.Mesh))
			if used := g.Zones(start, data[int32](a.Out[0]), data[int32](a.In[0]), member, l.Align); used > rows {
				return DispatchOp{}.NoRoom(used, rows)
			}
			return nil
		}})
	})
}

// sendPlace returns i32[T·K]: for every pair of this rank its place among the rows
// that leave, which are sorted by expert, token and choice; -1 for a pair without a
// row.
func (l epLayer) sendPlace(e *lowering.Emitter, routing *graph.Value, axes []string) (lowering.Buf, error) {
	return e.Memo(l.key(routing, axes, "send"), func() (lowering.Buf, error) {
		// The table comes first, since counting checks a routing from elsewhere.
		if _, err := l.table(e, routing, axes); err != nil {
			return lowering.Buf{}, err
		}
		r, err := l.routing(e, routing, axes)
		if err != nil {
			return lowering.Buf{}, err
		}
		out := e.Temp(graph.T(graph.I32, r.Type.Len()/2))
		return out, e.Emit(lowering.KernelSpec{Name: "ep_send_order", Out: []lowering.Buf{out}, In: []lowering.Buf{r}, Kernel: func(a *exec.Args) error {
			place := data[int32](a.Out[0])
			order := exec.Make[int32](a, len(place))
			n := ep.SendOrder(order, exec.Make[int32](a, l.Experts), data[int32](a.In[0]))
			ep.Inverse(place, order[:n])
			return nil
		}})
	})
}

// recvOrder returns i32[rows received at most]: for each received row its row in
// expert order.
func (l epLayer) recvOrder(e *lowering.Emitter, routing *graph.Value, axes []string, rows int) (lowering.Buf, error) {
	return e.Memo(l.key(routing, axes, "recv"), func() (lowering.Buf, error) {
		table, err := l.table(e, routing, axes)
		if err != nil {
			return lowering.Buf{}, err
		}
		out := e.Temp(graph.T(graph.I32, rows))
		return out, e.Emit(lowering.KernelSpec{Name: "ep_recv_order", Out: []lowering.Buf{out}, In: []lowering.Buf{table}, Kernel: func(a *exec.Args) error {
			g, member := l.group(a, axes)
			n := l.local(a.Mesh)
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
