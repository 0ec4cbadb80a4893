package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/lowering"
)

// A product's elements have the same bits however its rows and columns are cut (see
// kernel.Gemm), and so in tiles.

// tiledTypes reports whether products x·y = z are made tile by tile: those that are
// rounded as they leave the sums.
func tiledTypes(x, y, z graph.DType) bool {
	switch x {
	case graph.F32, graph.F64:
		return y == x && z == x
	case graph.BF16, graph.F16:
		return y == x && (z == graph.F32 || z == graph.BF16 || z == graph.F16)
	}
	return false
}

// dotTiles is dotKernel tile by tile, of types x, y and z.
func dotTiles(x, y, z graph.Type, l, r operandDims) lowering.Tiling {
	deep := lenOf(x, l.contract)
	transposed := transposedRight(y, r)
	return lowering.Tiling{
		Rows: lenOf(x, l.batch) * lenOf(x, l.free), Cols: lenOf(y, r.free), Deep: deep,
		Need: func(rows, cols int) map[string]int64 {
			return gemmNeed(x.DType, z.DType, rows, cols, deep, transposed)
		},
		Begin: func(a *lowering.Args) lowering.Tiles {
			x, y := operandOf(a, a.In[0], l), operandOf(a, a.In[1], r)
			z := a.Out[0].Type.DType
			switch a.In[0].Type.DType {
			case graph.F64:
				return tilesOf(a, x, y, panelled[float64])
			case graph.F32:
				return tilesOf(a, x, y, panelled[float32])
			case graph.BF16:
				return halfTiles(a, x, y, z, panelledHalf[array.Brain, float32], panelledHalf[array.Brain, array.Brain], panelledHalf[array.Brain, array.Half])
			default:
				return halfTiles(a, x, y, z, panelledHalf[array.Half, float32], panelledHalf[array.Half, array.Brain], panelledHalf[array.Half, array.Half])
			}
		},
	}
}

func halfTiles[E kernel.Half](a *lowering.Args, x, y operand, z graph.DType, f32 gemm[E, float32], bf16 gemm[E, array.Brain], f16 gemm[E, array.Half]) lowering.Tiles {
	switch z {
	case graph.F32:
		return tilesOf(a, x, y, f32)
	case graph.BF16:
		return tilesOf(a, x, y, bf16)
	}
	return tilesOf(a, x, y, f16)
}

// productTiles are tiles of a batch of products, the rows of one below those of the
// other.
type productTiles[E, R array.Elem] struct{ product[E, R] }

func tilesOf[E, R array.Elem](a *lowering.Args, l, r operand, mul gemm[E, R]) lowering.Tiles {
	t := lowering.Keep[productTiles[E, R]](a)
	t.product = product[E, R]{l: l, r: r, x: data[E](l.array), y: data[E](r.array), mul: mul, panels: a.Packed(1)}
	return t
}

func (t *productTiles[E, R]) Size() (rows, cols, deep int) {
	return len(t.l.start) * t.l.rows, t.r.rows, t.l.cols
}

// Next cuts between the products of two batch indices.
func (t *productTiles[E, R]) Next(i, most int) int {
	if m := t.l.rows; len(t.l.start) > 1 && m >= most {
		return min(i+most, (i/m+1)*m)
	}
	return min(i+most, len(t.l.start)*t.l.rows)
}

func (t *productTiles[E, R]) Tile(dst []byte, n, i0, i1, j0, j1 int) {
	z, m := view[R](dst), t.l.rows
	for at := i0; at < i1; {
		b, i := at/m, at%m
		end := min(m, i+i1-at)
		t.multiply(b, i, end, j0, j1, z[(at-i0)*n:], n)
		at += end - i
	}
}
