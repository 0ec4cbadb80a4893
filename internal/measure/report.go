package measure

import (
	"encoding/json"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Header is the line above the lines of rows.
func Header() string {
	return fmt.Sprintf("%-9s %-14s %5s %11s %11s %11s %9s %9s", "transport", "operation", "ranks", "bytes", "µs", "fastest µs", "alg GB/s", "bus GB/s")
}

// String returns the row as a line of a table.
func (r Row) String() string {
	if r.Bytes == 0 {
		return fmt.Sprintf("%-9s %-14s %5d %11s %11.1f %11.1f", r.Transport, r.Op, r.Ranks, "-", r.Micros, r.Best)
	}
	return fmt.Sprintf("%-9s %-14s %5d %11d %11.1f %11.1f %9.3f %9.3f", r.Transport, r.Op, r.Ranks, r.Bytes, r.Micros, r.Best, r.AlgGBs, r.BusGBs)
}

// JSON writes the row as a line of JSON.
func (r Row) JSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// Markdown writes rows as a table of Markdown: operations and sizes down, transports
// across, each with microseconds and bus bandwidth.
func Markdown(w io.Writer, rows []Row) error {
	var transports []string
	type place struct {
		op    string
		ranks int
		bytes int64
	}
	var places []place
	cells := map[place]map[string]Row{}
	for _, r := range rows {
		p := place{r.Op, r.Ranks, r.Bytes}
		if cells[p] == nil {
			cells[p] = map[string]Row{}
			places = append(places, p)
		}
		cells[p][r.Transport] = r
		if !slices.Contains(transports, r.Transport) {
			transports = append(transports, r.Transport)
		}
	}
	var s strings.Builder
	s.WriteString("| operation | ranks | bytes |")
	for _, t := range transports {
		fmt.Fprintf(&s, " %s µs (GB/s) |", t)
	}
	s.WriteString("\n|---|--:|--:|" + strings.Repeat("--:|", len(transports)) + "\n")
	for _, p := range places {
		fmt.Fprintf(&s, "| %s | %d | %d |", p.op, p.ranks, p.bytes)
		for _, t := range transports {
			r, ok := cells[p][t]
			switch {
			case !ok:
				s.WriteString(" – |")
			case r.Bytes == 0:
				fmt.Fprintf(&s, " %.1f |", r.Micros)
			default:
				fmt.Fprintf(&s, " %.1f (%.2f) |", r.Micros, r.BusGBs)
			}
		}
		s.WriteString("\n")
	}
	_, err := io.WriteString(w, s.String())
	return err
}

// Plot writes a PNG with one panel for every operation that has several sizes: the bus
// bandwidth of every transport by size, on logarithmic axes.
func Plot(w io.Writer, rows []Row) error {
	var ops []string
	first := map[string]int64{} // the first size of each operation
	for _, r := range rows {
		if size, seen := first[r.Op]; !seen {
			first[r.Op] = r.Bytes
		} else if r.Bytes != size && !slices.Contains(ops, r.Op) {
			ops = append(ops, r.Op)
		}
	}
	if len(ops) == 0 {
		return fmt.Errorf("measure: plot: no operation was measured at two sizes or more")
	}
	columns := min(3, len(ops))
	lines := (len(ops) + columns - 1) / columns
	grid := make([][]*plot.Plot, lines)
	for i := range grid {
		grid[i] = make([]*plot.Plot, columns)
	}
	for i, op := range ops {
		p, err := panel(op, rows)
		if err != nil {
			return err
		}
		grid[i/columns][i%columns] = p
	}
	canvas := vgimg.NewWith(vgimg.UseWH(vg.Length(columns)*11*vg.Centimeter, vg.Length(lines)*8*vg.Centimeter), vgimg.UseDPI(110))
	tiles := draw.Tiles{Rows: lines, Cols: columns, PadX: 6 * vg.Millimeter, PadY: 6 * vg.Millimeter, PadTop: 3 * vg.Millimeter, PadRight: 5 * vg.Millimeter, PadLeft: 2 * vg.Millimeter, PadBottom: 2 * vg.Millimeter}
	for y, row := range plot.Align(grid, tiles, draw.New(canvas)) {
		for x, c := range row {
			if grid[y][x] != nil {
				grid[y][x].Draw(c)
			}
		}
	}
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

// panel draws one operation.
func panel(op string, rows []Row) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = op
	p.Title.TextStyle.Font = font.From(p.Title.TextStyle.Font, 11)
	p.X.Label.Text, p.Y.Label.Text = "bytes", "bus GB/s"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(sizes), plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.TextStyle.Font = font.From(p.Legend.TextStyle.Font, 8)
	p.Add(plotter.NewGrid())
	var transports []string
	points := map[string]plotter.XYs{}
	for _, r := range rows {
		if r.Op != op || r.Bytes == 0 || !(r.BusGBs > 0) {
			continue
		}
		if points[r.Transport] == nil {
			transports = append(transports, r.Transport)
		}
		points[r.Transport] = append(points[r.Transport], plotter.XY{X: float64(r.Bytes), Y: r.BusGBs})
	}
	for i, t := range transports {
		line, dots, err := plotter.NewLinePoints(points[t])
		if err != nil {
			return nil, fmt.Errorf("measure: plot: %w", err)
		}
		line.Color = hue(i)
		line.Width = vg.Points(1.5)
		dots.Color, dots.Shape, dots.Radius = hue(i), draw.CircleGlyph{}, vg.Points(2)
		p.Add(line, dots)
		p.Legend.Add(t, line, dots)
	}
	if transports == nil { // a single rank sends nothing: an empty panel
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 1, 1<<20, 0.1, 10
	}
	// For a single value the plot would choose a range below 0, where there are no
	// logarithms. The legend needs space above.
	p.X.Min, p.X.Max = p.X.Min/1.2, p.X.Max*1.2
	p.Y.Min, p.Y.Max = p.Y.Min/1.5, p.Y.Max*4
	return p, nil
}

// hue returns one of eight colors that colour-blind people can distinguish (Okabe and
// Ito).
func hue(i int) color.Color {
	all := [...]color.RGBA{{0, 114, 178, 255}, {230, 159, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {86, 180, 233, 255}, {213, 94, 0, 255}, {0, 0, 0, 255}, {240, 228, 66, 255}}
	return all[i%len(all)]
}

// sizes puts ticks at powers of two, as many as fit, named in bytes, KiB or MiB.
func sizes(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	from, to := math.Ceil(math.Log2(lo)-1e-9), math.Floor(math.Log2(hi)+1e-9)
	step := max(1, math.Ceil((to-from)/6))
	for e := from; e <= to; e++ {
		t := plot.Tick{Value: math.Exp2(e)}
		if math.Mod(e-from, step) == 0 {
			t.Label = Size(int64(t.Value))
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// Size prints a number of bytes, with a binary unit if it is a multiple of it.
func Size(n int64) string {
	for _, u := range [...]struct {
		n    int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.n && n%u.n == 0 {
			return fmt.Sprintf("%d %s", n/u.n, u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
