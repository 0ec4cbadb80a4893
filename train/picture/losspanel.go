package picture

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gomoe/gomoe/train/report"
)

var (
	rawColor     = color.NRGBA{R: 0x9e, G: 0xc4, B: 0xe4, A: 0xff}
	smoothColor  = color.NRGBA{R: 0x00, G: 0x4c, B: 0x8c, A: 0xff}
	heldColor    = color.NRGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff}
	unigramColor = color.NRGBA{R: 0x50, G: 0x50, B: 0x50, A: 0xff}
	badColor     = color.NRGBA{R: 0xc0, G: 0x00, B: 0x00, A: 0xff}
	gridColor    = color.NRGBA{R: 0xe4, G: 0xe4, B: 0xe4, A: 0xff}
)

// newLosses returns the panel of the losses: the loss, its moving mean, held-out losses,
// the unigram entropy, and triangles at the bottom where a loss is not finite.
func newLosses(f report.Figure) (panel, error) {
	p := newPlot("Loss", "cross entropy (nats per byte)", f.Steps)
	legend := newLegend()
	addGrid(p)

	var smooth report.Smoother
	smoothed := make([]float64, len(f.Steps))
	var bad, held []plotter.XY
	for i, s := range f.Steps {
		smoothed[i] = smooth.Add(s.Loss)
		if !finite(s.Loss) {
			bad = append(bad, plotter.XY{X: float64(s.Index)})
		}
		if s.HeldOut != 0 && finite(s.HeldOut) {
			held = append(held, plotter.XY{X: float64(s.Index), Y: s.HeldOut})
		}
	}
	seen := slices.DeleteFunc(append(append(lossesOf(f.Steps), yOf(held)...), unigram(f)...), func(x float64) bool { return !finite(x) })
	low, high := 0.0, 1.0 // if there is no loss
	if len(seen) > 0 {
		low, high = slices.Min(seen), slices.Max(seen)
	}
	pad := max(0.05*(high-low), 0.01)
	p.Y.Min, p.Y.Max = low-pad, high+pad

	runs := buckets(len(f.Steps), 1200)
	curve := func(name string, value func(i int) float64, style draw.LineStyle) error {
		points := make([]plotter.XY, len(runs))
		for i, b := range runs {
			points[i] = plotter.XY{X: b.step(f.Steps), Y: b.mean(value)}
		}
		return addCurve(p, &legend, name, points, style, len(points) <= 30)
	}
	if err := curve("loss", func(i int) float64 { return f.Steps[i].Loss }, stroke(rawColor, 1)); err != nil {
		return panel{}, err
	}
	if err := curve("moving mean", func(i int) float64 { return smoothed[i] }, stroke(smoothColor, 1.75)); err != nil {
		return panel{}, err
	}
	if len(held) > 0 {
		// In a dense row of points, lines suffice.
		if err := addCurve(p, &legend, "held-out text", held, stroke(heldColor, 1.5), len(held) <= 60); err != nil {
			return panel{}, err
		}
	}
	if f.Unigram > 0 {
		line := horizontal(p, f.Unigram, unigramColor)
		p.Add(line)
		legend.Add("unigram entropy", line)
		legend.Add(fmt.Sprintf("  %.3f", f.Unigram))
	}
	if len(bad) > 0 {
		for i := range bad {
			bad[i].Y = p.Y.Min
		}
		points, err := plotter.NewScatter(plotter.XYs(bad))
		if err != nil {
			return panel{}, err
		}
		points.GlyphStyle = draw.GlyphStyle{Color: badColor, Radius: 3, Shape: draw.PyramidGlyph{}}
		p.Add(points)
		legend.Add("NaN or infinite", points)
		legend.Add(fmt.Sprintf("  at %d of %d steps", len(bad), len(f.Steps)))
	}
	return panel{p, func(c draw.Canvas) error { legend.Draw(c); return nil }}, nil
}

func lossesOf(steps []report.Step) []float64 {
	out := make([]float64, len(steps))
	for i, s := range steps {
		out[i] = s.Loss
	}
	return out
}

func yOf(points []plotter.XY) []float64 {
	out := make([]float64, len(points))
	for i, p := range points {
		out[i] = p.Y
	}
	return out
}

func unigram(f report.Figure) []float64 {
	if f.Unigram > 0 {
		return []float64{f.Unigram}
	}
	return nil
}

func stroke(c color.Color, width float64) draw.LineStyle {
	return draw.LineStyle{Color: c, Width: vg.Points(width)}
}

// addCurve draws a line through the points, interrupted where y is not finite. It draws dots if dotted is set, and
// for isolated points. The curve is added to the legend.
func addCurve(p *plot.Plot, legend *plot.Legend, name string, points []plotter.XY, style draw.LineStyle, dotted bool) error {
	legend.Add(name, &plotter.Line{LineStyle: style})
	for from := 0; from < len(points); {
		to := from
		for to < len(points) && finite(points[to].Y) {
			to++
		}
		if to > from {
			segment := plotter.XYs(points[from:to])
			line, err := plotter.NewLine(segment)
			if err != nil {
				return err
			}
			line.LineStyle = style
			p.Add(line)
			if len(segment) == 1 || dotted {
				dots, err := plotter.NewScatter(segment)
				if err != nil {
					return err
				}
				dots.GlyphStyle = draw.GlyphStyle{Color: style.Color, Radius: style.Width + 0.75, Shape: draw.CircleGlyph{}}
				p.Add(dots)
			}
		}
		from = max(to, from+1)
	}
	return nil
}

// horizontal returns a dashed horizontal line across the whole plot.
func horizontal(p *plot.Plot, y float64, c color.Color) *plotter.Line {
	style := stroke(c, 1.25)
	style.Dashes = []vg.Length{vg.Points(6), vg.Points(3)}
	return &plotter.Line{XYs: plotter.XYs{{X: p.X.Min, Y: y}, {X: p.X.Max, Y: y}}, LineStyle: style}
}

func addGrid(p *plot.Plot) {
	grid := plotter.NewGrid()
	grid.Vertical, grid.Horizontal = stroke(gridColor, 0.5), stroke(gridColor, 0.5)
	p.Add(grid)
}

// curve plots one quantity of each step.
type curve struct {
	name  string
	color color.NRGBA
	value func(report.Step) float64
}

// newCurves returns a panel plotting curves over the steps, starting from 0. ok is false if all values are 0, for
// example if they were not measured.
func newCurves(title, y string, steps []report.Step, all ...curve) (_ panel, ok bool, err error) {
	top := 0.0
	for _, s := range steps {
		for _, c := range all {
			if x := c.value(s); finite(x) {
				top = max(top, x)
			}
		}
	}
	if top == 0 {
		return panel{}, false, nil
	}
	p := newPlot(title, y, steps)
	legend := newLegend()
	addGrid(p)
	runs := buckets(len(steps), 600)
	p.Y.Min, p.Y.Max = 0, 1.05*top
	for _, c := range all {
		points := make([]plotter.XY, len(runs))
		for i, b := range runs {
			points[i] = plotter.XY{X: b.step(steps), Y: b.mean(func(i int) float64 { return c.value(steps[i]) })}
		}
		if err := addCurve(p, &legend, c.name, points, stroke(c.color, 1.5), len(points) <= 30); err != nil {
			return panel{}, false, err
		}
	}
	return panel{p, func(c draw.Canvas) error { legend.Draw(c); return nil }}, true, nil
}

// further returns the panels below losses and load, for all measured quantities: learning rate, gradient norm,
// drops, and the breakdown of step time.
func further(steps []report.Step) ([]panel, error) {
	share := func(of func(report.Step) time.Duration) func(report.Step) float64 {
		return func(s report.Step) float64 {
			if s.Elapsed <= 0 {
				return 0
			}
			return 100 * of(s).Seconds() / s.Elapsed.Seconds()
		}
	}
	var panels []panel
	for _, x := range []struct {
		title, y string
		curves   []curve
	}{
		{"Learning rate", "rate", []curve{{"learning rate", smoothColor, func(s report.Step) float64 { return s.LR }}}},
		{"Gradient", "2-norm before clipping", []curve{{"norm", heldColor, func(s report.Step) float64 { return s.Norm }}}},
		{"Dropped tokens", "choices beyond capacity", []curve{{"drops per step", badColor, func(s report.Step) float64 { return float64(s.Drops) }}}},
		{"Time of a step, mean over the ranks of this process", "share (%)", []curve{
			{"compute", smoothColor, share(func(s report.Step) time.Duration { return s.Compute })},
			{"exchange, with the\n  wait for others", heldColor, share(func(s report.Step) time.Duration { return s.Exchange })},
			{"waiting beside\n  kernels", unigramColor, share(func(s report.Step) time.Duration { return s.Waiting })},
		}},
	} {
		p, ok, err := newCurves(x.title, x.y, steps, x.curves...)
		if err != nil {
			return nil, err
		}
		if ok {
			panels = append(panels, p)
		}
	}
	return panels, nil
}

// ticks places about six marks at multiples of 1, 2 or 5 times a power of ten; gonum's own ticker often places two
// or three. It implements plot.Ticker.
type ticks struct {
	least float64 // minimum distance of two marks; 1 for counts
}

// Ticks implements plot.Ticker.
func (t ticks) Ticks(low, high float64) []plot.Tick {
	if !(low < high) || math.IsInf(high-low, 0) {
		return nil
	}
	rough := (high - low) / 6
	exponent := math.Floor(math.Log10(rough))
	power := math.Pow(10, exponent)
	step := 10 * power
	digits := -int(exponent) - 1
	for _, m := range []float64{1, 2, 5} {
		if m*power >= rough*0.85 {
			step, digits = m*power, -int(exponent)
			break
		}
	}
	if step < t.least {
		step, digits = t.least, 0
	}
	var out []plot.Tick
	// Adding 0 turns a negative zero into a positive one, which prints better. The bound ends the loop if step is too
	// small to change k·step.
	for k := math.Ceil(low/step) + 0; k*step <= high && len(out) < 20; k++ {
		label := strconv.FormatFloat(k*step, 'f', max(0, digits), 64)
		if step >= 1e6 {
			label = strconv.FormatFloat(k*step, 'g', 4, 64)
		}
		out = append(out, plot.Tick{Value: k * step, Label: label})
	}
	return out
}
