package lowering

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/internal/memory"
)

// reported is the number of buffers listed by String.
const reported = 10

// String returns the report as text for people to read.
func (r *Report) String() string {
	var b strings.Builder
	m := r.Mem
	scratch := ""
	if m.Kept > 0 {
		scratch += ", kept " + memory.Format(m.Kept)
	}
	if m.Scratch > 0 {
		scratch += ", scratch " + memory.Format(m.Scratch)
	}
	if m.Workspace > 0 {
		scratch += ", workspace " + memory.Format(m.Workspace)
	}
	fmt.Fprintf(&b, "memory per rank: %s (inputs %s, results %s, arena %s%s)\n", memory.Format(m.Total), memory.Format(m.Inputs), memory.Format(m.Results), memory.Format(m.Arena), scratch)
	if m.Peak.Instr >= 0 {
		fmt.Fprintf(&b, "most in use: %s, %s of it temporaries, at instruction %d, %s (%s)\n", memory.Format(m.Peak.Live), memory.Format(m.Peak.Temps), m.Peak.Instr, m.Peak.Name, m.Peak.Line)
	}
	if r.Device != nil {
		fmt.Fprintf(&b, "%v\n", r.Device)
	}
	rows := [][]string{{"buffer", "bytes", "share", "what", "type", "line"}}
	for _, u := range m.Buffers[:min(reported, len(m.Buffers))] {
		share := "-"
		if u.AtPeak {
			share = fmt.Sprintf("%.1f%%", 100*u.Share)
		}
		rows = append(rows, []string{fmt.Sprintf("b%d", u.Buf), memory.Format(u.Bytes), share, u.what(), u.Type, u.Line})
	}
	if len(rows) > 1 {
		b.WriteString("largest buffers (share of what is in use at that instruction):\n")
		columns(&b, rows)
	}
	if n := len(m.Buffers) - reported; n > 0 {
		fmt.Fprintf(&b, "  and %d smaller\n", n)
	}
	if len(r.Comm.Collectives) == 0 {
		b.WriteString("communication: none\n")
		return b.String()
	}
	fmt.Fprintf(&b, "communication, bytes that one rank contributes:\n")
	beside := slices.ContainsFunc(r.Comm.Collectives, func(c CollectiveUse) bool { return c.Wait > 0 })
	rows = [][]string{{"#", "op", "over", "ranks", "bytes", "for", "line"}}
	if beside {
		rows[0] = append(rows[0], "beside it run")
	}
	for _, c := range r.Comm.Collectives {
		prim := cmp.Or(c.Prim, "-")
		if c.Value != "" {
			prim += " (" + c.Value + ")"
		}
		if c.Times > 0 {
			prim += fmt.Sprintf(", %d times", c.Times)
		}
		rows = append(rows, []string{fmt.Sprint(c.Seq), c.Op, strings.Join(c.Axes, "."), fmt.Sprint(c.Group), memory.Format(c.Bytes), prim, c.Line})
		if beside {
			rows[len(rows)-1] = append(rows[len(rows)-1], c.beside())
		}
	}
	columns(&b, rows)
	for _, t := range r.Comm.Totals {
		fmt.Fprintf(&b, "total %s: %d, %s\n", t.Op, t.Count, memory.Format(t.Bytes))
	}
	return b.String()
}

// what describes the buffer, with the name of its value.
func (u *BufferUse) what() string {
	s := u.Storage + " " + u.Name
	if u.Value != "" {
		s += " (" + u.Value + ")"
	}
	return s
}

// beside prints the instructions overlapping with the collective.
func (c *CollectiveUse) beside() string {
	if c.Wait == 0 {
		return "-"
	}
	return fmt.Sprintf("%d to %d", c.Instr+1, c.Wait-1)
}

// columns writes rows in aligned columns, two blanks apart.
func columns(b *strings.Builder, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, s := range row {
			width[i] = max(width[i], len([]rune(s)))
		}
	}
	for _, row := range rows {
		line := ""
		for i, s := range row {
			line += "  " + s + strings.Repeat(" ", width[i]-len([]rune(s)))
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}
