package ep

import "fmt"

// Group is the ranks that together hold the experts once. If they have different tokens
// they exchange rows, and row Sources[m] of a table has the tokens of member m. If all of
// them have the same tokens, Sources has one element.
type Group struct {
	Experts Split // one part per member
	Sources []int // ascending: member order is token order
}

// Validate returns an error if no such group can exist among the given number of ranks.
func (g Group) Validate(ranks int) error {
	if len(g.Sources) == 0 {
		return fmt.Errorf("ep: group of no ranks, want at least 1")
	}
	if err := g.Experts.Validate(); err != nil {
		return err
	}
	if g.Experts.Len() < 1 {
		return fmt.Errorf("ep: group %v without experts, want at least 1", g.Sources)
	}
	if n := g.Experts.Parts(); n != len(g.Sources) && len(g.Sources) != 1 {
		return fmt.Errorf("ep: group %v: %d ranks with experts, want one for each rank with tokens, or tokens that all ranks have", g.Sources, n)
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

// SendCounts sets rows[m] to the number of rows that member sends to member m, returning
// their sum. kept is the table after drops.
func (g Group) SendCounts(rows, kept []int32, member int) int {
	sum := 0
	for m := range g.Sources {
		rows[m] = g.pairs(kept, member, m)
		sum += int(rows[m])
	}
	return sum
}

// RecvCounts sets rows[m] to the number of rows that member receives from member m,
// returning their sum. kept is the table after drops.
func (g Group) RecvCounts(rows, kept []int32, member int) int {
	sum := 0
	for m := range g.Sources {
		rows[m] = g.pairs(kept, m, member)
		sum += int(rows[m])
	}
	return sum
}

// Zones sets n[e-lo] to the number of rows that member holds for each of its experts e in
// [lo, hi), and start[e-lo] to their first row: the sum of the zones before, each rounded
// up to a multiple of align. It returns the end of the last zone, also rounded up. kept
// is the table after drops.
func (g Group) Zones(start, n, kept []int32, member, align int) (used int) {
	lo, hi := g.Experts.Part(member)
	n, e := n[:hi-lo], g.Experts.Len()
	clear(n)
	for _, s := range g.Sources {
		addTo(n, kept[s*e+lo:s*e+hi])
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

// pairs returns the number of pairs of member from for experts of member to.
func (g Group) pairs(kept []int32, from, to int) int32 {
	lo, hi := g.Experts.Part(to)
	row := g.Sources[from] * g.Experts.Len()
	sum := int32(0)
	for _, n := range kept[row+lo : row+hi] {
		sum += n
	}
	return sum
}
