package primitives

// zones are the rows of a rank's experts, one expert's after the other's, each
// from a multiple of align on, and the work that is done for them: of every
// expert so many equal units, or one for each of its rows if units is 0.
type zones struct {
	counts []int32
	align  int
	units  int
}

// fewest is the least number of units of an expert's work that are cut off: every piece
// copies the whole matrix of the expert, which takes as long as about a dozen rows.
const fewest = 16

// each calls f with pieces of experts' work: the expert, its first row, and the
// units of the piece. All work laid end to end is the sum over experts of rows
// times max(units, 1). Its parts from lo to hi are done, with both moved to the
// next unit and, where few units are left of an expert, to its end; so ranges
// that cover the work cover every unit once.
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

// cut returns the unit, of so many, at which to cut after some work.
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
