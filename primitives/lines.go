package primitives

import (
	"unsafe"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/pack"
)

// linesAtOnce is how many lines are copied at a time if their elements do not lie side by
// side: a cache line of float32.
const linesAtOnce = 16

// eachLine calls f, in parallel, with every line along an axis of some arguments and
// results, which are all of type t; k is the number of the line. f gets the elements of
// a line side by side, in copies where they do not lie so. The result for a line
// therefore does not depend on how many lines a mesh leaves on a rank.
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
	if n == 0 { // if f has one result per line, it has one for lines without elements too
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
