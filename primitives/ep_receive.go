package primitives

import (
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// A rank that accepts a limited number of rows accepts the first ones in the order of the
// batch. Every rank has the choices of all ranks, and so finds out by itself which pairs of
// the whole batch are left, before any row travels.

// limits reports whether ranks accept a limited number of the rows of tokens that are split
// over axes.
func (l epLayer) limits(m sharding.Mesh, axes []string) bool {
	return l.receive > 0 && l.travels(m, axes)
}

// receivers is a group of ranks that exchange rows, and the rank of each of its members.
type receivers struct {
	ep.Group
	ranks []int
}

// receivers returns the groups whose sources together are all ranks with tokens. Of groups that
// have the same tokens, such as those of ranks along another axis, it returns the first.
func (l epLayer) receivers(m sharding.Mesh, axes []string) []receivers {
	var all []receivers
	seen := make(map[int]bool)
	for rank := range m.Ranks() {
		g := receivers{Group: ep.Group{Experts: l.experts(m), Sources: make([]int, l.members(m, axes))}}
		if l.sources(g.Sources, m, rank, axes) != 0 || seen[g.Sources[0]] {
			continue
		}
		seen[g.Sources[0]] = true
		for i := range g.Sources {
			g.ranks = append(g.ranks, m.Along(rank, l.axis, i))
		}
		all = append(all, g)
	}
	return all
}

// receive returns chosen i32[T,K] without the pairs whose rows ranks do not accept. chosen has
// the pairs that the experts' capacities keep.
func (p PrepareOp) receive(e *lowering.Emitter, axes []string, chosen lowering.Buf) (lowering.Buf, error) {
	l := p.layer()
	groups, tokens := l.receivers(e.Mesh, axes), e.Mesh.Cuts(axes, chosen.Type.Shape[0])
	kept := e.Temp(chosen.Type)
	return kept, e.Emit(lowering.KernelSpec{Name: "ep_receive", Out: []lowering.Buf{kept}, In: []lowering.Buf{chosen}, Kernel: func(a *exec.Args) error {
		kept := data[int32](a.Out[0])
		copy(kept, data[int32](a.In[0]))
		most, at := p.Receive, -1
		for _, g := range groups {
			n := len(g.Sources)
			need := exec.Make[int32](a, n)
			g.Receive(need, kept, tokens, a.In[0].Type.Shape[1], p.Receive, exec.Make[int32](a, n))
			for m, rows := range need {
				if int(rows) > most || int(rows) == most && at >= 0 && g.ranks[m] < at {
					most, at = int(rows), g.ranks[m]
				}
			}
		}
		if p.Trap && at >= 0 {
			return p.TooManyRows(at, most)
		}
		return nil
	}})
}

// prepareRows emits what ep_prepare computes where ranks accept a limited number of rows: chosen
// i32[T,K] has the pairs that are left, and all i32[sources,E] the numbers of those before.
func (p PrepareOp) prepareRows(e *lowering.Emitter, axes []string, out []lowering.Buf, idx, all, chosen lowering.Buf) error {
	tokens := e.Mesh.Cuts(axes, chosen.Type.Shape[0])
	return e.Emit(lowering.KernelSpec{Name: "ep_prepare_rows", Out: out, In: []lowering.Buf{idx, all, chosen}, Kernel: func(a *exec.Args) error {
		if err := p.assign(a, axes); err != nil {
			return err
		}
		routing, dropped, table := data[int32](a.Out[0]), data[bool](a.Out[1]), data[int32](a.Out[5])
		chosen, k := data[int32](a.In[2]), a.In[2].Type.Shape[1]
		lo, hi := tokens.Part(a.Index(axes))
		for i, x := range chosen[lo*k : hi*k] {
			if x < 0 && routing[2*i] >= 0 {
				routing[2*i], routing[2*i+1], dropped[i] = -1, -1, true
			}
		}
		clear(table)
		for s := range tokens.Parts() {
			lo, hi := tokens.Part(s)
			if err := ep.Count(table[s*p.Experts:(s+1)*p.Experts], chosen[lo*k:hi*k], k); err != nil {
				return err
			}
		}
		counts := data[int32](a.Out[2])
		ep.Totals(counts, exec.Make[int32](a, p.Experts), table, 0)
		ep.Padded(data[int32](a.Out[3]), counts, p.Align)
		return nil
	}})
}
