package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// indexedRows are rows of element type d, read through an index and converted before computing:
// row i is row at[i] of mem, or none if at[i] is -1.
type indexedRows struct {
	mem  []byte
	size int // bytes of a row of mem
	d    graph.DType
	at   []int32
}

// indexedRowsOf returns the rows of argument i, of type d, if they are read through an index.
func indexedRowsOf(a *exec.Args, i int, d graph.DType) (rows indexedRows, ok bool) {
	if at, ok := a.IndexOf(i); ok {
		return indexedRows{a.In[i].Bytes(), rowSize(a.In[i].Type), d, at}, true
	}
	return rows, false
}

// part returns n elements of row i from element `from` on.
func (r *indexedRows) part(i, from, n int) []byte {
	each := r.d.Size()
	return r.mem[int(r.at[i])*r.size+from*each:][:n*each]
}

// isNarrow reports whether kernels compute with elements of type d in f32.
func isNarrow(d graph.DType) bool { return d == graph.BF16 || d == graph.F16 }

// narrowDots is rowDots for rows of type d, bf16 or f16. Products are rounded to d, and so is
// their sum.
func narrowDots(d graph.DType) exec.Kernel {
	return func(a *exec.Args) error {
		x, _ := indexedRowsOf(a, 0, d)
		width := a.In[1].Type.Shape[1]
		exec.Share(a, min(len(x.at), a.Out[0].Type.Len()), movedGrain(2*width), dotsNarrow{x, a.In[1], a.Out[0], width, exec.RoomsOf[float32](a, 2*width), exec.RoomsOf[byte](a, 2*width)})
		return nil
	}
}

type dotsNarrow struct {
	x      indexedRows
	y, out array.Array
	n      int
	rooms  *exec.Rooms[float32]
	narrow *exec.Rooms[byte]
}

func (w *dotsNarrow) Piece(lo, hi int) {
	room, narrow, d := w.rooms.Take(), w.narrow.Take(), w.x.d
	product, y := room[:w.n], room[w.n:]
	for i := lo; i < hi; i++ {
		if w.x.at[i] >= 0 {
			widenRow(product, w.x.part(i, 0, w.n), d)
			widenRow(y, w.y.Bytes()[i*rowSize(w.y.Type):][:rowSize(w.y.Type)], d)
			vector.Mul(product, product, y)
			narrowRow(narrow, product, d)
			widenRow(product, narrow, d)
			sum := [1]float32{float32(vector.Sum(product))}
			narrowRow(element(w.out, i), sum[:], d)
		}
	}
}

// dequantizedRows multiplies f8 codes of type d by scales, each covering an equal block of a row. Rows
// of codes and rows of scales are each read through an index. The result is f32, or rounded once to bf16
// or f16.
func dequantizedRows(d graph.DType, blocks int) exec.Kernel {
	return func(a *exec.Args) error {
		codes, _ := indexedRowsOf(a, 0, d)
		scales, _ := indexedRowsOf(a, 1, graph.F32)
		y := a.Out[0]
		rows := y.Type.Shape[0]
		width := 0
		if rows > 0 {
			width = y.Type.Len() / rows
		}
		exec.Share(a, min(len(codes.at), rows), 1+cheap/(1+width), rowsDequantized{codes, scales, y, width, blocks, exec.RoomsOf[float32](a, width)})
		return nil
	}
}

type rowsDequantized struct {
	codes, scales indexedRows
	y             array.Array
	n, blocks     int
	rooms         *exec.Rooms[float32]
}

func (w *rowsDequantized) Piece(lo, hi int) {
	room, d := w.rooms.Take(), w.y.Type.DType
	for i := lo; i < hi; i++ {
		if w.codes.at[i] < 0 {
			continue
		}
		dst := w.y.Bytes()[i*w.n*d.Size():][:w.n*d.Size()]
		row := room
		if d == graph.F32 {
			row = view[float32](dst)
		}
		codes := w.codes.part(i, 0, w.n)
		if w.codes.d == graph.F8_E4M3 {
			array.WidenE4M3(row, view[array.E4M3](codes))
		} else {
			array.WidenE5M2(row, view[array.E5M2](codes))
		}
		each := w.n / max(w.blocks, 1)
		for b, s := range view[float32](w.scales.part(i, 0, w.blocks)) {
			part := row[b*each : (b+1)*each]
			scale(part, part, s)
		}
		if d != graph.F32 {
			narrowRow(dst, row, d)
		}
	}
}
