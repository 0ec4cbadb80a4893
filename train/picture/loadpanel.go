package picture

import (
	"errors"
	"fmt"
	"image/color"
	"image/png"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/gomoe/gomoe/train/report"
)

// listed is the maximum number of experts drawn with a curve each.
const listed = 16

// newLoad returns the panel of the experts' load over the steps: one line per expert, or a heat map if there are
// more than 16 experts.
func newLoad(steps []report.Step) (panel, error) {
	if len(steps) > 0 && len(steps[0].Load) > listed {
		return newHeat(steps)
	}
	return newLines(steps)
}

// expertStyle returns the line style of expert e, distinct for 16 experts: eight colours that colour blind people
// can tell apart too, first solid and then dashed. Okabe, Ito: Color universal design, 2008, with grey and purple
// for black and yellow.
func expertStyle(e int) draw.LineStyle {
	colors := [...]color.NRGBA{
		{0x00, 0x72, 0xb2, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
		{0x56, 0xb4, 0xe9, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x99, 0x99, 0x99, 0xff}, {0x5b, 0x2a, 0x86, 0xff},
	}
	style := stroke(colors[e%len(colors)], 1.5)
	if e >= len(colors) {
		style.Dashes = []vg.Length{vg.Points(3), vg.Points(1.5)}
	}
	return style
}

func newLines(steps []report.Step) (panel, error) {
	p := newPlot("Load of the experts, mean over layers", "share of routed tokens (%)", steps)
	legend := newLegend()
	addGrid(p)
	p.Y.Min, p.Y.Max = 0, 100
	if len(steps) > 0 && len(steps[0].Load) > 0 {
		experts := len(steps[0].Load)
		runs := buckets(len(steps), 300)
		top := 2 * 100 / float64(experts)
		for e := range experts {
			points := make([]plotter.XY, len(runs))
			for i, b := range runs {
				y := 100 * b.mean(func(i int) float64 { return steps[i].Load[e] })
				points[i] = plotter.XY{X: b.step(steps), Y: y}
				if y > top {
					top = y
				}
			}
			if err := addCurve(p, &legend, fmt.Sprint("expert ", e), points, expertStyle(e), len(points) <= 30); err != nil {
				return panel{}, err
			}
		}
		p.Y.Max = min(100, 1.05*top)
		fair := horizontal(p, 100/float64(experts), unigramColor)
		p.Add(fair)
		legend.Add("fair share", fair)
	}
	return panel{p, func(c draw.Canvas) error { legend.Draw(c); return nil }}, nil
}

// newHeat returns a panel colouring the load of every expert relative to the fair share: white for 1, blue for
// less, and red for more.
func newHeat(steps []report.Step) (panel, error) {
	experts := len(steps[0].Load)
	p := newPlot("Load of the experts, mean over layers", "expert", steps)
	runs := buckets(len(steps), 300)
	grid := heat{cells: make([][]float64, len(runs)), edges: []float64{p.X.Min}}
	most := 2.0
	for i, b := range runs {
		grid.edges = append(grid.edges, float64(steps[b.to-1].Index)+0.5)
		grid.cells[i] = make([]float64, experts)
		for e := range experts {
			x := float64(experts) * b.mean(func(i int) float64 { return steps[i].Load[e] })
			grid.cells[i][e] = x
			if x > most {
				most = x
			}
		}
	}
	cells := &heatCells{heat: grid, top: most, low: -0.5, cell: 1}
	p.Add(cells)
	p.Y.Min, p.Y.Max = -0.5, float64(experts)-0.5
	p.Y.Tick.Marker = ticks{least: 1}
	p.X.Padding, p.Y.Padding = 0, 0

	return panel{p, func(c draw.Canvas) error { shadeBar(c, most); return nil }}, nil
}

// shadeBar draws the colour scale, from no load to the largest load in fair shares, at the left of a canvas.
func shadeBar(c draw.Canvas, most float64) {
	bar := plot.New()
	bar.HideX()
	bar.X.Padding, bar.Y.Padding = 0, 0
	bar.Y.Label.Text = "load / fair share"
	bar.Y.Label.TextStyle.Font = sans(9.5)
	bar.Y.Tick.Label.Font = sans(8.5)
	bar.Y.Tick.Marker = ticks{}
	const shades = 200
	scale := heat{edges: []float64{0, 1}, cells: [][]float64{make([]float64, shades)}}
	for i := range shades {
		scale.cells[0][i] = most * (float64(i) + 0.5) / shades
	}
	bar.Add(&heatCells{heat: scale, top: most, cell: most / shades})
	bar.X.Min, bar.X.Max = 0, 1
	bar.Y.Min, bar.Y.Max = 0, most
	c.Max.X = c.Min.X + 58
	bar.Draw(c)
}

// Layers is the experts' load in each layer as a PNG: one column per layer and one row per expert, coloured by the
// load relative to the fair share: white for 1, blue for less and red for more.
type Layers struct {
	Title string
	Load  [][]float64 // by layer, the share of each expert; all layers have the same number of experts
}

// Draw draws the picture. Equal loads give equal bytes. It is an error if there is no layer, or if layers differ in
// their number of experts; Draw also returns errors of the writer.
func (l Layers) Draw(w io.Writer) error {
	if len(l.Load) == 0 || len(l.Load[0]) == 0 {
		return errors.New("picture: layers: no layer has experts, want at least one")
	}
	experts := len(l.Load[0])
	grid, most := heat{edges: []float64{-0.5}}, 2.0
	for i, load := range l.Load {
		if len(load) != experts {
			return fmt.Errorf("picture: layers: layer %d has the load of %d experts, want %d as layer 0", i, len(load), experts)
		}
		column := make([]float64, experts)
		for e, x := range load {
			column[e] = x * float64(experts)
			most = max(most, column[e])
		}
		grid.edges, grid.cells = append(grid.edges, float64(i)+0.5), append(grid.cells, column)
	}
	p := newPlot("", "expert", nil)
	p.Title.Text, p.X.Label.Text = "Load of the experts by layer", "layer with experts"
	p.Add(&heatCells{heat: grid, top: most, low: -0.5, cell: 1})
	p.X.Min, p.X.Max = -0.5, float64(len(l.Load))-0.5
	p.Y.Min, p.Y.Max = -0.5, float64(experts)-0.5
	p.Y.Tick.Marker = ticks{least: 1}
	p.X.Padding, p.Y.Padding = 0, 0

	img := vgimg.NewWith(vgimg.UseWH(width, two), vgimg.UseDPI(dpi))
	canvas := draw.New(img)
	title := plot.New().Title.TextStyle
	title.Font = sans(13)
	title.XAlign, title.YAlign = draw.XLeft, draw.YTop
	canvas.FillText(title, vg.Point{X: margin, Y: two - margin}, l.Title)
	cell := draw.Crop(canvas, margin, -side-margin, margin, -header-margin)
	p.Draw(cell)
	strip := p.DataCanvas(cell)
	strip.Min.X, strip.Max.X = strip.Max.X+14, width-margin
	shadeBar(strip, most)
	if err := png.Encode(w, img.Image()); err != nil {
		return fmt.Errorf("picture: layers: %w", err)
	}
	return nil
}

// heat is a grid of values, cells[column][row]. Column i extends from edges[i] to edges[i+1].
type heat struct {
	edges []float64
	cells [][]float64
}

// heatCells draws a heat map. gonum's HeatMap leaves seams between its cells and needs at least two columns. Here
// each cell overlaps the next one slightly, and one column suffices. Non-finite cells stay white.
type heatCells struct {
	heat
	top       float64 // the value of the last colour
	low, cell float64 // start of row 0, and the height of a row
}

// shade interpolates linearly between blue for 0, white for 1 and red for top, which exceeds 1.
func (h *heatCells) shade(value float64) color.Color {
	blue, white, red := [3]float64{0x1b, 0x4f, 0x9c}, [3]float64{0xf7, 0xf7, 0xf7}, [3]float64{0xb2, 0x18, 0x2b}
	from, to, at := blue, white, max(0, value)
	if value > 1 {
		from, to, at = white, red, min(1, (value-1)/(h.top-1))
	}
	var rgb [3]uint8
	for i := range rgb {
		rgb[i] = uint8(from[i] + at*(to[i]-from[i]) + 0.5)
	}
	return color.NRGBA{R: rgb[0], G: rgb[1], B: rgb[2], A: 0xff}
}

// Plot implements plot.Plotter.
func (h *heatCells) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	const hair = vg.Length(0.6)
	for i, column := range h.cells {
		left, right := x(h.edges[i]), min(x(h.edges[i+1])+hair, c.Max.X)
		for e, value := range column {
			if !finite(value) {
				continue
			}
			low, high := y(h.low+float64(e)*h.cell), min(y(h.low+float64(e+1)*h.cell)+hair, c.Max.Y)
			c.FillPolygon(h.shade(value), []vg.Point{{X: left, Y: low}, {X: right, Y: low}, {X: right, Y: high}, {X: left, Y: high}})
		}
	}
}
