package primitives

import (
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// Where tokens travel, every rank gathers the choices of all ranks. From these it computes
// by itself how many pairs there are, which rows leave and arrive, and where these belong.
// So nothing but rows and their weights travels with the rows.

// travels reports whether rows of tokens that are split over axes go from rank to rank.
func (l epLayer) travels(m sharding.Mesh, axes []string) bool { return l.members(m, axes) > 1 }

// countChoices emits a kernel that counts into i32[sources,E] how many pairs of each source
// choose each expert. chosen i32[T,K] has been checked; axes split its tokens.
func (l epLayer) countChoices(e *lowering.Emitter, chosen lowering.Buf, axes []string) (lowering.Buf, error) {
	tokens, k := e.Mesh.Cuts(axes, chosen.Type.Shape[0]), chosen.Type.Shape[1]
	table := e.Temp(graph.T(graph.I32, tokens.Parts(), l.Experts))
	return table, e.Emit(lowering.KernelSpec{Op: ops.EPTable, Out: []lowering.Buf{table}, In: []lowering.Buf{chosen}, Kernel: func(a *exec.Args) error {
		table, chosen := data[int32](a.Out[0]), data[int32](a.In[0])
		clear(table)
		for s := range tokens.Parts() {
			lo, hi := tokens.Part(s)
			if err := ep.Count(table[s*l.Experts:(s+1)*l.Experts], chosen[lo*k:hi*k], k); err != nil {
				return err
			}
		}
		return nil
	}})
}

// keepChoices returns chosen i32[T,K] without the pairs that the capacity drops.
func (l epLayer) keepChoices(e *lowering.Emitter, chosen lowering.Buf) (lowering.Buf, error) {
	if l.Capacity == 0 {
		return chosen, nil
	}
	kept := e.Temp(chosen.Type)
	return kept, e.Emit(lowering.KernelSpec{Op: ops.EPKeep, Out: []lowering.Buf{kept}, In: []lowering.Buf{chosen}, Kernel: func(a *exec.Args) error {
		kept := data[int32](a.Out[0])
		copy(kept, data[int32](a.In[0]))
		ep.Keep(kept, exec.Make[int32](a, l.Experts), l.Capacity)
		return nil
	}})
}

// chosen returns i32[T,K] of the whole batch: the expert of each pair that is kept, otherwise
// -1. For a routing made by ep_prepare, ep_prepare has
// gathered it; from other routings the experts are gathered. Tokens must travel.
func (l epLayer) chosen(e *lowering.Emitter, routing *graph.Value, axes []string) (lowering.Buf, error) {
	return e.Memo(l.key(routing, axes, "chosen"), func() (lowering.Buf, error) {
		r, err := l.routing(e, routing, axes)
		if err != nil {
			return lowering.Buf{}, err
		}
		all := graph.T(graph.I32, routing.Type.Shape[:2]...)
		mine := e.Placed(all, sharding.Spec{Dims: [][]string{axes, nil}})
		if err := e.Emit(lowering.KernelSpec{Op: ops.EPChoices, Out: []lowering.Buf{mine}, In: []lowering.Buf{r}, Kernel: func(a *exec.Args) error {
			routing := data[int32](a.In[0])
			for i := range data[int32](a.Out[0]) {
				x := routing[2*i]
				if x < -1 || int(x) >= l.Experts {
					return DispatchOp{}.NoExpert(i, int(x), l.Experts)
				}
				data[int32](a.Out[0])[i] = x
			}
			return nil
		}}); err != nil {
			return lowering.Buf{}, err
		}
		return e.Reshard(all, mine, sharding.Spec{})
	})
}

// journey is which rows travel to their experts.
type journey struct {
	// out i32[rows that leave at most]: the token of each row that leaves, in the order of
	// ep.Group.RowsOut.
	out lowering.Buf
	// home i32[T,K]: for every pair of this rank the place of its row in out, -1 for a pair
	// without a row.
	home lowering.Buf
	// from and choice, i32[rows of the zones]: for every row of the zones which of the rows
	// that arrive fills it, and to which of the token's choices it belongs; -1 for rows that
	// belong to no pair.
	from, choice lowering.Buf
	// sizes i32[2,members]: how many rows leave for each member, and how many arrive.
	sizes lowering.Buf
	room  int // the number of rows that arrive at most
}

// journey returns the buffers that say which rows travel, for rows that take `rows` rows in
// the zones.
func (l epLayer) journey(e *lowering.Emitter, routing *graph.Value, axes []string, rows int) (j journey, err error) {
	all, k, n := routing.Type.Shape[0], routing.Type.Shape[1], l.members(e.Mesh, axes)
	tokens, experts := e.Mesh.Cuts(axes, all), l.experts(e.Mesh)
	j.room = l.arrivals(e.Mesh, axes, all, k)
	memo := func(dst *lowering.Buf, what string, make func() (lowering.Buf, error)) {
		if err == nil {
			*dst, err = e.Memo(l.key(routing, axes, what), make)
		}
	}
	temp := func(dims ...int) func() (lowering.Buf, error) {
		return func() (lowering.Buf, error) { return e.Temp(graph.T(graph.I32, dims...)), nil }
	}
	memo(&j.home, "home", func() (lowering.Buf, error) {
		return e.Placed(graph.T(graph.I32, all, k), sharding.Spec{Dims: [][]string{axes, nil}}), nil
	})
	memo(&j.from, "from", temp(rows))
	memo(&j.choice, "choice", temp(rows))
	memo(&j.sizes, "sizes", temp(2, n))
	memo(&j.out, "out", func() (lowering.Buf, error) {
		out := e.Temp(graph.T(graph.I32, tokens.Largest()*min(k, n)))
		chosen, err := l.chosen(e, routing, axes)
		if err != nil {
			return out, err
		}
		table, err := l.table(e, routing, axes)
		if err != nil {
			return out, err
		}
		return out, e.Emit(lowering.KernelSpec{Op: ops.EPJourney, Out: []lowering.Buf{out, j.home, j.from, j.choice, j.sizes}, In: []lowering.Buf{chosen, table}, Kernel: func(a *exec.Args) error {
			g, member := l.group(a, axes, experts)
			chosen, sizes := data[int32](a.In[0]), data[int32](a.Out[4])
			first, end := tokens.Part(g.Sources[member])
			own := chosen[first*k : end*k]
			sent := g.RowsOut(data[int32](a.Out[0]), sizes[:n], data[int32](a.Out[1]), own, k, exec.Make[int32](a, 2*n))
			for i := sent; i < len(data[int32](a.Out[0])); i++ {
				data[int32](a.Out[0])[i] = -1
			}
			start, counts := exec.Make[int32](a, experts.Size(member)), exec.Make[int32](a, experts.Size(member))
			if used := g.Zones(start, counts, data[int32](a.In[1]), member, l.Align); used > rows {
				return DispatchOp{}.NoRoom(used, rows)
			}
			arrived := g.RowsIn(data[int32](a.Out[2]), data[int32](a.Out[3]), sizes[n:], chosen, start, tokens, k, member)
			if arrived > j.room {
				return DispatchOp{}.NoRoom(arrived, j.room)
			}
			return nil
		}})
	})
	return j, err
}

// choiceOf returns the argument that only rows with weights need.
func (j *journey) choiceOf(payload []lowering.Buf) []lowering.Buf {
	if len(payload) == 2 {
		return []lowering.Buf{j.choice}
	}
	return nil
}

// Arrivals returns how many rows a rank receives at most, of tokens of k choices that are split
// over axes.
func (p DispatchOp) Arrivals(m sharding.Mesh, axes []string, tokens, k int) int {
	return p.layer().arrivals(m, axes, tokens, k)
}

func (l epLayer) arrivals(m sharding.Mesh, axes []string, tokens, k int) int {
	tokens = l.accepted(l.groupTokens(m, axes, tokens), m, axes)
	unaligned := l.Layer
	unaligned.Align = 0
	return min(tokens, unaligned.RankRows(tokens*k, l.experts(m).Largest()))
}
