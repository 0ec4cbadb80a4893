package picture

import (
	"errors"
	"fmt"
	"image/png"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

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
