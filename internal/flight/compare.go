package flight

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Compare describes in a few lines the progress of the ranks of a job: the last operation
// of each rank, with times on rank 0's clock, and the ranks trailing the others. Records
// of several jobs are an error.
func Compare(dumps []Dump) (string, error) {
	if len(dumps) == 0 {
		return "", fmt.Errorf("flight: no records, want the files of a job")
	}
	dumps = slices.Clone(dumps)
	slices.SortFunc(dumps, func(a, b Dump) int { return a.Rank - b.Rank })
	var s strings.Builder
	var first time.Time
	for i, d := range dumps {
		if why := apart(dumps[0], d); why != "" {
			return "", fmt.Errorf("flight: records of two jobs: %s", why)
		}
		if i > 0 && dumps[i-1].Rank == d.Rank {
			return "", fmt.Errorf("flight: two records of rank %d, want one", d.Rank)
		}
		if n := len(d.Ops); n > 0 {
			if t := d.Ops[n-1].Began.Add(d.Offset); first.IsZero() || t.Before(first) {
				first = t
			}
		}
	}
	early := closed(dumps)
	next := 0 // the first rank about which nothing has been printed
	for _, d := range dumps {
		absent(&s, early, next, d.Rank)
		next = d.Rank + 1
		if len(d.Ops) == 0 {
			fmt.Fprintf(&s, "rank %d (%s): no operation\n", d.Rank, plain(d.Host))
			continue
		}
		o := d.Ops[len(d.Ops)-1]
		fmt.Fprintf(&s, "rank %d (%s): operation %d, %s #%d %s %d bytes among %s (%s), %s after %s, began at +%s\n", d.Rank, plain(d.Host),
			o.Number, plain(o.Op), o.Seq, plain(o.DType), o.Bytes, few(o.Ranks), plain(o.Line), plain(o.State), micros(o.Micros), micros(float64(o.Began.Add(d.Offset).Sub(first).Nanoseconds())/1e3))
		for line := range strings.Lines(o.Error) {
			fmt.Fprintf(&s, "    %s\n", plain(strings.TrimSuffix(line, "\n")))
		}
	}
	absent(&s, early, next, dumps[0].Size)
	return s.String(), nil
}

// together is the longest time between the connections of two ranks of one job, if
// nothing else shows that their records belong together.
const together = 2 * time.Minute

// apart returns the reason why two records belong to different runs of a job. It is empty
// if they may belong to the same run.
func apart(a, b Dump) string {
	who := func(d Dump) string {
		return fmt.Sprintf("rank %d of %d of job %s, which had connected at %s", d.Rank, d.Size, plain(d.Job), d.Started.Add(d.Offset).UTC().Format(time.RFC3339))
	}
	gap := a.Started.Add(a.Offset).Sub(b.Started.Add(b.Offset)).Abs()
	if a.Job != b.Job || a.Size != b.Size || a.Run != b.Run || a.Run == "" && gap > together {
		return who(a) + ", and " + who(b)
	}
	return ""
}

// closed returns, in order, the ranks that have closed their communicator according to the
// errors in the records.
func closed(dumps []Dump) []int {
	told := regexp.MustCompile(`rank (\d{1,9}) has closed its communicator`)
	var ranks []int
	for _, d := range dumps {
		if n := len(d.Ops); n > 0 {
			for _, m := range told.FindAllStringSubmatch(d.Ops[n-1].Error, -1) {
				r, _ := strconv.Atoi(m[1]) // up to nine digits are a number
				ranks = append(ranks, r)
			}
		}
	}
	slices.Sort(ranks)
	return slices.Compact(ranks)
}

// absent prints that there are no records of the ranks from `from` to before `to`.
func absent(s *strings.Builder, early []int, from, to int) {
	say := func(to int) {
		switch to - from {
		case 0:
		case 1:
			fmt.Fprintf(s, "rank %d: no record; it had ended before the job failed, was killed, or wrote its record elsewhere\n", from)
		default:
			fmt.Fprintf(s, "ranks %d to %d: no record; they had ended before the job failed, were killed, or wrote their records elsewhere\n", from, to-1)
		}
	}
	for _, r := range early {
		if from <= r && r < to {
			say(r)
			fmt.Fprintf(s, "rank %d: no record; it had closed its communicator before\n", r)
			from = r + 1
		}
	}
	say(to)
}

// few prints the first ranks of a list.
func few(ranks []int) string {
	const most = 64
	if len(ranks) > most {
		return strings.TrimSuffix(fmt.Sprint(ranks[:most]), "]") + fmt.Sprintf(" and %d more]", len(ranks)-most)
	}
	return fmt.Sprint(ranks)
}

// plain returns text in a form that is safe to print on a terminal: unchanged if all of
// it is printable, and quoted otherwise. Records are untrusted.
func plain(text string) string {
	const most = 4096
	if len(text) > most {
		text = text[:most] + "..."
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) && r != '\t' }) || !utf8.ValidString(text) {
		return strconv.Quote(text)
	}
	return text
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
