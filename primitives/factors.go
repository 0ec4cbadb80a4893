package primitives

import "github.com/gomoe/gomoe/sharding"

// wholes returns the factors of n dimensions, none of which may be split.
func wholes(n int) []int {
	d := make([]int, n)
	for i := range d {
		d[i] = sharding.Whole
	}
	return d
}

// splitWhere returns the factors of n dimensions, of which those may be split for
// which ok returns true: factor i for dimension i.
func splitWhere(n int, ok func(d int) bool) []int {
	dims := wholes(n)
	for d := range dims {
		if ok(d) {
			dims[d] = d
		}
	}
	return dims
}
