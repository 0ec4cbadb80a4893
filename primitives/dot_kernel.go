package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/lowering"
)

// kernel converts the arguments to the type that products are summed in,
// multiplies, and rounds to the result's type.
func (p Dot) kernel(a *lowering.Args) error {
	x, y, z := a.In[0], a.In[1], a.Out[0]
	d := z.Type.DType
	if d.IsFloat() {
		d = max(graph.F32, x.Type.DType, y.Type.DType, d)
	}
	x, y = inType(x, d), inType(y, d)
	if z.Type.DType != d {
		z = array.New(z.Type.With(d))
	}
	switch d {
	case graph.F64:
		multiply(a, p, data[float64](z), x, y, kernel.Gemm[float64])
	case graph.F32:
		multiply(a, p, data[float32](z), x, y, kernel.Gemm[float32])
	case graph.I64:
		multiply(a, p, data[int64](z), x, y, intGemm[int64])
	case graph.I32:
		multiply(a, p, data[int32](z), x, y, intGemm[int32])
	case graph.U32:
		multiply(a, p, data[uint32](z), x, y, intGemm[uint32])
	case graph.U8:
		multiply(a, p, data[uint8](z), x, y, intGemm[uint8])
	}
	if z.Type.DType != a.Out[0].Type.DType {
		return array.Convert(a.Out[0], z)
	}
	return nil
}

// inType is a in the element type d: a itself, or a converted copy.
func inType(a array.Array, d graph.DType) array.Array {
	if a.Type.DType == d {
		return a
	}
	return a.As(d)
}

// gemm is kernel.Gemm for some element type.
type gemm[E any] func(m, n, k int, a []E, ars, acs int, b []E, brs, bcs int, c []E, ldc int, acc bool)

// From this many multiplications on a piece is worth a goroutine.
const dotGrain = 1 << 18

// multiply runs one matrix product per batch index, split over goroutines by
// rows, or by columns where there are few rows.
func multiply[E array.Elem](a *lowering.Args, p Dot, z []E, x, y array.Array, mul gemm[E]) {
	lf, rf := p.free(x.Type.Rank(), y.Type.Rank())
	l := operandOf(x, p.LHSBatch, lf, p.LHSContract)
	r := operandOf(y, p.RHSBatch, rf, p.RHSContract)
	m, n, k := l.rows, r.rows, l.cols
	lx, ry := data[E](l.array), data[E](r.array)
	product := func(b, i0, i1, j0, j1 int) {
		if i0 < i1 && j0 < j1 {
			mul(i1-i0, j1-j0, k, lx[min(l.start[b]+i0*l.rowStride, len(lx)):], l.rowStride, l.colStride,
				ry[min(r.start[b]+j0*r.rowStride, len(ry)):], r.colStride, r.rowStride, z[(b*m+i0)*n+j0:], n, false)
		}
	}
	batches := len(l.start)
	if n > batches*m && batches*m < 4*a.Threads {
		for b := range batches {
			a.Parallel(n, 1+dotGrain/(1+m*k), func(lo, hi int) { product(b, 0, m, lo, hi) })
		}
		return
	}
	a.Parallel(batches*m, 1+dotGrain/(1+n*k), func(lo, hi int) {
		for at := lo; at < hi; {
			b, i := at/m, at%m
			end := min(m, i+hi-at)
			product(b, i, end, 0, n)
			at += end - i
		}
	})
}

// operand is an argument seen as a matrix per batch index: rows are its free
// dimensions, columns its contracted ones.
type operand struct {
	array                array.Array
	rows, cols           int
	rowStride, colStride int
	start                []int // first element of each batch index's matrix
}

// operandOf views x by strides, or copies it into the order batch, free,
// contracted where the free or the contracted dimensions have no common stride.
func operandOf(x array.Array, batch, free, contract []int) operand {
	strides := make([]int, x.Type.Rank())
	n := 1
	for d := len(strides) - 1; d >= 0; d-- {
		strides[d] = n
		n *= x.Type.Shape[d]
	}
	rows, rs, ok := merge(x.Type.Shape, strides, free)
	cols, cs, too := merge(x.Type.Shape, strides, contract)
	o := operand{x, rows, cols, rs, cs, []int{0}}
	if !ok || !too {
		packed := graph.Type{DType: x.Type.DType}
		var from []int
		for _, list := range [3][]int{batch, free, contract} {
			for _, d := range list {
				packed.Shape = append(packed.Shape, x.Type.Shape[d])
				from = append(from, strides[d])
			}
		}
		o.array, o.rowStride, o.colStride = array.New(packed), cols, 1
		strided(o.array, x, from, 0)
		for i := len(batch) - 1; i >= 0; i-- {
			strides[batch[i]] = rows * cols
			rows *= x.Type.Shape[batch[i]]
		}
	}
	for _, d := range batch {
		var next []int
		for _, s := range o.start {
			for i := range x.Type.Shape[d] {
				next = append(next, s+i*strides[d])
			}
		}
		o.start = next
	}
	return o
}

// merge returns the size and the stride of dims taken as one dimension, the
// last varying fastest, and whether one stride can do that.
func merge(shape, strides, dims []int) (size, stride int, ok bool) {
	size, stride, ok = 1, 1, true
	for i := len(dims) - 1; i >= 0; i-- {
		n, s := shape[dims[i]], strides[dims[i]]
		switch {
		case n == 1:
		case size == 1:
			size, stride = n, s
		case s != size*stride:
			size, ok = size*n, false
		default:
			size *= n
		}
	}
	return size, stride, ok
}

// intGemm is kernel.Gemm for integers, which wrap.
func intGemm[E int64 | int32 | uint32 | uint8](m, n, k int, a []E, ars, acs int, b []E, brs, bcs int, c []E, ldc int, acc bool) {
	for i := range m {
		row := c[i*ldc:][:n]
		if !acc {
			clear(row)
		}
		for p := range k {
			x := a[i*ars+p*acs]
			for j := range row {
				row[j] += x * b[p*brs+j*bcs]
			}
		}
	}
}
