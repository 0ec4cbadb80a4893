package jaccltest

import "testing"

// sizes are the numbers of ranks that jobs of a suite have: 1 to 8, and under -short, as
// with the race detector, some of them.
func sizes() []int {
	if testing.Short() {
		return []int{1, 2, 3, 5}
	}
	return []int{1, 2, 3, 4, 5, 6, 7, 8}
}
