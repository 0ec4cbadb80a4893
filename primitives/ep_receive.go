package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// A rank with a limit accepts the first rows in the order of the batch. Every rank has the
// choices of all ranks, so it determines the remaining pairs of the whole batch before any row
// travels.

// limits reports whether ranks accept a limited number of rows, for tokens split over axes.
func (l epLayer) limits(m sharding.Mesh, axes []string) bool {
	return l.receive > 0 && l.travels(m, axes)
}

// receiveGroup is a group of ranks exchanging rows, and the rank of each of its members.
type receiveGroup struct {
	ep.Group
	ranks []int
}

// receiveGroups returns the groups of ranks exchanging rows. If several groups have the same
// tokens, such as groups along another axis, it returns the first.
func (l epLayer) receiveGroups(m sharding.Mesh, axes []string) []receiveGroup {
	var all []receiveGroup
	seen := make(map[int]bool)
	for rank := range m.Ranks() {
		g := receiveGroup{Group: ep.Group{Experts: l.experts(m), Sources: make([]int, l.members(m, axes))}}
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

// receive returns chosen i32[T,K] without the pairs of rows that ranks do not accept. chosen has
// the pairs remaining after the drops of the experts' capacities.
func (p PrepareOp) receive(e *lowering.Emitter, axes []string, chosen lowering.Buf) (lowering.Buf, error) {
	l := p.layer()
	groups, tokens := l.receiveGroups(e.Mesh, axes), e.Mesh.Cuts(axes, chosen.Type.Shape[0])
	kept := e.Temp(chosen.Type)
	return kept, e.Emit(lowering.KernelSpec{Op: ops.EPReceive, Out: []lowering.Buf{kept}, In: []lowering.Buf{chosen}, Kernel: func(a *exec.Args) error {
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

// prepareRows emits the kernel of ep_prepare for ranks with a limit. chosen i32[T,K] has the pairs
// after the drops, and all i32[sources,E] the counts before.
func (p PrepareOp) prepareRows(e *lowering.Emitter, axes []string, out []lowering.Buf, idx, all, chosen lowering.Buf) error {
	tokens := e.Mesh.Cuts(axes, chosen.Type.Shape[0])
	return e.Emit(lowering.KernelSpec{Op: ops.EPPrepareRows, Out: out, In: []lowering.Buf{idx, all, chosen}, Kernel: func(a *exec.Args) error {
		if err := p.assign(a, axes); err != nil {
			return err
		}
		return p.accept(a.Out[0], a.Out[1], a.Out[2], a.Out[3], a.Out[5], a.In[2], tokens, a.Index(axes))
	}})
}

// accept removes the pairs missing in chosen i32[T,K] from a rank's routing, and marks them as
// dropped. It counts the remaining pairs in counts, padded and, for each source, table. The rank
// has part own of the tokens.
func (p PrepareOp) accept(routing, dropped, counts, padded, table, chosen array.Array, tokens ep.Split, own int) error {
	pairs, k := data[int32](chosen), chosen.Type.Shape[1]
	lo, hi := tokens.Part(own)
	r, drop := data[int32](routing), data[bool](dropped)
	for i, x := range pairs[lo*k : hi*k] {
		if x < 0 && r[2*i] >= 0 {
			r[2*i], r[2*i+1], drop[i] = -1, -1, true
		}
	}
	kept := data[int32](table)
	clear(kept)
	for s := range tokens.Parts() {
		lo, hi := tokens.Part(s)
		if err := ep.Count(kept[s*p.Experts:(s+1)*p.Experts], pairs[lo*k:hi*k], k); err != nil {
			return err
		}
	}
	n, all := data[int32](counts), data[int32](padded)
	ep.Totals(n, all, kept, 0)
	ep.Padded(all, n, p.Align)
	return nil
}
