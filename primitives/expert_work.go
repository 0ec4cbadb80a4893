package primitives

// expertWork is the work on the rows of a rank's experts. counts holds the rows of each expert, and its
// first row is a multiple of align. An expert's work has `units` equal units or, if units is 0, one unit
// per row.
type expertWork struct {
	counts []int32
	align  int
	units  int
}

// minPieceUnits is the least number of units in a piece of an expert's work. Every piece copies the
// expert's whole matrix, taking as long as about a dozen rows.
const minPieceUnits = 16

// each calls f for every expert with work between lo and hi, passing the expert, its first row
// and its units [from, to). lo and hi count rows of units: concatenating the work of all experts,
// each contributes rows·max(units, 1). Both are rounded by the same rule: up to the end of a
// unit, or to an expert's beginning or end if fewer than minPieceUnits units would be cut off.
// Ranges covering the work therefore cover every unit exactly once.
func (z expertWork) each(lo, hi int, f func(expert, start, from, to int)) {
	at, start := 0, 0
	for e, count := range z.counts {
		rows := int(count)
		units, cost := rows, 1
		if z.units > 0 {
			units, cost = z.units, rows
		}
		if rows > 0 {
			from, to := cutUnit(lo-at, units, cost), cutUnit(hi-at, units, cost)
			if from < to {
				f(e, start, from, to)
			}
		}
		at += units * cost
		start = roundUp(start+rows, z.align)
	}
}

// cutUnit returns the unit at which to cut an expert's work, leaving about `work` before it. The expert
// has `units` units, each costing `cost`.
func cutUnit(work, units, cost int) int {
	at := min(max((work+cost-1)/cost, 0), units)
	switch {
	case at < min(minPieceUnits, (units+1)/2):
		return 0
	case units-at < minPieceUnits:
		return units
	}
	return at
}

// roundUp returns n rounded up to a multiple of align. An align of 0 means 1.
func roundUp(n, align int) int {
	if align > 1 {
		return (n + align - 1) / align * align
	}
	return n
}
