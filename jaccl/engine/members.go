package engine

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
)

// members checks the ranks of a group that a rank of a job of that size asks for.
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

// groupKey tells the groups of a job apart, alike on all members. closes says how
// often the asking rank has closed the group of some ranks: the next one of the same
// ranks is another, which members come to that have closed the former as often.
func groupKey(ranks []int, closes map[string]int) string {
	key := fmt.Sprint(ranks)
	return fmt.Sprintf("%s#%d", key, closes[key])
}

// splitKey is the key of the group of a color that the n-th split of a group forms.
func splitKey(parent string, n, color int) string {
	return fmt.Sprintf("%s/%d:%d", parent, n, color)
}

// plain is for interfaces that a nil *T in an interface would deceive.
func plain(g jaccl.Group, err error) (collective.Group, error) {
	if err != nil {
		return nil, err
	}
	return g, nil
}
