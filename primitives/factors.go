package primitives

import "github.com/gomoe/gomoe/sharding"

// wholes are the factors of n dimensions none of which may be split.
func wholes(n int) []int {
	d := make([]int, n)
	for i := range d {
		d[i] = sharding.Whole
	}
	return d
}

// splitWhere are the factors of n dimensions: i for dimension i where ok says
// that it may be split.
func splitWhere(n int, ok func(d int) bool) []int {
	dims := wholes(n)
	for d := range dims {
		if ok(d) {
			dims[d] = d
		}
	}
	return dims
}
