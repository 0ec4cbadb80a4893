package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/lowering"
)

// groupedTiles is groupedMatmul tile by tile, for all floats.
func groupedTiles(transpose bool, align int) lowering.Tiling {
	return func(a *lowering.Args) lowering.Tiles {
		switch a.In[0].Type.DType {
		case graph.F64:
			return expertTilesOf(a, transpose, align, kernel.Gemm[float64])
		case graph.F32:
			return expertTilesOf(a, transpose, align, kernel.Gemm[float32])
		case graph.BF16:
			return expertTilesOf(a, transpose, align, kernel.GemmHalf[array.Brain, array.Brain])
		default:
			return expertTilesOf(a, transpose, align, kernel.GemmHalf[array.Half, array.Half])
		}
	}
}

// expertTiles are tiles of experts' products. Rows that fill up an expert's zone are
// zeros in a tile.
type expertTiles[E array.Elem] struct {
	expertProducts[E]
	rs, cs int // strides of the matrices
	rows   int
	mul    gemm[E, E]
}

func expertTilesOf[E array.Elem](a *lowering.Args, transpose bool, align int, mul gemm[E, E]) lowering.Tiles {
	h, f := a.In[0].Type.Shape[1], a.Out[0].Type.Shape[1]
	t := lowering.Keep[expertTiles[E]](a)
	t.expertProducts = expertProducts[E]{zones{data[int32](a.In[2]), align, 0}, data[E](a.In[0]), data[E](a.In[1]), nil, h, f}
	t.rs, t.cs, t.rows, t.mul = f, 1, a.In[0].Type.Shape[0], mul
	if transpose {
		t.rs, t.cs = 1, h
	}
	return t
}

func (t *expertTiles[E]) Size() (rows, cols, deep int) { return t.rows, t.f, t.h }

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
	y, n, h := view[E](dst), j1-j0, t.h
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
			t.mul(to-from, n, h, t.x[min(from*h, len(t.x)):], h, 1, t.w[min(e*h*t.f+j0*t.cs, len(t.w)):], t.rs, t.cs, y[(from-i0)*pitch:], pitch, false)
			done = to
		}
		start = roundUp(start+int(count), t.align)
	}
	zero(done, i1)
}
