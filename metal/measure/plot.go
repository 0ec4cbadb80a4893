package measure

import (
	"errors"
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Plot writes a PNG with one line per row, from the device's time to the host's, on a
// logarithmic axis. A wrong result is marked with a cross.
func Plot(w io.Writer, rows []Row) error {
	if len(rows) == 0 {
		return errors.New("measure: plot: no rows")
	}
	p := plot.New()
	p.X.Label.Text = "milliseconds"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Add(plotter.NewGrid())
	var host, device, wrong plotter.XYs
	var names []string
	for i := range rows {
		r := rows[len(rows)-1-i] // the first row is at the top
		name := r.Case + ": " + r.Instruction
		if r.Case == r.Instruction {
			name = r.Case
		}
		names = append(names, name)
		h, d := plotter.XY{X: max(1e-3, r.Host.Seconds()*1e3), Y: float64(i)}, plotter.XY{X: max(1e-3, r.Device().Seconds()*1e3), Y: float64(i)}
		host, device = append(host, h), append(device, d)
		line, err := plotter.NewLine(plotter.XYs{d, h})
		if err != nil {
			return fmt.Errorf("measure: plot: %w", err)
		}
		line.Width, line.Color = vg.Points(1), color.Gray{170}
		p.Add(line)
		if r.Wrong() {
			wrong = append(wrong, d)
		}
	}
	for _, s := range []struct {
		name   string
		at     plotter.XYs
		color  color.Color
		glyph  draw.GlyphDrawer
		radius float64
	}{
		{"host", host, color.RGBA{0, 114, 178, 255}, draw.CircleGlyph{}, 3},
		{"device", device, color.RGBA{230, 159, 0, 255}, draw.CircleGlyph{}, 3},
		{"wrong result", wrong, color.RGBA{200, 0, 0, 255}, draw.CrossGlyph{}, 6},
	} {
		if s.at == nil {
			continue
		}
		dots, err := plotter.NewScatter(s.at)
		if err != nil {
			return fmt.Errorf("measure: plot: %w", err)
		}
		dots.Color, dots.Shape, dots.Radius = s.color, s.glyph, vg.Points(s.radius)
		p.Add(dots)
		p.Legend.Add(s.name, dots)
	}
	p.NominalY(names...)
	p.Y.Tick.Label.Font = font.From(p.Y.Tick.Label.Font, 8)
	p.Legend.Top = true
	p.X.Min, p.X.Max = p.X.Min/1.5, p.X.Max*1.5
	p.Y.Min, p.Y.Max = -1, float64(len(rows))+2 // with room for the legend
	canvas := vgimg.NewWith(vgimg.UseWH(20*vg.Centimeter, vg.Length(len(rows)+6)*0.42*vg.Centimeter), vgimg.UseDPI(110))
	p.Draw(draw.Crop(draw.New(canvas), 2*vg.Millimeter, -5*vg.Millimeter, 2*vg.Millimeter, -2*vg.Millimeter))
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}
