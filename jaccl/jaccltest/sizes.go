package jaccltest

import "testing"

// sizes returns the numbers of ranks that the jobs of a suite have: 1 to 8, and only some of
// these under -short, with which the race detector runs.
func sizes() []int {
	if testing.Short() {
		return []int{1, 2, 3, 5}
	}
	return []int{1, 2, 3, 4, 5, 6, 7, 8}
}
