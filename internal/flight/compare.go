package flight

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Compare says in a few lines where the ranks of a job were: the last operation of
// each rank, with times on rank 0's clock, and which ranks were behind the others.
// Records of several jobs are an error.
func Compare(dumps []Dump) (string, error) {
	if len(dumps) == 0 {
		return "", fmt.Errorf("flight: no records, want the files of a job")
	}
	dumps = slices.Clone(dumps)
	slices.SortFunc(dumps, func(a, b Dump) int { return a.Rank - b.Rank })
	var s strings.Builder
	seen := map[int]bool{}
	var first time.Time
	for _, d := range dumps {
		if d.Job != dumps[0].Job || d.Size != dumps[0].Size {
			return "", fmt.Errorf("flight: records of two jobs: rank %d's of %s with %d ranks, rank %d's of %s with %d", dumps[0].Rank, dumps[0].Job, dumps[0].Size, d.Rank, d.Job, d.Size)
		}
		if seen[d.Rank] {
			return "", fmt.Errorf("flight: two records of rank %d, want one", d.Rank)
		}
		seen[d.Rank] = true
		if n := len(d.Ops); n > 0 {
			if t := d.Ops[n-1].Began.Add(d.Offset); first.IsZero() || t.Before(first) {
				first = t
			}
		}
	}
	next := 0 // the first rank that is not written about; the size is only what the files claim
	absent := func(until int) {
		switch {
		case next == until-1:
			fmt.Fprintf(&s, "rank %d: no record; its process was killed, or its machine is not reached\n", next)
		case next < until:
			fmt.Fprintf(&s, "ranks %d to %d: no record; their processes were killed, or their machines are not reached\n", next, until-1)
		}
	}
	for _, d := range dumps {
		absent(d.Rank)
		next = d.Rank + 1
		if len(d.Ops) == 0 {
			fmt.Fprintf(&s, "rank %d (%s): no operation\n", d.Rank, d.Host)
			continue
		}
		o := d.Ops[len(d.Ops)-1]
		fmt.Fprintf(&s, "rank %d (%s): operation %d, %s #%d %s %d bytes among %v (%s), %s after %s, began at +%s\n", d.Rank, d.Host,
			o.Number, o.Op, o.Seq, o.DType, o.Bytes, o.Ranks, o.Line, o.State, micros(o.Micros), micros(float64(o.Began.Add(d.Offset).Sub(first).Nanoseconds())/1e3))
		if o.Error != "" {
			fmt.Fprintf(&s, "    %s\n", o.Error)
		}
	}
	absent(dumps[0].Size)
	return s.String(), nil
}

// micros prints microseconds as a duration of three digits or so.
func micros(us float64) string {
	d := time.Duration(us * 1e3)
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}
