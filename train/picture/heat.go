package picture

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

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
