package engine

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
)

// members returns an error unless ranks are distinct ranks of a job of size ranks,
// including rank, the caller.
func members(ranks []int, rank, size int) error {
	seen := make([]bool, size)
	for _, r := range ranks {
		if r < 0 || r >= size {
			return fmt.Errorf("jaccl: group %v: rank %d is not in the job, want 0 to %d", ranks, r, size-1)
		}
		if seen[r] {
			return fmt.Errorf("jaccl: group %v: rank %d twice, want every rank once", ranks, r)
		}
		seen[r] = true
	}
	if !slices.Contains(ranks, rank) {
		return fmt.Errorf("jaccl: group %v: rank %d asks for a group that it is not in, want only members to", ranks, rank)
	}
	return nil
}

func everyone(size int) []int {
	ranks := make([]int, size)
	for i := range ranks {
		ranks[i] = i
	}
	return ranks
}

// groupKey returns the key of a group, which is equal on all members and differs between
// the groups of a job. closes has, by the ranks of a group, the number of times that the
// caller's rank has closed it: after a Close the same ranks form a new group, once all
// members have closed the earlier groups of these ranks equally often.
func groupKey(ranks []int, closes map[string]int) string {
	key := fmt.Sprint(ranks)
	return fmt.Sprintf("%s#%d", key, closes[key])
}

// splitKey returns the key of the group formed by the members with a color in the n-th
// split of a group.
func splitKey(parent string, n, color int) string {
	return fmt.Sprintf("%s/%d:%d", parent, n, color)
}

// plain returns g as a collective.Group. On error it returns a nil interface, not an
// interface holding a nil pointer.
func plain(g jaccl.Group, err error) (collective.Group, error) {
	if err != nil {
		return nil, err
	}
	return g, nil
}
