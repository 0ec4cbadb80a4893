package engine

import (
	"cmp"
	"slices"
)

// chosen returns the ranks of the members that have member i's color, ordered by key
// and then by rank; nil if that color is negative.
func chosen(ranks []int, claims []claim, i int) []int {
	if claims[i].color < 0 {
		return nil
	}
	var members []int // first indices in the group, in the end ranks
	for k := range claims {
		if claims[k].color == claims[i].color {
			members = append(members, k)
		}
	}
	slices.SortFunc(members, func(a, b int) int {
		return cmp.Or(cmp.Compare(claims[a].key, claims[b].key), cmp.Compare(ranks[a], ranks[b]))
	})
	for k, m := range members {
		members[k] = ranks[m]
	}
	return members
}
