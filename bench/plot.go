package main

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

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
