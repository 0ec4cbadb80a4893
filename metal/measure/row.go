package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/gomoe/gomoe/metal/counts"
)

// Row is the measurement of one instruction.
type Row struct {
	Case        string `json:"case"`
	Kernel      string `json:"kernel"`
	Instruction string `json:"instruction"`
	Shape       string `json:"shape"` // the types of arguments and results
	// Host is the host kernel's median time. Wall is the device's time seen by its caller, from
	// encoding to the end of the wait. GPU is the device's own time, 0 if it does not report it.
	Host time.Duration `json:"host_ns"`
	Wall time.Duration `json:"wall_ns"`
	GPU  time.Duration `json:"gpu_ns"`
	// FLOPs are the floating-point operations of products and attention, 0 for other instructions.
	// Bytes is a lower bound on the bytes read and written.
	FLOPs int64 `json:"flops"`
	Bytes int64 `json:"bytes"`
	// Difference is the largest difference from the host's result. Share is the largest fraction of
	// the kernel's tolerance used: above 1 the result is wrong. Both are -1 if they are not finite.
	Difference float64 `json:"difference"`
	Share      float64 `json:"share_of_tolerance"`
	// Counts is the device's work, if it was counted.
	Counts *counts.Device `json:"counts,omitempty"`
}

// Wrong reports whether a result differs from the host's by more than the kernel's
// tolerance.
func (r Row) Wrong() bool { return !(r.Share >= 0 && r.Share <= 1) }

// Device returns the GPU's own time, or the wall time if there is none.
func (r Row) Device() time.Duration {
	if r.GPU > 0 {
		return r.GPU
	}
	return r.Wall
}

// Ratio returns the host's time divided by the device's.
func (r Row) Ratio() float64 { return float64(r.Host) / float64(max(1, r.Device())) }

// rate returns n divided by the device's time in nanoseconds.
func (r Row) rate(n int64) float64 { return float64(n) / float64(max(1, r.Device())) }

// Header returns the header of rows.
func Header() string {
	return fmt.Sprintf("%-14s %-30s %-21s %9s %9s %9s %8s %8s %8s %9s %7s", "kernel", "case", "instruction", "host ms", "wall ms", "gpu ms", "host/gpu", "GFLOP/s", "GB/s", "diff", "of tol")
}

// String returns the row as a line of a table, with a mark at the end if the result is
// wrong. A row with counts is a line below CountHeader.
func (r Row) String() string {
	if r.Counts != nil {
		return r.countLine()
	}
	flops := "-"
	if r.FLOPs > 0 {
		flops = fmt.Sprintf("%.1f", r.rate(r.FLOPs))
	}
	gpu := "-"
	if r.GPU > 0 {
		gpu = ms(r.GPU)
	}
	mark := ""
	if r.Wrong() {
		mark = "  WRONG"
	}
	return fmt.Sprintf("%-14s %-30s %-21s %9s %9s %9s %8.2f %8s %8.2f %9s %7s%s", r.Kernel, r.Case, r.Instruction, ms(r.Host), ms(r.Wall), gpu, r.Ratio(), flops, r.rate(r.Bytes), number(r.Difference), number(r.Share), mark)
}

// JSON writes the row as a line of JSON.
func (r Row) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/1e6) }

func number(x float64) string {
	switch {
	case x < 0:
		return "inf"
	case x == 0:
		return "0"
	case x >= 0.01 && x < 100:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.1e", x)
}

// finite returns x, or -1 if x is not finite, because JSON has no such numbers.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return -1
	}
	return x
}

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
