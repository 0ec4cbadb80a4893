package engine

import (
	"cmp"
	"slices"
)

// chosen returns the ranks of the members whose color is that of member i, by
// key and then by rank; nil for a negative color.
func chosen(ranks []int, claims []claim, i int) []int {
	if claims[i].color < 0 {
		return nil
	}
	var members []int // of the group
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
