package primitives

import (
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// If rows travel, every rank gathers the choices of all ranks. From these it computes the
// counts, the rows to send and to receive, and their permutation. The all_to_all therefore
// carries rows and weights only, without metadata.

// travels reports whether rows of tokens split over axes are sent between ranks.
func (l epLayer) travels(m sharding.Mesh, axes []string) bool { return l.members(m, axes) > 1 }

// countChoices emits the kernel counting the pairs of each source for each expert, into
// i32[sources,E]. chosen i32[T,K] has been checked; axes split its tokens.
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

// keepChoices returns chosen i32[T,K] without the pairs exceeding the capacity.
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

// chosen returns i32[T,K] of the whole batch: the expert of each kept pair, -1 for others.
// ep_prepare has gathered it for its routing. For other routings the experts are gathered here.
// Rows must travel.
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

// rowExchange holds the index buffers of the exchange of rows, computed by ep_journey.
type rowExchange struct {
	// sent i32[most rows sent]: the token of each sent row, in the order of
	// ep.Group.RowsOut.
	sent lowering.Buf
	// pairRow i32[T,K]: for every pair of this rank, the index of its row in sent, -1 for a
	// pair without a row.
	pairRow lowering.Buf
	// from and choice, i32[rows in expert order]: for every row, the index of the received
	// row filling it, and the choice of that row's token; -1 for rows without a pair.
	from, choice lowering.Buf
	// sizes i32[2,members]: the number of rows sent to each member, and received from it.
	sizes    lowering.Buf
	capacity int // upper bound of the rows received
}

// rowExchange returns the buffers of the exchange. rows is the capacity in expert order.
func (l epLayer) rowExchange(e *lowering.Emitter, routing *graph.Value, axes []string, rows int) (j rowExchange, err error) {
	all, k, n := routing.Type.Shape[0], routing.Type.Shape[1], l.members(e.Mesh, axes)
	tokens, experts := e.Mesh.Cuts(axes, all), l.experts(e.Mesh)
	j.capacity = l.arrivals(e.Mesh, axes, all, k)
	memo := func(dst *lowering.Buf, name string, make func() (lowering.Buf, error)) {
		if err == nil {
			*dst, err = e.Memo(l.key(routing, axes, name), make)
		}
	}
	temp := func(dims ...int) func() (lowering.Buf, error) {
		return func() (lowering.Buf, error) { return e.Temp(graph.T(graph.I32, dims...)), nil }
	}
	memo(&j.pairRow, "home", func() (lowering.Buf, error) {
		return e.Placed(graph.T(graph.I32, all, k), sharding.Spec{Dims: [][]string{axes, nil}}), nil
	})
	memo(&j.from, "from", temp(rows))
	memo(&j.choice, "choice", temp(rows))
	memo(&j.sizes, "sizes", temp(2, n))
	memo(&j.sent, "out", func() (lowering.Buf, error) {
		out := e.Temp(graph.T(graph.I32, tokens.Largest()*min(k, n)))
		chosen, err := l.chosen(e, routing, axes)
		if err != nil {
			return out, err
		}
		table, err := l.table(e, routing, axes)
		if err != nil {
			return out, err
		}
		return out, e.Emit(lowering.KernelSpec{Op: ops.EPJourney, Out: []lowering.Buf{out, j.pairRow, j.from, j.choice, j.sizes}, In: []lowering.Buf{chosen, table}, Kernel: func(a *exec.Args) error {
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
			if arrived > j.capacity {
				return DispatchOp{}.NoRoom(arrived, j.capacity)
			}
			return nil
		}})
	})
	return j, err
}

// Arrivals returns an upper bound of the rows received by a rank, for tokens with k choices
// split over axes.
func (p DispatchOp) Arrivals(m sharding.Mesh, axes []string, tokens, k int) int {
	return p.layer().arrivals(m, axes, tokens, k)
}

func (l epLayer) arrivals(m sharding.Mesh, axes []string, tokens, k int) int {
	tokens = l.accepted(l.groupTokens(m, axes, tokens), m, axes)
	unaligned := l.Layer
	unaligned.Align = 0
	return min(tokens, unaligned.RankRows(tokens*k, l.experts(m).Largest()))
}
