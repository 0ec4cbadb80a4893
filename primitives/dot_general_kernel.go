package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/blocks"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/lowering"
)

// operandDims lists the batch, free and contracted dimensions of an argument.
type operandDims struct{ batch, free, contract []int }

// dotKernel converts the arguments to the accumulation type, multiplies, and rounds
// to the result's type. Arguments of the same 16-bit type are converted while
// multiplying.
func dotKernel(l, r operandDims) exec.Kernel {
	return func(a *exec.Args) error {
		x, y, z := a.In[0], a.In[1], a.Out[0]
		d := z.Type.DType
		if d.IsFloat() {
			d = max(graph.F32, floatType(a)) // weights in blocks are converted to numbers
		}
		if halfOperands(x, y, d) {
			return halfDot(a, operandOf(a, x, l), operandOf(a, y, r))
		}
		x, y = inType(a, x, d), inType(a, y, d)
		if z.Type.DType != d {
			z = scratchArray(a, z.Type.With(d))
		}
		lhs, rhs := operandOf(a, x, l), operandOf(a, y, r)
		switch d {
		case graph.F64:
			multiply(a, data[float64](z), lhs, rhs, panelled[float64])
		case graph.F32:
			multiply(a, data[float32](z), lhs, rhs, panelled[float32])
		case graph.I64:
			multiply(a, data[int64](z), lhs, rhs, intGemm[int64])
		case graph.I32:
			multiply(a, data[int32](z), lhs, rhs, intGemm[int32])
		case graph.U32:
			multiply(a, data[uint32](z), lhs, rhs, intGemm[uint32])
		case graph.U8:
			multiply(a, data[uint8](z), lhs, rhs, intGemm[uint8])
		}
		if z.Type.DType != a.Out[0].Type.DType {
			return convert(a, a.Out[0], z)
		}
		return nil
	}
}

// panelled is gemm for float32 and float64, with panels.
func panelled[T float](dry *kernel.Dry, m, n, k int, x []T, ars, acs int, y []T, brs, bcs int, p gemm.Panels, z []T, ldc int, acc bool) {
	gemm.MultiplyPanels(dry, m, n, k, x, ars, acs, gemm.Matrix[T]{X: y, Row: brs, Col: bcs, Panels: p}, z, ldc, acc)
}

// dotPacks returns the packed copies of y, the right argument, speeding up products.
// r are the dimensions of y. Only matrices, such as weights, are copied.
func dotPacks(x, y, z graph.Type, r operandDims) []lowering.Pack {
	// Arguments of other types are converted before multiplying.
	same := x.DType == y.DType && (y.DType == z.DType || y.DType == graph.BF16 && z.DType != graph.F64)
	if len(r.batch) > 0 || !same {
		return nil
	}
	l, ok := matrixLayout(y, r)
	if !ok {
		return nil // y is transposed before multiplying
	}
	return l.pack(1, y.DType, 1, func(t graph.Type) (panelLayout, int) {
		l, _ := matrixLayout(t, r)
		return l, 1
	})
}

// matrixLayout returns the layout of a matrix of type y with dimensions r. ok is false if
// these have no common stride.
func matrixLayout(y graph.Type, r operandDims) (l panelLayout, ok bool) {
	strides := make([]int, y.Rank())
	for i, s := y.Rank()-1, 1; i >= 0; i-- {
		strides[i] = s
		s *= y.Shape[i]
	}
	n, col, ok := merge(y.Shape, strides, r.free)
	k, row, too := merge(y.Shape, strides, r.contract)
	return panelLayout{k, n, row, col}, ok && too
}

// inType returns x in the element type d: x itself, or a converted copy.
func inType(a *exec.Args, x array.Array, d graph.DType) array.Array {
	if x.Type.DType == d {
		return x
	}
	y := scratchArray(a, x.Type.With(d))
	if a.Dry() != nil {
		return y
	}
	if x.Type.DType.IsBlock() {
		if err := array.Convert(y, x); err != nil {
			panic(err) // cannot happen: all blocks hold numbers
		}
		return y
	}
	if err := convert(a, y, x); err != nil {
		panic(err) // cannot happen: conversions between numbers do not fail
	}
	return y
}

// multiplier is gemm.Multiply for some element types, of a matrix with or without panels.
type multiplier[E, R any] func(dry *kernel.Dry, m, n, k int, a []E, ars, acs int, b []E, brs, bcs int, p gemm.Panels, c []R, ldc int, acc bool)

const (
	// A piece of at least this many multiplications is worth a goroutine.
	dotGrain = 1 << 21
	// Reading an element of the matrix from memory takes the time of dotRead multiplications.
	dotRead = 32
	// Up to dotStreams rows, pieces are whole vectors of columns.
	dotStreams = 4
	// A piece of at least this many rows justifies copying the whole matrix.
	dotRows = 16
	// With fewer rows than this, cutting columns is better: columns are copied once in any
	// case. If copying takes time, it is also better with more rows.
	dotFew = 64
)

// product is a batch of matrix products.
type product[E, R array.Elem] struct {
	exec.Taking
	dry    *kernel.Dry
	l, r   operand
	x, y   []E
	z      []R
	mul    multiplier[E, R]
	panels []byte // of y, or nil
}

// multiply runs one matrix product per batch index, split over goroutines by
// rows, or by columns where there are few rows.
func multiply[E, R array.Elem](a *exec.Args, z []R, l, r operand, mul multiplier[E, R]) {
	p := product[E, R]{exec.Taking{}, a.Dry(), l, r, data[E](l.array), data[E](r.array), z, mul, a.Packed(1)}
	batches, m, n, k := len(l.start), l.rows, r.rows, l.cols
	if cutsColumns(batches, m, n, a.Threads, p.panels == nil && copies(l.array.Type.DType, r.rowStride != 1)) {
		w := exec.New[columnsOf[E, R]](a)
		w.product, w.unit = p, 1
		switch {
		case p.panels != nil:
			w.unit = gemm.PanelUnit
		case m <= dotStreams:
			w.unit = kernel.Lanes
		}
		grain := 1 + dotGrain/(1+(m+dotRead)*k)
		for w.b = range batches {
			a.Share((n+w.unit-1)/w.unit, (grain+w.unit-1)/w.unit, w)
		}
		return
	}
	exec.Share(a, batches*m, max(dotRows, 1+dotGrain/(1+n*k)), p)
}

// cutsColumns reports whether threads share the columns of a result of m by n, instead of its
// rows. copied is set if a product copies the whole matrix; when sharing rows, every thread
// makes this copy. Measured: 256 rows of bf16 times 1024 by 1024, running 2 pieces one after
// the other, took 1.36 ms for pieces of rows and 1.27 for pieces of columns, and in 8 pieces
// 1.64 and 1.28.
func cutsColumns(batches, m, n, threads int, copied bool) bool {
	few := 4 * threads
	if batches == 1 {
		few = dotFew
		if copied {
			few = n
		}
	}
	return n > batches*m && batches*m < few
}

// copies reports whether products with matrices of type d, transposed or not, spend
// time copying them.
func copies(d graph.DType, transposed bool) bool {
	return transposed || d == graph.BF16 || d == graph.F16
}

// columnsOf is the product of one batch index, cut by columns.
type columnsOf[E, R array.Elem] struct {
	product[E, R]
	b, unit int // unit columns stay together
}

func (p *columnsOf[E, R]) Piece(lo, hi int) {
	p.block(p.b, 0, p.l.rows, lo*p.unit, min(hi*p.unit, p.r.rows))
}

// Piece multiplies rows lo to hi, counted over all batch indices.
func (p *product[E, R]) Piece(lo, hi int) {
	m := p.l.rows
	for at := lo; at < hi; {
		b, i := at/m, at%m
		end := min(m, i+hi-at)
		p.block(b, i, end, 0, p.r.rows)
		at += end - i
	}
}

// block multiplies rows i0 to i1 with columns j0 to j1 of batch index b.
func (p *product[E, R]) block(b, i0, i1, j0, j1 int) {
	if i0 >= i1 || j0 >= j1 {
		return
	}
	l, r := &p.l, &p.r
	var panels gemm.Panels
	if p.panels != nil {
		panels = gemm.PanelsIn(p.panels, r.cols, r.rows).From(j0)
	}
	p.mul(p.dry, i1-i0, j1-j0, l.cols, kernel.From(p.x, l.start[b]+i0*l.rowStride), l.rowStride, l.colStride,
		kernel.From(p.y, r.start[b]+j0*r.rowStride), r.colStride, r.rowStride, panels, kernel.From(p.z, (b*l.rows+i0)*r.rows+j0), r.rows, false)
}

// operand is an argument seen as a matrix per batch index: rows are its free
// dimensions, columns its contracted ones.
type operand struct {
	array                array.Array
	rows, cols           int
	rowStride, colStride int
	start                []int // first element of each batch index's matrix
}

// operandOf returns x as an operand: a strided view or, if the free or the contracted
// dimensions have no common stride, a copy in the order batch, free, contracted.
func operandOf(a *exec.Args, x array.Array, dims operandDims) operand {
	strides := work.RowMajor(a, x.Type.Shape)
	rows, rs, ok := merge(x.Type.Shape, strides, dims.free)
	cols, cs, too := merge(x.Type.Shape, strides, dims.contract)
	o := operand{x, rows, cols, rs, cs, exec.Make[int](a, 1)}
	if !ok || !too {
		packed := graph.Type{DType: x.Type.DType, Shape: exec.Make[int](a, len(strides))[:0]}
		from := exec.Make[int](a, len(strides))[:0]
		for _, list := range [3][]int{dims.batch, dims.free, dims.contract} {
			for _, d := range list {
				packed.Shape = append(packed.Shape, x.Type.Shape[d])
				from = append(from, strides[d])
			}
		}
		o.array = scratchArray(a, packed)
		o.rowStride, o.colStride = cols, 1
		work.Strided(a, o.array, x, from)
		for i := len(dims.batch) - 1; i >= 0; i-- {
			strides[dims.batch[i]] = rows * cols
			rows *= x.Type.Shape[dims.batch[i]]
		}
	}
	for _, d := range dims.batch {
		next := exec.Make[int](a, len(o.start)*x.Type.Shape[d])[:0]
		for _, s := range o.start {
			for i := range x.Type.Shape[d] {
				next = append(next, s+i*strides[d])
			}
		}
		o.start = next
	}
	return o
}

// merge returns the size and the stride of dims as one dimension; the last of dims varies
// fastest. ok is false if they have no common stride.
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

// intGemm is gemm.Multiply for integers, which wrap.
func intGemm[E int64 | int32 | uint32 | uint8](dry *kernel.Dry, m, n, k int, a []E, ars, acs int, b []E, brs, bcs int, _ gemm.Panels, c []E, ldc int, acc bool) {
	for i := range dry.Times(m) {
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

// dotBlocks returns the kernel of a product with weights in blocks, argument number
// `weights`. Their dimensions are `batch` batch dimensions, then free ones, then the contracted
// one. The rows of the other argument, with dimensions dims, are rounded to int8.
func dotBlocks(weights, batch int, dims operandDims) exec.Kernel {
	return func(a *exec.Args) error {
		w, x, z := a.In[weights], inType(a, a.In[1-weights], graph.F32), a.Out[0]
		if z.Type.DType != graph.F32 {
			z = scratchArray(a, z.Type.With(graph.F32))
		}
		d, shape := w.Type.DType, w.Type.Shape
		k, batches := shape[len(shape)-1], 1
		for _, n := range shape[:batch] {
			batches *= n
		}
		n := 1 // rows of weights per batch index
		for _, s := range shape[batch : len(shape)-1] {
			n *= s
		}
		o := operandOf(a, x, dims)
		rows := roundedOperand(a, d, &o, k)
		y, m, size := data[float32](z), o.rows, blocks.RowBytes(d, k)
		yrs, ycs := n, 1
		if weights == 0 {
			yrs, ycs = 1, m
		}
		if len(y) > 0 {
			row := len(w.Bytes()) / (batches * n)
			multiply := func(b, i0, i1, j0, j1 int) {
				if i0 < i1 && j0 < j1 {
					blocks.Multiply(d, i1-i0, j1-j0, k, rows[(b*m+i0)*size:], w.Bytes()[(b*n+j0)*row:], w.Bytes()[(b*n+j1)*row:], y[b*m*n+i0*yrs+j0*ycs:], yrs, ycs)
				}
			}
			// The work is cut between groups of four rows of weights, reading each row
			// once, and with many rows of x between panels of 32.
			units, together := (n+3)/4, 1
			if m > 1 {
				together = 8
			}
			work.Steal(a, batches*units, 1+quantGrain/(4*(1+k)*(2+m)), together, func(_, lo, hi int) {
				for b := lo / units; b*units < hi; b++ {
					multiply(b, 0, m, 4*max(lo-b*units, 0), min(4*min(hi-b*units, units), n))
				}
			})
		}
		if z.Type.DType != a.Out[0].Type.DType {
			return convert(a, a.Out[0], z)
		}
		return nil
	}
}

// roundedOperand returns the rows of all batch indices, rounded.
func roundedOperand(a *exec.Args, d graph.DType, o *operand, k int) []byte {
	x := data[float32](o.array)
	size := blocks.RowBytes(d, k)
	total := len(o.start) * o.rows
	rows := cacheAligned(a, total*size)
	a.Parallel(total, 1+dotGrain/(1+k), func(lo, hi int) {
		if o.colStride == 1 && o.rowStride == k && len(o.start) == 1 {
			blocks.Round(d, k, rows[lo*size:hi*size], x[lo*k:hi*k])
			return
		}
		var line []float32
		for i := lo; i < hi; i++ {
			at := o.start[i/o.rows] + i%o.rows*o.rowStride
			from := x[min(at, len(x)):]
			if o.colStride != 1 && k > 0 {
				if line == nil {
					line = make([]float32, k)
				}
				for p := range line {
					line[p] = from[p*o.colStride]
				}
				from = line
			}
			blocks.Round(d, k, rows[i*size:(i+1)*size], from[:k])
		}
	})
	return rows
}

// Matrix products of bf16 and f16 need no copies in f32: gemm.MultiplyHalf widens operands
// if necessary, and rounds the sums.

// halfOperands reports whether x and y have the same 16-bit type and their products
// are summed in f32, that is, d is f32.
func halfOperands(x, y array.Array, d graph.DType) bool {
	t := x.Type.DType
	return t == y.Type.DType && (t == graph.BF16 || t == graph.F16) && d == graph.F32
}

// halfDot computes the product of operands for which halfOperands is true.
func halfDot(a *exec.Args, l, r operand) error {
	if l.array.Type.DType == graph.BF16 {
		halfDotOf(a, l, r, panelledHalf[array.Brain, float32], panelledHalf[array.Brain, array.Brain], panelledHalf[array.Brain, array.Half])
	} else {
		halfDotOf(a, l, r, panelledHalf[array.Half, float32], panelledHalf[array.Half, array.Brain], panelledHalf[array.Half, array.Half])
	}
	return nil
}

func halfDotOf[E gemm.Half](a *exec.Args, l, r operand, f32 multiplier[E, float32], bf16 multiplier[E, array.Brain], f16 multiplier[E, array.Half]) {
	switch z := a.Out[0]; z.Type.DType {
	case graph.F32:
		multiply(a, data[float32](z), l, r, f32)
	case graph.BF16:
		multiply(a, data[array.Brain](z), l, r, bf16)
	case graph.F16:
		multiply(a, data[array.Half](z), l, r, f16)
	}
}

// panelledHalf is gemm for 16-bit types, with panels.
func panelledHalf[E gemm.Half, R gemm.Result](dry *kernel.Dry, m, n, k int, x []E, ars, acs int, y []E, brs, bcs int, p gemm.Panels, z []R, ldc int, acc bool) {
	gemm.MultiplyHalfPanels(dry, m, n, k, x, ars, acs, gemm.Matrix[E]{X: y, Row: brs, Col: bcs, Panels: p}, z, ldc, acc)
}
