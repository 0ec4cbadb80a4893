package primitives

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/blocks"
)

// affineKernel is the kernel of affineMatMulOp, and with align of groupedAffineMatMulOp,
// whose last argument has the number of rows of each expert. Rows and results of f16 and
// bf16 are f32 inside. Scales and biases stay as they are until they are used, because
// those of experts without rows are not.
func affineKernel(q affine, transpose bool, align *int) exec.Kernel {
	return func(a *exec.Args) error {
		if a.In[0].Type.DType == graph.F64 {
			return affineProduct[float64](a, q, transpose, align)
		}
		return affineProduct[float32](a, q, transpose, align)
	}
}

func affineProduct[T float](a *exec.Args, q affine, transpose bool, align *int) error {
	return resultIn(a, array.DTypeOf[T](), func(a *exec.Args) error {
		t, n, k := affineTilesAt[T](q)(a, 1)
		p := exec.New[decodedProduct[T]](a)
		*p = decodedProduct[T]{x: data[T](inType(a, a.In[0], array.DTypeOf[T]())), y: data[T](a.Out[0]), w: t, n: n, k: k, transpose: transpose}
		if align == nil {
			p.all(a)
		} else {
			p.zones(a, data[int32](a.In[4]), *align) // the engine sets rows between zones to zero
		}
		return nil
	})
}

// affineTilesAt finds the weights, argument `at`, whose scales and biases are the next arguments, and
// the rows and columns of a matrix.
func affineTilesAt[T float](q affine) func(a *exec.Args, at int) (_ decoder[T], n, k int) {
	return func(a *exec.Args, at int) (_ decoder[T], n, k int) {
		w := a.In[at]
		t := exec.New[affineTiles[T]](a)
		*t = affineTiles[T]{affine: q, w: data[uint32](w), scales: a.In[at+1], biases: a.In[at+2], n: w.Type.Shape[w.Type.Rank()-2], k: q.columns(w.Type)}
		return t, t.n, t.k
	}
}

// affineTiles are matrices of n times k numbers with scales and biases.
type affineTiles[T float] struct {
	affine
	w              []uint32
	scales, biases array.Array
	n, k           int
}

func (t *affineTiles[T]) decode(tile []T, e, r0, r1, c0, c1 int) {
	if dst, ok := any(tile).([]float32); ok && c0%t.GroupSize == 0 && c1%t.GroupSize == 0 {
		t.wholeGroups(dst, e*t.n+r0, r1-r0, c0, c1)
		return
	}
	var scales, biases [decodedDeep/32 + 2]T // of the groups that a row of the tile is in
	groups, per := t.k/t.GroupSize, 32/t.Bits
	g0, g1 := c0/t.GroupSize, (c1+t.GroupSize-1)/t.GroupSize
	for r := r0; r < r1; r++ {
		row := e*t.n + r
		numbersAt(scales[:g1-g0], t.scales, row*groups+g0)
		numbersAt(biases[:g1-g0], t.biases, row*groups+g0)
		w := t.w[row*t.k/per:][:t.k/per]
		for g := g0; g < g1; g++ {
			lo, hi := max(c0, g*t.GroupSize), min(c1, (g+1)*t.GroupSize)
			t.group(tile[(r-r0)*(c1-c0)+lo-c0:][:hi-lo], w, lo, scales[g-g0], biases[g-g0])
		}
	}
}

// wholeGroups sets tile to columns [c0, c1), which are whole groups, of n rows of all matrices.
func (t *affineTiles[T]) wholeGroups(tile []float32, row, n, c0, c1 int) {
	const most = decodedDeep * decodedWide / 32
	beside := tile[decodedDeep*decodedWide:]
	scales, biases := beside[:most], beside[most:]
	some := (c1 - c0) / t.GroupSize
	for r := range n {
		at := (row+r)*t.k/t.GroupSize + c0/t.GroupSize
		numbersAt(scales[r*some:][:some], t.scales, at)
		numbersAt(biases[r*some:][:some], t.biases, at)
	}
	words := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(t.w))), 4*len(t.w))
	blocks.DecodeAffine(tile, words[(row*t.k+c0)*t.Bits/8:], t.k*t.Bits/8, n, scales[:n*some], biases[:n*some], t.Bits, t.GroupSize)
}

// group sets dst to the elements of a row from element `from` on, all of which have one scale
// and one bias.
func (t *affineTiles[T]) group(dst []T, w []uint32, from int, scale, bias T) {
	if t.Bits == 8 {
		for i := range dst {
			at := from + i
			dst[i] = T(T(w[at/4]>>(at%4*8)&255)*scale) + bias
		}
		return
	}
	var values [16]T
	for q := range values {
		values[q] = T(T(q)*scale) + bias
	}
	for ; len(dst) > 0 && from%8 != 0; from, dst = from+1, dst[1:] {
		dst[0] = values[w[from/8]>>(from%8*4)&15]
	}
	w = w[from/8:]
	for ; len(dst) >= 8; w, dst = w[1:], dst[8:] {
		v, d := w[0], dst[:8]
		d[0], d[1], d[2], d[3] = values[v&15], values[v>>4&15], values[v>>8&15], values[v>>12&15]
		d[4], d[5], d[6], d[7] = values[v>>16&15], values[v>>20&15], values[v>>24&15], values[v>>28]
	}
	for i := range dst {
		dst[i] = values[w[0]>>(i*4)&15]
	}
}

// numbersAt sets dst to the elements of x, of any float type, from element `from` on.
func numbersAt[T float](dst []T, x array.Array, from int) {
	switch x.Type.DType {
	case graph.F16:
		for i, v := range data[array.Half](x)[from:][:len(dst)] {
			dst[i] = T(v.Float32())
		}
	case graph.BF16:
		for i, v := range data[array.Brain](x)[from:][:len(dst)] {
			dst[i] = T(v.Float32())
		}
	case graph.F32:
		for i, v := range data[float32](x)[from:][:len(dst)] {
			dst[i] = T(v)
		}
	default:
		for i, v := range data[float64](x)[from:][:len(dst)] {
			dst[i] = T(v)
		}
	}
}
