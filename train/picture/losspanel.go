package picture

import (
	"fmt"
	"image/color"
	"slices"

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
