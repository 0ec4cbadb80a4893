package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/gomoe/gomoe/internal/memory"
)

// report holds all results of a run.
type report struct {
	Machine string  `json:"machine"`
	Kernels string  `json:"kernels"` // the kernels used by gomoe
	Rounds  int     `json:"rounds"`
	Seconds float64 `json:"seconds"` // of each side in a round
	Rows    []row   `json:"rows"`
}

func (r report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// writeMarkdown writes a table with a row per workload, threads and peer, followed by all formulations
// tried.
func (r report) writeMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# gomoe and its peers\n\n%s; gomoe's kernels: %s. Medians of %d interleaved rounds of %g s for each side; in parentheses the fastest run.\n", r.Machine, r.Kernels, r.Rounds, r.Seconds)
	b.WriteString("A ratio is gomoe's time over the peer's, the median of the rounds' ratios: below 1 gomoe is faster. In parentheses the ratio of the fastest runs,\nwhich says more where other programs run at the same time.\n\n")
	b.WriteString("| workload | threads | gomoe | peer | peer's time | ratio | target | peer's fastest formulation | error |\n")
	b.WriteString("|---|--:|--:|---|--:|--:|--:|---|--:|\n")
	last := ""
	for _, x := range r.Rows {
		title, peer := x.Title, strings.TrimSpace(x.Peer+" "+x.Version)
		if x.Crash != "" {
			peer += " (" + x.Crash + ")"
		}
		if key := fmt.Sprint(x.Workload, x.Threads); key == last {
			title = ""
		} else {
			last = key
		}
		if x.Note != "" {
			fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | | %s | %s | |\n",
				title, x.Threads, x.Gomoe.text(x.Flop, x.Tokens), cell(peer), x.Other.text(x.Flop, x.Tokens), number(x.Target), cell(x.Note))
			continue
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | **%.2f** (%.2f) | %s | %s | %.0e |\n",
			title, x.Threads, x.Gomoe.text(x.Flop, x.Tokens), cell(peer), x.Other.text(x.Flop, x.Tokens), x.Ratio, x.Gomoe.Best/x.Other.Best, number(x.Target), cell(x.Formulation), x.Error)
	}
	r.writeMemory(&b)
	b.WriteString("\n## Formulations\n\nThe fastest run of each while choosing. Those that do not agree with gomoe's results do not count.\n\n")
	b.WriteString("| workload | threads | peer | formulation | fastest | error |\n|---|--:|---|---|--:|--:|\n")
	for _, x := range r.Rows {
		for _, f := range x.Formulations {
			if f.Failure != "" {
				fmt.Fprintf(&b, "| %s | %d | %s | %s | | %s |\n", x.Workload, x.Threads, x.Peer, cell(f.Name), cell(f.Failure))
			} else {
				fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %.0e |\n", x.Workload, x.Threads, x.Peer, cell(f.Name), duration(float64(f.NS)), f.Error)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeMemory writes the memory of both sides for workloads measuring it.
func (r report) writeMemory(b *strings.Builder) {
	began := false
	for _, x := range r.Rows {
		if x.GomoeResident == 0 || x.OtherResident == 0 {
			continue
		}
		if !began {
			b.WriteString("\n## Memory\n\nWhat a process holds of its own after the first token, beside the mapped file; gomoe's without its planned caches.\n\n| workload | gomoe | peer | peer's |\n|---|--:|---|--:|\n")
			began = true
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", x.Title, memory.Format(x.GomoeResident), x.Peer, memory.Format(x.OtherResident))
	}
}

// text formats the median, the fastest run, and the median's rate in GFLOP/s and in tokens per second.
func (t times) text(flop float64, tokens int) string {
	if t.Median == 0 {
		return ""
	}
	s := fmt.Sprintf("%s (%s)", duration(t.Median), duration(t.Best))
	if flop > 0 {
		s += fmt.Sprintf(" %.0f GF/s", flop/t.Median)
	}
	if tokens > 0 {
		s += fmt.Sprintf(" %s tokens/s", digits(float64(tokens)*1e9/t.Median))
	}
	return s
}

// duration formats nanoseconds with three digits.
func duration(ns float64) string {
	switch {
	case ns < 1e3:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 1e6:
		return digits(ns/1e3) + " µs"
	case ns < 1e9:
		return digits(ns/1e6) + " ms"
	default:
		return digits(ns/1e9) + " s"
	}
}

func digits(x float64) string {
	switch {
	case x < 10:
		return fmt.Sprintf("%.2f", x)
	case x < 100:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.0f", x)
	}
}

func number(x float64) string { return fmt.Sprintf("%.3g", x) }

// cell escapes text for a cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(s)
}
