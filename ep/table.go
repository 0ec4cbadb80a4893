package ep

import "fmt"

// Count adds to n[e] the number of pairs of idx int32[T,k] that choose expert e; -1
// chooses no expert. It returns an *IndexError for the first index that is neither -1 nor
// in 0 … len(n)-1; n is then undefined.
func Count(n, idx []int32, k int) error {
	for i, e := range idx {
		// One comparison: a negative index is a large unsigned number.
		if uint32(e) >= uint32(len(n)) {
			if e == -1 {
				continue
			}
			return &IndexError{Token: i / k, Choice: i % k, Index: int(e), Experts: len(n)}
		}
		n[e]++
	}
	return nil
}

// IndexError reports that a token chose an expert that does not exist.
type IndexError struct {
	Token, Choice int // of the pair, in the counted slice
	Index         int
	Experts       int
}

func (e *IndexError) Error() string {
	return fmt.Sprintf("ep: token %d, choice %d: expert %d, want 0 to %d, or -1 for none", e.Token, e.Choice, e.Index, e.Experts-1)
}

// Before sets before[e] to the number of pairs that sources below source have
// for expert e: Σ_{s<source} table[s,e]. E is len(before).
func Before(before, table []int32, source int) {
	clear(before)
	e := len(before)
	for s := range source {
		addTo(before, table[s*e:(s+1)*e])
	}
}

// Kept sets kept to the table of pairs remaining after drops: clamp(capacity - Σ_{r<s}
// table[r,e], 0, table[s,e]), or all pairs if the capacity is 0. kept and table may be
// the same slice.
func Kept(kept, table []int32, experts, capacity int) {
	if capacity == 0 {
		copy(kept, table)
		return
	}
	for e := range experts {
		left := capacity
		for i := e; i < len(table); i += experts {
			n := min(int(table[i]), left)
			kept[i] = int32(n)
			left -= n
		}
	}
}

// Totals sets demand[e] to the batch's pairs for expert e, and counts[e] to the
// number of these that are kept, min(demand[e], capacity). E is len(demand).
func Totals(counts, demand, table []int32, capacity int) {
	clear(demand)
	e := len(demand)
	for s := range len(table) / e {
		addTo(demand, table[s*e:(s+1)*e])
	}
	for i, n := range demand {
		if capacity > 0 && int(n) > capacity {
			n = int32(capacity)
		}
		counts[i] = n
	}
}

// Padded sets padded[e] to counts[e] rounded up to a multiple of align, returning the
// sum, in rows. padded and counts may be the same slice.
func Padded(padded, counts []int32, align int) int {
	sum := 0
	for e, n := range counts {
		p := roundUp(int(n), align)
		padded[e] = int32(p)
		sum += p
	}
	return sum
}

// Overflow returns the expert in highest demand (the lowest of several) and its number of
// pairs. over reports whether they exceed the capacity; a capacity of 0 is never
// exceeded.
func Overflow(demand []int32, capacity int) (expert, need int, over bool) {
	if capacity == 0 {
		return 0, 0, false
	}
	need = capacity
	for e, n := range demand {
		if int(n) > need {
			expert, need, over = e, int(n), true
		}
	}
	if !over {
		return 0, 0, false
	}
	return expert, need, true
}

func addTo(sum, n []int32) {
	for i, x := range n {
		sum[i] += x
	}
}

// roundUp returns n rounded up to a multiple of align. n must not be negative;
// an align below 2 changes nothing.
func roundUp(n, align int) int {
	if align < 2 || n == 0 {
		return n
	}
	return ((n-1)/align + 1) * align
}
