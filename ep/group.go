package ep

import "fmt"

// Group is the ranks that together hold one copy of the experts. If they have
// different tokens they exchange rows, and member m is the rank whose tokens are
// row Sources[m] of a table. If all of them have the same tokens, Sources has one
// element, and Owners says how many they are.
type Group struct {
	Experts int   // E, a multiple of the members
	Sources []int // ascending, so that member order is token order
	Owners  int   // the number of members; 0 means one for each of Sources
}

// members returns the number of ranks among which the experts are divided.
func (g Group) members() int {
	if g.Owners == 0 {
		return len(g.Sources)
	}
	return g.Owners
}

// Validate returns an error if no such group can exist among that many ranks.
func (g Group) Validate(ranks int) error {
	if len(g.Sources) == 0 {
		return fmt.Errorf("ep: group of no ranks, want at least 1")
	}
	if n := g.members(); n < 1 || g.Experts < 1 || g.Experts%n != 0 {
		return fmt.Errorf("ep: %d experts over %d ranks, want a multiple of the ranks", g.Experts, n)
	}
	if g.Owners != 0 && g.Owners != len(g.Sources) && len(g.Sources) != 1 {
		return fmt.Errorf("ep: group %v: %d ranks with experts, want one for each rank with tokens, or tokens that all ranks have", g.Sources, g.Owners)
	}
	last := -1
	for _, s := range g.Sources {
		if s < 0 || s >= ranks {
			return fmt.Errorf("ep: group %v: rank %d, want 0 to %d", g.Sources, s, ranks-1)
		}
		if s <= last {
			return fmt.Errorf("ep: group %v: rank %d after %d, want ascending ranks", g.Sources, s, last)
		}
		last = s
	}
	return nil
}

// Local returns the experts [lo, hi) that the member owns.
func (g Group) Local(member int) (lo, hi int) {
	n := g.Experts / g.members()
	return member * n, (member + 1) * n
}

// Owner returns the member that owns the expert.
func (g Group) Owner(expert int) int { return expert / (g.Experts / g.members()) }

// SendCounts sets rows[m] to the number of rows that member sends to member m,
// and returns their sum. kept is the table after drops.
func (g Group) SendCounts(rows, kept []int32, member int) int {
	sum := 0
	for m := range g.Sources {
		rows[m] = g.pairs(kept, member, m)
		sum += int(rows[m])
	}
	return sum
}

// RecvCounts sets rows[m] to the number of rows that member receives from
// member m, and returns their sum. kept is the table after drops.
func (g Group) RecvCounts(rows, kept []int32, member int) int {
	sum := 0
	for m := range g.Sources {
		rows[m] = g.pairs(kept, m, member)
		sum += int(rows[m])
	}
	return sum
}

// Zones sets n[e-lo] to the number of rows that member holds for each of its
// experts e in [lo, hi), and start[e-lo] to the row where they start: the sum
// of the zones before, each rounded up to a multiple of align. It returns the
// end of the last zone, also rounded up. kept is the table after drops.
func (g Group) Zones(start, n, kept []int32, member, align int) (used int) {
	lo, hi := g.Local(member)
	n = n[:hi-lo]
	clear(n)
	for _, s := range g.Sources {
		addTo(n, kept[s*g.Experts+lo:s*g.Experts+hi])
	}
	return zones(start, n, align)
}

func zones(start, n []int32, align int) (used int) {
	for e, rows := range n {
		start[e] = int32(used)
		used += roundUp(int(rows), align)
	}
	return used
}

// pairs returns how many pairs of member from are for experts of member to.
func (g Group) pairs(kept []int32, from, to int) int32 {
	lo, hi := g.Local(to)
	row := g.Sources[from] * g.Experts
	sum := int32(0)
	for _, n := range kept[row+lo : row+hi] {
		sum += n
	}
	return sum
}
