package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/lowering"
)

// groupedTiles is groupedMatmul tile by tile, for all floats, of experts' matrices of
// type w and so many rows.
func groupedTiles(w graph.Type, rows groupedRows, transpose bool, align int) lowering.Tiling {
	l := expertLayout(w, transpose)
	return lowering.Tiling{
		Rows: rows.all, Cols: l.n, Deep: l.k,
		Need: func(tall, wide int) map[string]int64 {
			return gemmNeed(w.DType, w.DType, min(tall, rows.each), wide, l.k, transpose)
		},
		Begin: func(a *lowering.Args) lowering.Tiles {
			switch a.In[0].Type.DType {
			case graph.F64:
				return expertTilesOf[float64](a, transpose, align)
			case graph.F32:
				return expertTilesOf[float32](a, transpose, align)
			case graph.BF16:
				return expertTilesOf[array.Brain](a, transpose, align)
			default:
				return expertTilesOf[array.Half](a, transpose, align)
			}
		},
	}
}

// expertTiles are tiles of experts' products. Rows that fill up an expert's zone are
// zeros in a tile.
type expertTiles[E kernel.Number] struct {
	fused[E]
	rows, f int
}

func expertTilesOf[E kernel.Number](a *lowering.Args, transpose bool, align int) lowering.Tiles {
	t := lowering.Keep[expertTiles[E]](a)
	t.fused, _, _ = fusedOf[E](a, transpose, align, a.In[0].Type.Shape[1], 0)
	t.rows, t.f = a.In[0].Type.Shape[0], a.Out[0].Type.Shape[1]
	return t
}

func (t *expertTiles[E]) Size() (rows, cols, deep int) { return t.rows, t.f, t.k }

// Next cuts between experts, and one that has more rows in equal parts.
func (t *expertTiles[E]) Next(i, most int) int {
	end, start := i, 0
	for _, count := range t.counts {
		next := roundUp(start+int(count), t.align)
		if next > i {
			if next-i <= most {
				end = next
			} else if end == i {
				parts := (next - i + most - 1) / most
				return min(i+(next-i+parts-1)/parts, t.rows)
			} else {
				break
			}
		}
		start = next
	}
	if end == i { // rows that are no expert's
		end = min(i+most, t.rows)
	}
	return min(end, t.rows)
}

func (t *expertTiles[E]) Tile(dst []byte, pitch, i0, i1, j0, j1 int) {
	y, x, n, h := view[E](dst), data[E](t.In[0]), j1-j0, t.k
	zero := func(from, to int) {
		for i := from; i < to; i++ {
			clear(y[(i-i0)*pitch:][:n])
		}
	}
	done, start := i0, 0
	for e, count := range t.counts {
		if start >= i1 {
			break
		}
		from, to := max(start, i0), min(start+int(count), i1)
		if from < to {
			zero(done, from)
			m := t.matrix(1, e)
			m.X, m.Panels = m.X[min(j0*m.Col, len(m.X)):], m.Panels.From(j0)
			kernel.GemmPanels(to-from, n, h, x[min(from*h, len(x)):], h, 1, m, y[(from-i0)*pitch:], pitch, false)
			done = to
		}
		start = roundUp(start+int(count), t.align)
	}
	zero(done, i1)
}
