package measure

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Header is the line above the lines of rows.
func Header() string {
	return fmt.Sprintf("%-9s %-14s %5s %11s %11s %11s %9s %9s", "transport", "operation", "ranks", "bytes", "µs", "fastest µs", "alg GB/s", "bus GB/s")
}

// String returns the row as a line of a table.
func (r Row) String() string {
	if r.Bytes == 0 {
		return fmt.Sprintf("%-9s %-14s %5d %11s %11.1f %11.1f", r.Transport, r.Op, r.Ranks, "-", r.Micros, r.Best)
	}
	return fmt.Sprintf("%-9s %-14s %5d %11d %11.1f %11.1f %9.3f %9.3f", r.Transport, r.Op, r.Ranks, r.Bytes, r.Micros, r.Best, r.AlgGBs, r.BusGBs)
}

// JSON writes the row as a line of JSON.
func (r Row) JSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// Markdown writes rows as a table of Markdown: operations and sizes down, transports
// across, each with microseconds and bus bandwidth.
func Markdown(w io.Writer, rows []Row) error {
	var transports []string
	type place struct {
		op    string
		ranks int
		bytes int64
	}
	var places []place
	cells := map[place]map[string]Row{}
	for _, r := range rows {
		p := place{r.Op, r.Ranks, r.Bytes}
		if cells[p] == nil {
			cells[p] = map[string]Row{}
			places = append(places, p)
		}
		cells[p][r.Transport] = r
		if !slices.Contains(transports, r.Transport) {
			transports = append(transports, r.Transport)
		}
	}
	var s strings.Builder
	s.WriteString("| operation | ranks | bytes |")
	for _, t := range transports {
		fmt.Fprintf(&s, " %s µs (GB/s) |", t)
	}
	s.WriteString("\n|---|--:|--:|" + strings.Repeat("--:|", len(transports)) + "\n")
	for _, p := range places {
		fmt.Fprintf(&s, "| %s | %d | %d |", p.op, p.ranks, p.bytes)
		for _, t := range transports {
			r, ok := cells[p][t]
			switch {
			case !ok:
				s.WriteString(" – |")
			case r.Bytes == 0:
				fmt.Fprintf(&s, " %.1f |", r.Micros)
			default:
				fmt.Fprintf(&s, " %.1f (%.2f) |", r.Micros, r.BusGBs)
			}
		}
		s.WriteString("\n")
	}
	_, err := io.WriteString(w, s.String())
	return err
}
