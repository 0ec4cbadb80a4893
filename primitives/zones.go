package primitives

// zones describes the rows of a rank's experts and the work on them. counts has the number of rows of
// each expert. Its first row is a multiple of align. The work of an expert is `units` equal units or,
// if units is 0, a unit for each of its rows.
type zones struct {
	counts []int32
	align  int
	units  int
}

// fewest is the least number of units in a piece of an expert's work: every piece copies the expert's
// whole matrix, which takes the time of about a dozen rows.
const fewest = 16

// each calls f for the part of the work between lo and hi: for every expert in it with
// the expert, its first row, and its units from `from` to to-1. lo and hi count rows of
// units: the work of all experts, laid end to end, has rows·max(units, 1) of each expert.
// Both are moved to the same places by one rule: up to the end of a unit, and to an
// expert's beginning or end if fewer than fewest units would be cut off there. So ranges
// that together cover the work cover every unit once.
func (z zones) each(lo, hi int, f func(expert, start, from, to int)) {
	at, start := 0, 0
	for e, count := range z.counts {
		rows := int(count)
		units, cost := rows, 1
		if z.units > 0 {
			units, cost = z.units, rows
		}
		if rows > 0 {
			from, to := cut(lo-at, units, cost), cut(hi-at, units, cost)
			if from < to {
				f(e, start, from, to)
			}
		}
		at += units * cost
		start = roundUp(start+rows, z.align)
	}
}

// cut returns the unit at which an expert's work is cut, so that about `work` is before it. The expert
// has `units` units, each costing `cost`.
func cut(work, units, cost int) int {
	at := min(max((work+cost-1)/cost, 0), units)
	switch {
	case at < min(fewest, (units+1)/2):
		return 0
	case units-at < fewest:
		return units
	}
	return at
}

// roundUp returns the least multiple of align that is not less than n. An align of 0 means 1.
func roundUp(n, align int) int {
	if align > 1 {
		return (n + align - 1) / align * align
	}
	return n
}
