// Package near suggests the intended name for a mistyped one.
package near

import (
	"iter"
	"slices"
	"strings"
)

// Names returns "; did you mean a or b?" with the names differing from name by one or two
// typing mistakes, "" if there are none. A star in name matches any text.
func Names(name string, names iter.Seq[string]) string {
	stars := strings.Count(name, "*")
	most := min(2, (len(name)-stars)/2)
	if len(name) > 100 { // not a typing mistake, and distance takes quadratic time
		return ""
	}
	var found []string
	for n := range names {
		apart := max(len(name)-stars-len(n), 0)
		if stars == 0 {
			apart = max(apart, len(n)-len(name))
		}
		if n != "" && apart <= most && distance(name, n) <= most {
			found = append(found, n)
		}
	}
	if len(found) == 0 {
		return ""
	}
	slices.Sort(found)
	return "; did you mean " + strings.Join(found[:min(len(found), 3)], " or ") + "?"
}

// distance returns the number of bytes to insert, remove, replace or swap with their
// neighbour to turn a into b (optimal string alignment). A star in a matches any bytes at
// no cost.
func distance(a, b string) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		if a[i-1] == '*' {
			row[0] = last[0]
			for j := 1; j <= len(b); j++ {
				row[j] = min(last[j], row[j-1])
			}
			before, last = last, row
			continue
		}
		row[0] = last[0] + 1
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
