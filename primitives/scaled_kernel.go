package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
)

// scaledTiles are matrices of n times k 8-bit floats in blocks that have scales. A decoded
// weight is multiplied by its scale and rounded once.
type scaledTiles[T float] struct {
	w      array.Array
	scales []T
	values [256]T
	n, k   int
}

// scaledTilesAt returns the weights, argument `at`, whose scales are the next argument, and the
// rows and columns of a matrix.
func scaledTilesAt[T float](a *exec.Args, at int) (_ decoder[T], n, k int) {
	w, rank := a.In[at], a.In[at].Type.Rank()
	t := exec.New[scaledTiles[T]](a)
	t.w, t.n, t.k = w, w.Type.Shape[rank-2], w.Type.Shape[rank-1]
	t.scales = data[T](inType(a, a.In[at+1], array.DTypeOf[T]()))
	for i := range t.values {
		v := array.E4M3(i).Float32()
		if w.Type.DType == graph.F8_E5M2 {
			v = array.E5M2(i).Float32()
		}
		t.values[i] = T(v)
	}
	return t, t.n, t.k
}

// scaledProduct returns the product of a's arguments: rows, weights and scales.
func scaledProduct[T float](a *exec.Args, transpose bool) *decodedProduct[T] {
	t, n, k := scaledTilesAt[T](a, 1)
	p := exec.New[decodedProduct[T]](a)
	*p = decodedProduct[T]{x: data[T](a.In[0]), y: data[T](a.Out[0]), w: t, n: n, k: k, transpose: transpose}
	return p
}

// decode sets tile to rows [r0, r1) and columns [c0, c1) of matrix e, row by row.
func (p *scaledTiles[T]) decode(tile []T, e, r0, r1, c0, c1 int) {
	width, blocks := c1-c0, (p.k+scaledBlock-1)/scaledBlock
	scales := p.scales[e*((p.n+scaledBlock-1)/scaledBlock)*blocks:]
	w := matrixBytes(p.w, e)
	var scaled [256]T // the values of the codes in one block
	for rb := r0 / scaledBlock; rb*scaledBlock < r1; rb++ {
		for cb := c0 / scaledBlock; cb*scaledBlock < c1; cb++ {
			s := scales[rb*blocks+cb]
			for i, v := range p.values {
				scaled[i] = v * s
			}
			from, to := max(c0, cb*scaledBlock), min(c1, (cb+1)*scaledBlock)
			for r := max(r0, rb*scaledBlock); r < min(r1, (rb+1)*scaledBlock); r++ {
				dst := tile[(r-r0)*width+from-c0:][:to-from]
				for i, code := range w[r*p.k+from : r*p.k+to] {
					dst[i] = scaled[code]
				}
			}
		}
	}
}

// scaledMatMul is the kernel of scaledMatMulOp: all rows have one matrix.
func scaledMatMul[T float](transpose bool) exec.Kernel {
	return func(a *exec.Args) error {
		scaledProduct[T](a, transpose).all(a)
		return nil
	}
}

// groupedScaledMatMul is the kernel of groupedScaledMatMulOp. The last argument has the
// number of rows of each expert.
func groupedScaledMatMul[T float](transpose bool, align int) exec.Kernel {
	return func(a *exec.Args) error {
		scaledProduct[T](a, transpose).zones(a, data[int32](a.In[3]), align)
		return nil
	}
}
