package ep

import "fmt"

// Load describes the distribution of a batch, or of the sum of several, over the experts.
type Load struct {
	Demand  int       // pairs that chose an expert
	Kept    int       // pairs that got a row
	Share   []float64 // [E]: fraction of the demand; zeros if there is none
	Hottest int       // the expert in highest demand; the lowest of several
	Dead    []int     // the experts without demand
	// Imbalance is the highest demand divided by the mean demand: 1 means an even load, E
	// means that all pairs choose one expert, 0 means no demand. A layer without drops
	// takes as long as its slowest expert, so Imbalance is also the slowdown relative to
	// an even load.
	Imbalance float64
}

// Measure returns the load of the experts, given the demand before drops and the counts
// after drops, as in Totals and Plan. To get the load of ranks, pass sums over the
// experts of each rank.
func Measure(demand, counts []int32) Load {
	l := Load{Share: make([]float64, len(demand))}
	for e, n := range demand {
		l.Demand += int(n)
		l.Kept += int(counts[e])
		if n > demand[l.Hottest] {
			l.Hottest = e
		}
		if n == 0 {
			l.Dead = append(l.Dead, e)
		}
	}
	if l.Demand == 0 {
		return l
	}
	for e, n := range demand {
		l.Share[e] = float64(n) / float64(l.Demand)
	}
	l.Imbalance = float64(demand[l.Hottest]) * float64(len(demand)) / float64(l.Demand)
	return l
}

// Dropped returns the number of pairs beyond the capacity.
func (l Load) Dropped() int { return l.Demand - l.Kept }

// String describes the load in one line.
func (l Load) String() string {
	s := fmt.Sprintf("%d pairs to %d experts", l.Demand, len(l.Share))
	if l.Demand == 0 {
		return s
	}
	s += fmt.Sprintf(", imbalance %.2f, hottest %d with %.1f%%", l.Imbalance, l.Hottest, 100*l.Share[l.Hottest])
	if len(l.Dead) > 0 {
		s += fmt.Sprintf(", %d dead", len(l.Dead))
	}
	if d := l.Dropped(); d > 0 {
		s += fmt.Sprintf(", %d dropped (%.1f%%)", d, 100*float64(d)/float64(l.Demand))
	}
	return s
}
