package picture

import (
	"image/color"
	"time"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gomoe/gomoe/train/report"
)

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
