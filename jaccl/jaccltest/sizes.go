package jaccltest

import "testing"

// sizes returns the job sizes of a suite: 1 to 8 ranks, and only some of these under
// -short, which the race detector uses.
func sizes() []int {
	if testing.Short() {
		return []int{1, 2, 3, 5}
	}
	return []int{1, 2, 3, 4, 5, 6, 7, 8}
}
