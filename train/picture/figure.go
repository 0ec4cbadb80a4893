package picture

import (
	"fmt"
	"image/png"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/gomoe/gomoe/train/report"
)

// The figure is 1200 by 900 pixels with two panels, and higher with additional ones. Lengths are in points, 1/72
// inch.
const (
	dpi    = 120
	width  = 10 * vg.Inch
	two    = 7.5 * vg.Inch  // height with two panels
	more   = 2 * vg.Inch    // height of each additional panel
	side   = 1.55 * vg.Inch // for legends, right of the panels
	margin = vg.Length(10)
	gap    = vg.Length(16) // between the panels
	header = vg.Length(26) // the title
)

// Draw draws the figure of a run as a PNG: losses at the top, then the experts' load over the same steps, then all
// other measured quantities: learning rate, gradient norm, dropped tokens, and the breakdown of step time. The
// number of steps is not limited. Equal figures give equal bytes. It is an error if steps differ in their number of
// experts; Draw also returns errors of the writer.
func Draw(w io.Writer, f report.Figure) error {
	for _, s := range f.Steps {
		if want := len(f.Steps[0].Load); len(s.Load) != want {
			return fmt.Errorf("picture: step %d has the load of %d experts, want %d as step %d",
				s.Index, len(s.Load), want, f.Steps[0].Index)
		}
	}
	below, err := further(f.Steps)
	if err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	height := two + vg.Length(len(below))*more
	img := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi))
	canvas := draw.New(img)
	title := plot.New().Title.TextStyle
	title.Font = sans(13)
	title.XAlign, title.YAlign = draw.XLeft, draw.YTop
	canvas.FillText(title, vg.Point{X: margin, Y: height - margin}, f.Title)

	losses, err := newLosses(f)
	if err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	load, err := newLoad(f.Steps)
	if err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	all := append([]panel{losses, load}, below...)
	rows := make([][]*plot.Plot, len(all))
	for i, p := range all {
		rows[i] = []*plot.Plot{p.plot}
	}
	// One column holds the panels, with aligned axes. A second column holds the legends, at the height of the panels.
	panels := draw.Crop(canvas, margin, -side-margin, margin, -header-margin)
	cells := plot.Align(rows, draw.Tiles{Rows: len(rows), Cols: 1, PadY: gap}, panels)
	for i, p := range all {
		cell := cells[i][0]
		p.plot.Draw(cell)
		data := p.plot.DataCanvas(cell)
		strip := data
		strip.Min.X = data.Max.X + 14
		strip.Max.X = width - margin
		if err := p.aside(strip); err != nil {
			return fmt.Errorf("picture: %w", err)
		}
	}
	if err := png.Encode(w, img.Image()); err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	return nil
}

// A panel is a plot with its legend on the right.
type panel struct {
	plot  *plot.Plot
	aside func(draw.Canvas) error
}

// newPlot returns a plot over the steps, with the grid and fonts shared by all panels.
func newPlot(title, y string, steps []report.Step) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.Title.TextStyle.Font = sans(11)
	p.Title.Padding = 4
	p.X.Label.Text, p.Y.Label.Text = "step", y
	p.X.Tick.Marker, p.Y.Tick.Marker = ticks{least: 1}, ticks{}
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font = sans(9.5)
		axis.Tick.Label.Font = sans(8.5)
		axis.Padding = 2
	}
	p.X.Min, p.X.Max = span(steps)
	if len(steps) == 0 {
		p.Title.Text += " (no steps)"
	}
	return p
}

// sans returns the font of the figure's text. It is part of gonum/plot, so the picture is the same on every
// machine.
func sans(size font.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

// span returns the range of the step axis, extended by half a step on both sides so that a single step has a range
// too.
func span(steps []report.Step) (low, high float64) {
	if len(steps) == 0 {
		return 0.5, 1.5
	}
	return float64(steps[0].Index) - 0.5, float64(steps[len(steps)-1].Index) + 0.5
}

// newLegend returns an empty legend for the strip to the right of a panel.
func newLegend() plot.Legend {
	l := plot.NewLegend()
	l.Top, l.Left = true, true
	l.TextStyle.Font = sans(8.5)
	l.ThumbnailWidth = 18
	l.Padding = 2.5
	return l
}

// A bucket is a run of steps drawn as one point.
type bucket struct{ from, to int }

// buckets divides n steps into at most the given number of runs of about equal length, so that a long run draws as
// fast as a short one.
func buckets(n, most int) []bucket {
	k := min(n, most)
	out := make([]bucket, k)
	for i := range out {
		out[i] = bucket{i * n / k, (i + 1) * n / k}
	}
	return out
}

// step returns the middle of the bucket on the step axis.
func (b bucket) step(steps []report.Step) float64 {
	return (float64(steps[b.from].Index) + float64(steps[b.to-1].Index)) / 2
}

// mean returns the mean of the bucket's finite values, or NaN if there are none.
func (b bucket) mean(value func(i int) float64) float64 {
	var sum float64
	var n int
	for i := b.from; i < b.to; i++ {
		if x := value(i); finite(x) {
			sum += x
			n++
		}
	}
	return sum / float64(n) // 0/0 is NaN
}

// finite also returns false for numbers out of the range of float32: no real loss is that large, and differences of
// such numbers overflow in a plot.
func finite(x float64) bool { return math.Abs(x) <= math.MaxFloat32 }
