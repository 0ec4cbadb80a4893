package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/gomoe/gomoe/internal/memory"
)

// row is one workload with a number of threads against one peer.
type row struct {
	Workload    string  `json:"workload"`
	Title       string  `json:"title"`
	Threads     int     `json:"threads"`
	Peer        string  `json:"peer"`
	Version     string  `json:"version,omitempty"`
	Formulation string  `json:"formulation,omitempty"` // the peer's fastest
	Gomoe       times   `json:"gomoe"`
	Other       times   `json:"other"`           // the peer's
	Ratio       float64 `json:"ratio,omitempty"` // median of the rounds' ratios of gomoe's time to the peer's; 0 means not measured
	Target      float64 `json:"target"`
	Error       float64 `json:"error"` // largest difference of the peer's results from gomoe's, relative to the largest element
	Flop        float64 `json:"flop,omitempty"`
	Tokens      int     `json:"tokens,omitempty"` // of a step
	Note        string  `json:"note,omitempty"`   // the reason for a missing ratio
	// Crash describes the peer's crash and the setting with which it was restarted.
	Crash string `json:"crash,omitempty"`
	// GomoeResident and OtherResident are the bytes of their own that both sides held in memory; 0 means not measured.
	GomoeResident int64         `json:"gomoe_resident,omitempty"`
	OtherResident int64         `json:"other_resident,omitempty"`
	Formulations  []formulation `json:"formulations,omitempty"`
}

// times are the times of one side in nanoseconds. Zeros mean not measured.
type times struct {
	Median float64 `json:"median_ns"` // of the rounds' medians
	Best   float64 `json:"best_ns"`   // of all runs
}

// round is one round's runs in nanoseconds.
type round []int64

// summarize returns the times of all rounds together.
func summarize(rounds []round) times {
	var medians []float64
	best := math.Inf(1)
	for _, r := range rounds {
		medians = append(medians, r.median())
		best = min(best, float64(slices.Min(r)))
	}
	if len(medians) == 0 {
		return times{}
	}
	return times{median(medians), best}
}

func (r round) median() float64 {
	x := make([]float64, len(r))
	for i, ns := range r {
		x[i] = float64(ns)
	}
	return median(x)
}

// ratios returns, per round, the time of a divided by the time of b.
func ratios(a, b []round) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = a[i].median() / b[i].median()
	}
	return out
}

// median returns the middle element of x, or the mean of the two in the middle;
// NaN if x is empty. It does not change x.
func median(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	x = slices.Clone(x)
	slices.SortFunc(x, cmp.Compare[float64])
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

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

// The lengths of the plot, in points of 1/72 inch.
const (
	plotDPI   = 120
	plotWidth = 11 * vg.Inch
	barRoom   = vg.Length(15) // one bar with its label
	barWidth  = vg.Length(9)
	plotFrame = vg.Length(100) // title, axis and margins
)

// writePlot draws the ratio of every row having one as a horizontal bar on a logarithmic axis, from
// 1 to its ratio, and its target as a mark. Marks of equal targets join into a line. Bars reaching
// their targets are green.
func (r report) writePlot(w io.Writer) error {
	var rows []row
	for i := len(r.Rows) - 1; i >= 0; i-- { // the axis points up
		if r.Rows[i].Ratio > 0 {
			rows = append(rows, r.Rows[i])
		}
	}
	if len(rows) == 0 {
		return errors.New("bench: plot: no row has a ratio")
	}
	p := plot.New()
	p.Title.Text = "Time of gomoe / time of peer (left of the target line is good)"
	p.Title.TextStyle.Font.Size = 13
	p.X.Label.Text = "ratio, logarithmic"
	low, high := 0.5, 2.0
	labels := make([]string, len(rows))
	for i, x := range rows {
		low, high = min(low, x.Ratio/1.3, x.Target/1.3), max(high, x.Ratio*1.3, x.Target*1.3)
		labels[i] = fmt.Sprintf("%s, %d thr, %s", x.Workload, x.Threads, x.Peer)
	}
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, powersOfTwo{}
	p.X.Min, p.X.Max = low, high
	p.NominalY(labels...)
	p.Y.Tick.Label.Font.Size = 8
	p.Y.Min, p.Y.Max = -0.6, float64(len(rows))-0.4
	p.Add(plotter.NewGrid(), ratioBars(rows))

	img := vgimg.NewWith(vgimg.UseWH(plotWidth, plotFrame+barRoom*vg.Length(len(rows))), vgimg.UseDPI(plotDPI))
	p.Draw(draw.Crop(draw.New(img), 10, -10, 10, -10))
	_, err := vgimg.PngCanvas{Canvas: img}.WriteTo(w)
	return err
}

// ratioBars draws the bars from the bottom up, with the ratios next to them.
type ratioBars []row

func (rows ratioBars) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	style := p.X.Tick.Label
	style.XAlign, style.YAlign, style.Font.Size = draw.XLeft, draw.YCenter, 8
	for i, x := range rows {
		y := ty(float64(i))
		from, to := min(tx(1), tx(x.Ratio)), max(tx(1), tx(x.Ratio))
		fill := color.RGBA{R: 0xd9, G: 0x5f, B: 0x5f, A: 0xff}
		if x.Ratio <= x.Target {
			fill = color.RGBA{R: 0x4c, G: 0xa3, B: 0x66, A: 0xff}
		}
		c.FillPolygon(fill, []vg.Point{{X: from, Y: y - barWidth/2}, {X: to, Y: y - barWidth/2}, {X: to, Y: y + barWidth/2}, {X: from, Y: y + barWidth/2}})
		line := draw.LineStyle{Color: color.RGBA{B: 0x88, A: 0xff}, Width: vg.Points(1.5)}
		c.StrokeLine2(line, tx(x.Target), ty(float64(i)-0.5), tx(x.Target), ty(float64(i)+0.5))
		c.FillText(style, vg.Point{X: max(to, tx(x.Target)) + 4, Y: y}, fmt.Sprintf("%.2f", x.Ratio))
	}
}

// powersOfTwo returns the ticks of a logarithmic axis.
type powersOfTwo struct{}

func (powersOfTwo) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Ceil(math.Log2(low)); e <= math.Log2(high); e++ {
		ticks = append(ticks, plot.Tick{Value: math.Exp2(e), Label: fmt.Sprintf("%g", math.Exp2(e))})
	}
	return ticks
}
