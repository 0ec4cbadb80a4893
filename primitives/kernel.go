package primitives

import (
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/pack"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
)

// float is an element type used for computing in kernels.
type float interface{ float32 | float64 }

// inFloat returns the kernel running f32 or f64, depending on the element type of
// the first float array among results and arguments. Arrays of bf16 and f16 are
// widened to f32 before running it, and rounded once afterwards.
func inFloat(f32, f64 exec.Kernel) exec.Kernel {
	return func(a *exec.Args) error {
		switch floatType(a) {
		case graph.F64:
			return f64(a)
		case graph.F32:
			if !narrow(a) {
				return f32(a)
			}
		}
		return widened(a, f32)
	}
}

// ofFloat is inFloat for a kernel with a result of element type d, allowing arguments of f64 for any d.
func ofFloat(d graph.DType, f32, f64 exec.Kernel) exec.Kernel {
	switch d {
	case graph.F64:
		return f64
	case graph.F32:
		return f32
	}
	return func(a *exec.Args) error { return widened(a, f32) }
}

// floatType returns the widest float type among a's arrays.
func floatType(a *exec.Args) graph.DType {
	d := graph.NoDType
	for _, list := range [2][]array.Array{a.Out, a.In} {
		for _, x := range list {
			if x.Type.DType.IsFloat() {
				d = max(d, x.Type.DType)
			}
		}
	}
	return d
}

func narrow(a *exec.Args) bool {
	for _, list := range [2][]array.Array{a.Out, a.In} {
		for _, x := range list {
			if x.Type.DType == graph.BF16 || x.Type.DType == graph.F16 {
				return true
			}
		}
	}
	return false
}

// widened runs k, a kernel of f32, passing copies in f32 of narrower arrays.
func widened(a *exec.Args, k exec.Kernel) error {
	w := exec.NewDirty[exec.Args](a)
	in, out := wide(a, w.In, a.In), wide(a, w.Out, a.Out)
	*w = *a
	w.In, w.Out = in, out
	for i, x := range a.In {
		if x.Type.DType != w.In[i].Type.DType {
			if err := convert(a, w.In[i], x); err != nil {
				return err
			}
		}
	}
	if err := k(w); err != nil {
		return err
	}
	for i, x := range a.Out {
		if x.Type.DType != w.Out[i].Type.DType {
			if err := convert(a, x, w.Out[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// wide returns xs, replacing narrower arrays by scratch arrays of f32. The list reuses
// the memory of out.
func wide(a *exec.Args, out, xs []array.Array) []array.Array {
	out = out[:0]
	for _, x := range xs {
		if x.Type.DType == graph.BF16 || x.Type.DType == graph.F16 {
			x = scratchArray(a, x.Type.With(graph.F32))
		}
		out = append(out, x)
	}
	return out
}

// scratchArray returns an array in scratch memory with undefined elements. In a dry run it has no
// memory.
func scratchArray(a *exec.Args, t graph.Type) array.Array {
	mem := exec.MakeDirty[uint8](a, int(t.Bytes()))
	if a.Dry() != nil {
		return array.Outline(t)
	}
	return array.Over(t, mem)
}

// convert sets dst to src as array.Convert does, in parallel.
func convert(a *exec.Args, dst, src array.Array) error {
	w := exec.New[conversion](a)
	w.dst, w.src = dst, src
	a.Share(dst.Type.Len()/tile+1, cheap/tile, w)
	return w.err
}

// conversion is the work of converting an array in tiles.
type conversion struct {
	dst, src array.Array
	mu       sync.Mutex
	first    int // the first tile that failed
	err      error
}

func (w *conversion) Piece(lo, hi int) {
	for t := lo; t < hi; t++ {
		at := t * tile
		if err := convertTile(w.dst, at, w.src, at, min(tile, w.dst.Type.Len()-at)); err != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.err == nil || t < w.first {
				w.first, w.err = t, err
			}
			return
		}
	}
}

// convertTile sets n elements of dst from `to` on to the elements of src from `from` on. Unlike
// array.Convert it performs the conversions of mixed-precision training without allocating.
func convertTile(dst array.Array, to int, src array.Array, from, n int) error {
	switch [2]graph.DType{src.Type.DType, dst.Type.DType} {
	case [2]graph.DType{graph.BF16, graph.F32}:
		array.WidenBrain(data[float32](dst)[to:][:n], data[array.Brain](src)[from:][:n])
	case [2]graph.DType{graph.F16, graph.F32}:
		array.WidenHalf(data[float32](dst)[to:][:n], data[array.Half](src)[from:][:n])
	case [2]graph.DType{graph.F32, graph.BF16}:
		array.NarrowBrain(data[array.Brain](dst)[to:][:n], data[float32](src)[from:][:n])
	case [2]graph.DType{graph.F32, graph.F16}:
		array.NarrowHalf(data[array.Half](dst)[to:][:n], data[float32](src)[from:][:n])
	case [2]graph.DType{graph.F8_E4M3, graph.F32}:
		array.WidenE4M3(data[float32](dst)[to:][:n], data[array.E4M3](src)[from:][:n])
	case [2]graph.DType{graph.F32, graph.F8_E4M3}:
		array.NarrowE4M3(data[array.E4M3](dst)[to:][:n], data[float32](src)[from:][:n])
	case [2]graph.DType{graph.F8_E5M2, graph.F32}:
		array.WidenE5M2(data[float32](dst)[to:][:n], data[array.E5M2](src)[from:][:n])
	case [2]graph.DType{graph.F32, graph.F8_E5M2}:
		array.NarrowE5M2(data[array.E5M2](dst)[to:][:n], data[float32](src)[from:][:n])
	case [2]graph.DType{graph.I32, graph.F32}:
		vector.FromInt(data[float32](dst)[to:][:n], data[int32](src)[from:][:n])
	case [2]graph.DType{graph.F32, graph.I32}:
		vector.ToInt(data[int32](dst)[to:][:n], data[float32](src)[from:][:n])
	default:
		return array.Convert(dst.Reshape(dst.Type.Len()).Rows(to, to+n), src.Reshape(src.Type.Len()).Rows(from, from+n))
	}
	return nil
}

// data is array.Data, under a shorter name.
func data[E array.Elem](a array.Array) []E { return array.Data[E](a) }

// linesAtOnce is the number of lines copied at a time if their elements are not contiguous: a
// cache line of float32.
const linesAtOnce = 16

// eachLine calls f, in parallel, with line k along an axis of arguments and results, all of
// type t. f gets contiguous lines, copied unless the axis is the last one. The result for a
// line therefore does not depend on the number of lines on a rank.
func eachLine[T float](a *exec.Args, t graph.Type, axis int, in, out [][]T, f func(k int, in, out [][]T)) {
	outer, n, inner := t.Around(axis)
	if inner == 1 {
		a.Parallel(outer, 1+8*dear/(1+n), func(lo, hi int) {
			lines := make([][]T, len(in)+len(out))
			x, y := lines[:len(in)], lines[len(in):]
			for k := lo; k < hi; k++ {
				for i, all := range in {
					x[i] = all[k*n:][:n]
				}
				for i, all := range out {
					y[i] = all[k*n:][:n]
				}
				f(k, x, y)
			}
		})
		return
	}
	if n == 0 { // empty lines have results too, if f has one result per line
		lines := make([][]T, len(in)+len(out))
		for k := range outer * inner {
			f(k, lines[:len(in)], lines[len(in):])
		}
		return
	}
	blocks := (inner + linesAtOnce - 1) / linesAtOnce
	a.Parallel(outer*blocks, 1+8*dear/(1+n*min(inner, linesAtOnce)), func(lo, hi int) {
		lines := make([][]T, len(in)+len(out))
		x, y := lines[:len(in)], lines[len(in):]
		room := make([]T, len(lines)*linesAtOnce*n)
		of := func(i int) []T { return room[i*linesAtOnce*n:][:linesAtOnce*n] }
		for b := lo; b < hi; b++ {
			o, j := b/blocks, b%blocks*linesAtOnce
			width, first := min(linesAtOnce, inner-j), o*n*inner+j
			for i, all := range in {
				transposed(of(i), n, all[first:], inner, n, width)
			}
			for l := range width {
				for i := range lines {
					lines[i] = of(i)[l*n:][:n]
				}
				f(o*inner+j+l, x, y)
			}
			for i, all := range out {
				transposed(all[first:], inner, of(len(in)+i), n, width, n)
			}
		}
	})
}

// transposed sets y[j·ys + i] = x[i·xs + j] for all i < m and j < n.
func transposed[T float](y []T, ys int, x []T, xs, m, n int) {
	if unsafe.Sizeof(T(0)) == 4 {
		pack.Transpose(words(y), ys, words(x), xs, m, n)
		return
	}
	for i := range m {
		for j := range n {
			y[j*ys+i] = x[i*xs+j]
		}
	}
}

// words views elements of 4 bytes as unsigned integers.
func words[T float](x []T) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// Dry runs count the memory of kernels; see exec.Dry. To be safe in a dry run, kernels read elements
// only in pieces of Work, and pieces of a Taker take their arguments by kernel.From.

// floatKernel emits a kernel computing in f32 or f64; see inFloat.
func floatKernel(e *lowering.Emitter, op ops.Op, out, in []lowering.Buf, f32, f64 exec.Kernel) error {
	return e.Emit(lowering.KernelSpec{Op: op, Out: out, In: in, Dry: widening(), Kernel: inFloat(f32, f64)})
}

// widening is the dry run of inFloat for kernels that need little memory themselves.
func widening() exec.Kernel {
	nothing := func(*exec.Args) error { return nil }
	return inFloat(nothing, nothing)
}

// counted returns the dry run of k, setting the last argument to counts, the rows of each
// expert.
func counted(counts []int32, k exec.Kernel) exec.Kernel {
	return func(a *exec.Args) error {
		last := &a.In[len(a.In)-1]
		*last = array.New(last.Type)
		copy(data[int32](*last), counts)
		return k(a)
	}
}

// likelyCounts returns likely counts of the experts on a rank, given the global and local types of the rows
// and the number of experts per rank. It assumes equally many rows on all ranks, shared by half of their
// experts. Products decide by an expert's count whether to copy its matrix.
func likelyCounts(global, local graph.Type, experts, ranks int) []int32 {
	left := min((global.Shape[0]+ranks-1)/ranks, local.Shape[0])
	each := 2 * ((left + experts - 1) / max(experts, 1))
	counts := make([]int32, experts)
	for e := range counts {
		counts[e] = int32(min(each, left))
		left -= int(counts[e])
	}
	return counts
}

// likelyRows is likelyCounts for buffers of rows and of weights.
func likelyRows(p *lowering.Peephole, rows, weights int) []int32 {
	b := p.Bufs[rows]
	return likelyCounts(b.Global, b.Type, p.Bufs[weights].Type.Shape[0], p.Mesh.Ranks())
}

// oneExpert returns counts assigning all rows, of type x, to one of the experts of the weights w.
func oneExpert(x, w graph.Type) []int32 {
	counts := make([]int32, w.Shape[0])
	if len(counts) > 0 {
		counts[0] = int32(x.Shape[0])
	}
	return counts
}
