package ep

import "sort"

// refPair is one pair and all that the contract says about it.
type refPair struct {
	number, token, expert, queue int
	rank, group, member          int // where the token lives, and who owns the expert within its group
	row                          int // in the zones of that member
	dropped                      bool
}

// refRouting is a routing computed as the contract says: sort all pairs, count, cut,
// place. It shares no code with the package.
type refRouting struct {
	pairs  []refPair // by expert, then number; without those that choose none
	demand []int
	counts []int
	used   [][]int // [group][member]
}

// reference routes idx[T,K], whose tokens live on rankOf[t]; groups lists the
// ranks of each group in member order, and owner the member that has each expert.
func reference(idx []int32, k int, layer Layer, rankOf []int, groups [][]int, owner []int) refRouting {
	e := layer.Experts
	r := refRouting{demand: make([]int, e), counts: make([]int, e)}
	for i, expert := range idx {
		if expert == -1 {
			continue
		}
		p := refPair{number: i, token: i / k, expert: int(expert), rank: rankOf[i/k]}
		for g, ranks := range groups {
			for _, rank := range ranks {
				if rank == p.rank {
					p.group, p.member = g, owner[p.expert]
				}
			}
		}
		r.pairs = append(r.pairs, p)
	}
	sort.Slice(r.pairs, func(i, j int) bool {
		a, b := r.pairs[i], r.pairs[j]
		if a.expert != b.expert {
			return a.expert < b.expert
		}
		return a.number < b.number
	})
	for i := range r.pairs {
		p := &r.pairs[i]
		p.queue = r.demand[p.expert]
		r.demand[p.expert]++
		p.dropped = layer.Capacity > 0 && p.queue >= layer.Capacity
		if !p.dropped {
			r.counts[p.expert]++
		}
	}
	// Place row by row: a new expert moves to the next multiple of Align.
	align := layer.Align
	if align == 0 {
		align = 1
	}
	for g, ranks := range groups {
		ends := make([]int, len(ranks))
		expert := make([]int, len(ranks))
		for i := range r.pairs {
			p := &r.pairs[i]
			if p.group != g || p.dropped {
				continue
			}
			for p.expert != expert[p.member] && ends[p.member]%align != 0 {
				ends[p.member]++
			}
			expert[p.member] = p.expert
			p.row = ends[p.member]
			ends[p.member]++
		}
		for m := range ends {
			for ends[m]%align != 0 {
				ends[m]++
			}
		}
		r.used = append(r.used, ends)
	}
	return r
}
