package primitives

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/blocks"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/quant"
)

// blockTypes returns the names of the element types in blocks.
func blockTypes() string { return strings.Trim(fmt.Sprint(quant.Types()), "[]") }

// groupedBlocks is groupedMatmul with weights in blocks.
func groupedBlocks(transpose bool, align int) exec.Kernel {
	wide := inFloat(groupedWide[float32](transpose, align), groupedWide[float64](transpose, align))
	if !transpose {
		return wide
	}
	return func(a *exec.Args) error {
		d := a.Out[0].Type.DType // of the rows, too
		if d == graph.F64 {
			return wide(a)
		}
		return resultIn(a, graph.F32, func(a *exec.Args) error { return groupedRounded(a, align, d) })
	}
}

// roundedExpertRows returns the first n rows of argument 0, of h elements of type t each, rounded to int8 for products
// with weights of type d. If an index gathers n rows from fewer rows, each source row is rounded once and then copied.
func roundedExpertRows(a *exec.Args, t, d graph.DType, h, n int) []byte {
	x, through := indexedRowsOf(a, 0, t)
	if !through {
		return roundedRows(a, d, data[float32](inType(a, a.In[0], graph.F32)), h, n)
	}
	size := blocks.RowBytes(d, h)
	rows, rooms := cacheAligned(a, n*size), exec.RoomsOf[float32](a, h)
	of := a.In[0].Type.Shape[0]
	if n <= of {
		a.Parallel(n, 1+dotGrain/(1+h), func(lo, hi int) {
			room := rooms.Take()
			for i := lo; i < hi; i++ {
				if x.at[i] >= 0 {
					x.round(rows[i*size:(i+1)*size], d, int(x.at[i]), room)
				}
			}
		})
		return rows
	}
	once := cacheAligned(a, of*size)
	a.Parallel(of, 1+dotGrain/(1+h), func(lo, hi int) {
		room := rooms.Take()
		for i := lo; i < hi; i++ {
			x.round(once[i*size:(i+1)*size], d, i, room)
		}
	})
	a.Parallel(n, movedGrain(size), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			if j := int(x.at[i]); j >= 0 {
				copy(rows[i*size:(i+1)*size], once[j*size:])
			}
		}
	})
	return rows
}

// round rounds row i of x.mem for products with weights of type d. room is scratch for a row of float32.
func (x *indexedRows) round(row []byte, d graph.DType, i int, room []float32) {
	from := x.mem[i*x.size:][:len(room)*x.d.Size()]
	if x.d == graph.F32 {
		room = view[float32](from)
	} else {
		widenRow(room, from, x.d)
	}
	blocks.Round(d, len(room), row, room)
}

// groupedRounded multiplies rows of type t, rounded to int8, with rows of weights. The work is cut between rows of
// weights. Each is then read once, which matters when there are few tokens. The result is f32.
func groupedRounded(a *exec.Args, align int, t graph.DType) error {
	w, y := a.In[1], data[float32](a.Out[0])
	d, h, f := w.Type.DType, w.Type.Shape[2], a.Out[0].Type.Shape[1]
	if f == 0 {
		return nil
	}
	// Rows between zones are not read here; the engine sets them to zero.
	z := weightRowWork{data[int32](a.In[2]), align, f}
	rows := roundedExpertRows(a, t, d, h, z.end())
	work.Steal(a, z.work(), 1+quantGrain/(1+h), 1, func(_, lo, hi int) {
		q := blockProducts{d: d, deep: h, f: f, rows: rows}
		z.each(lo, hi, func(e, start, count, from, to int) {
			q.add(w.Slab(e), y[start*f+from:], f, start, count, from, to)
		})
		q.flush(q.rest)
	})
	return nil
}

// resultIn runs a kernel computing its result in type d, and then rounds it to the result's own type.
func resultIn(a *exec.Args, d graph.DType, k exec.Kernel) error {
	y := a.Out[0]
	if y.Type.DType == d {
		return k(a)
	}
	a.Out[0] = scratchArray(a, y.Type.With(d))
	err := k(a)
	wide := a.Out[0]
	if a.Out[0] = y; err != nil || a.Dry() != nil {
		return err
	}
	return convert(a, y, wide)
}

// groupedSwiGLUBlocks is groupedSwiGLU of f32 with weights in blocks. It computes both products for a few
// rows of weights, with the bits of groupedRounded, followed by their swiglu.
func groupedSwiGLUBlocks(align int) exec.Kernel {
	return func(a *exec.Args) error {
		gate, up, y := a.In[1], a.In[2], data[float32](a.Out[0])
		d, h, f := gate.Type.DType, gate.Type.Shape[2], a.Out[0].Type.Shape[1]
		if f == 0 {
			return nil
		}
		z := weightRowWork{data[int32](a.In[3]), align, f}
		end := z.end()
		rows := roundedExpertRows(a, graph.F32, d, h, end)
		var g, u []float32
		keep, most := len(a.Out) == 3, z.most()
		if keep {
			g, u = data[float32](a.Out[1]), data[float32](a.Out[2])
		} else {
			n := max(a.Threads, 1) * most
			g, u = exec.MakeDirty[float32](a, n), exec.MakeDirty[float32](a, n)
		}
		work.Steal(a, z.work(), 1+quantGrain/(1+h), 1, func(thread, lo, hi int) {
			q := blockProducts{d: d, deep: h, f: f, rows: rows}
			z.each(lo, hi, func(e, start, count, from, to int) {
				for j, cols := from, z.atOnce(count); j < to; j += cols {
					end, at, row := min(j+cols, to), start*f+j, f
					if !keep {
						at, row = thread*most, end-j
					}
					q.add(gate.Slab(e), g[at:], row, start, count, j, end)
					rest := q.rest // the next piece begins with it
					q.add(up.Slab(e), u[at:], row, start, count, j, end)
					q.rest = rest
					q.then = func() {
						for i := range count {
							g, u := g[at+i*row:][:end-j], u[at+i*row:][:end-j]
							vector.SwiGLU(y[(start+i)*f+j:][:end-j], g, u)
						}
					}
				}
			})
			q.flush(q.rest)
		})
		return nil
	}
}

// gatedAtOnce is the approximate number of results of each of two products computed before their swiglu: they are
// then still in the second-level cache.
const gatedAtOnce = 16 << 10

// atOnce returns the number of rows of weights multiplied with an expert's rows before computing swiglu.
func (z weightRowWork) atOnce(count int) int { return min(max(gatedAtOnce/count&^31, 32), z.f) }

// most returns the largest number of results before computing swiglu.
func (z weightRowWork) most() int {
	n := 0
	for _, c := range z.counts {
		if c > 0 {
			n = max(n, int(c)*z.atOnce(int(c)))
		}
	}
	return n
}

// blockProducts computes products of rounded rows with rows of weights one after another.
// It delays each product until the next one is known, prefetching the weights of the next
// one meanwhile.
type blockProducts struct {
	d       graph.DType
	deep, f int    // elements of a row of weights, and rows of weights in a matrix
	rows    []byte // rounded
	then    func() // called after the pending product, unless nil

	w, x            []byte // of the pending product; nil if there is none
	y               []float32
	row, count, cut int
	rest            []byte // of the matrix, after w: the thread's next piece may begin there
}

// add schedules the product of `count` rows, from row start on, with rows [from, to) of
// matrix, after computing the pending one. row is the row stride of y in elements.
func (q *blockProducts) add(matrix []byte, y []float32, row, start, count, from, to int) {
	size, each := blocks.RowBytes(q.d, q.deep), len(matrix)/q.f
	w := matrix[from*each : to*each]
	q.flush(w)
	q.w, q.x, q.y, q.row, q.count, q.cut, q.rest = w, q.rows[start*size:], y, row, count, to-from, matrix[to*each:]
}

// flush computes the pending product, prefetching next, the weights of the next one. nil means
// that there is none.
func (q *blockProducts) flush(next []byte) {
	if q.count > 0 {
		blocks.Multiply(q.d, q.count, q.cut, q.deep, q.x, q.w, next, q.y, q.row, 1)
	}
	if q.then != nil {
		q.then()
		q.then = nil
	}
	q.count = 0
}

// quantGrain is the number of weights, counted by weightRowWork, worth a goroutine: some
// 130 KB, delivered by memory in 6 microseconds.
const quantGrain = 1 << 19

// roundedRows rounds the first n rows of x, of h elements each, into memory beginning at
// a cache line.
func roundedRows(a *exec.Args, d graph.DType, x []float32, h, n int) []byte {
	size := blocks.RowBytes(d, h)
	rows := cacheAligned(a, n*size)
	a.Parallel(n, 1+dotGrain/(1+h), func(lo, hi int) {
		blocks.Round(d, h, rows[lo*size:hi*size], x[lo*h:hi*h])
	})
	return rows
}

// cacheAligned returns n bytes of scratch memory with undefined contents, beginning at a
// cache line.
func cacheAligned(a *exec.Args, n int) []byte {
	mem := exec.MakeDirty[uint8](a, n+63)
	if a.Dry() != nil {
		return mem
	}
	at := int(-uintptr(unsafe.Pointer(unsafe.SliceData(mem))) & 63)
	return mem[at : at+n]
}

// weightRowWork is the work of experts, cut between rows of weights. Each expert with
// tokens has f rows of weights. The cost of a row is the time of reading it from memory,
// plus a little for each token.
type weightRowWork struct {
	counts []int32
	align  int
	f      int
}

func (z weightRowWork) cost(count int32) int {
	if count == 0 {
		return 0
	}
	return 2 + int(count)
}

func (z weightRowWork) work() int {
	n := 0
	for _, c := range z.counts {
		n += z.cost(c) * z.f
	}
	return n
}

// end returns the end of the rows in use.
func (z weightRowWork) end() int {
	at, end := 0, 0
	for _, c := range z.counts {
		if c > 0 {
			end = at + int(c)
		}
		at = roundUp(at+int(c), z.align)
	}
	return end
}

// each calls f for every expert with rows of weights between lo and hi, passing these rows
// [from, to), and the expert's first row and count of tokens. Ranges covering all work
// cover every row of weights exactly once.
func (z weightRowWork) each(lo, hi int, f func(expert, start, count, from, to int)) {
	at, start := 0, 0
	for e, count := range z.counts {
		if c := z.cost(count); c > 0 {
			from, to := z.cut(lo-at, c), z.cut(hi-at, c)
			if from < to {
				f(e, start, int(count), from, to)
			}
			at += c * z.f
		}
		start = roundUp(start+int(count), z.align)
	}
}

// cut returns the row of weights at which to cut after some work: the last row, or a
// multiple of 16, because rows are multiplied in groups of 4 or 16.
func (z weightRowWork) cut(work, cost int) int {
	return min(roundUp(max((work+cost-1)/cost, 0), 16), z.f)
}

// groupedWide converts a few rows of weights to numbers at a time. It sums in the order of
// gemm.Multiply, in blocks of 256.
func groupedWide[T float](transpose bool, align int) exec.Kernel {
	const some = 256
	return func(a *exec.Args) error {
		x, w, y := data[T](a.In[0]), a.In[1], data[T](a.Out[0])
		d, h, f := a.In[1].Type.DType, a.In[0].Type.Shape[1], a.Out[0].Type.Shape[1]
		n, k := a.In[1].Type.Shape[1], a.In[1].Type.Shape[2]
		if f == 0 {
			return nil
		}
		z := expertWork{data[int32](a.In[2]), align, 0}
		total := total(a.In[2])
		errs := make([]error, max(total, 1))
		a.Parallel(total, max(minPieceUnits, 1+dotGrain/(1+h*f)), func(lo, hi int) {
			var wide []T
			z.each(lo, hi, func(e, start, from, to int) {
				from, to = start+from, start+to
				if n == 0 {
					clear(y[from*f : to*f])
				}
				for j := 0; j < n; j += some {
					rows := min(some, n-j)
					part := graph.T(d, rows, k)
					b := array.Over(part, w.Slab(e)[graph.T(d, j, k).Bytes():])
					var err error
					if wide, err = elements(wide, b); err != nil {
						errs[lo] = err
						return
					}
					if transpose {
						gemm.Multiply(to-from, rows, k, x[from*h:], h, 1, wide, 1, k, y[from*f+j:], f, false)
					} else {
						gemm.Multiply(to-from, f, rows, x[from*h+j:], h, 1, wide, k, 1, y[from*f:], f, j > 0)
					}
				}
			})
		})
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// elements returns the elements of the array b of blocks, in the memory of wide if they
// fit.
func elements[T float](wide []T, b array.Array) ([]T, error) {
	n := b.Type.Len()
	if len(wide) < n {
		wide = make([]T, n)
	}
	narrow, ok := any(wide).([]float32)
	if !ok {
		narrow = make([]float32, n)
	}
	err := quant.Dequantize(narrow[:n], b.Type.DType, b.Bytes())
	if !ok {
		for i, v := range narrow {
			wide[i] = T(v)
		}
	}
	return wide, err
}
