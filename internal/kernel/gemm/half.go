package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/half"
	"github.com/gomoe/gomoe/internal/kernel"
)

// Half is an element type of 16 bits.
type Half interface{ array.Brain | array.Half }

// Result is the element type of a product of 16-bit numbers: a 16-bit type or float32.
type Result interface {
	float32 | array.Brain | array.Half
}

// MultiplyHalf sets C = A·B, or adds A·B to C if acc is set, for A and B of 16-bit
// numbers. Sizes and strides are as in Multiply. As with Multiply, element i,j of C
// depends only on row i of A, column j of B and its own old value, and not on m, n, the
// strides or the caller's division of rows or columns. Sums are float32. C of a 16-bit
// type is widened first if acc is set, and rounded once at the end, to nearest, ties to
// even.
//
// The order of additions depends on the engine, named by SelectedHalf. Every engine has
// the same bits for any number of goroutines, and propagates NaN and infinities.
//
//   - "f32" has the bits of Multiply on widened copies of A and B. Products of f16 always
//     use it.
//   - "vdpbf16ps" adds as Multiply does, over blocks of 512 in k instead of 256. The sum of
//     a block is, for t from 0 on,
//     s = (s + a[i,2t+1]·b[2t+1,j]) + a[i,2t]·b[2t,j]
//     where a number of A or B, or s, of a size below 2^-126 counts as 0 of its sign,
//     and each step is rounded once.
//   - "tdpbf16ps" computes ((C + s0) + s1) + … over groups of 32 in k. Each s is the sum of
//     two chains of fused multiply-adds, which begin with 0, over even and over odd p. The
//     same numbers as above count as 0, and so does such a C. See the model in the tests.
//
// Blocks and groups reaching past the end of k are filled with zeros.
func MultiplyHalf[E Half, R Result](m, n, k int, a []E, ars, acs int, b []E, brs, bcs int, c []R, ldc int, acc bool) {
	MultiplyHalfPanels(nil, m, n, k, a, ars, acs, Matrix[E]{X: b, Row: brs, Col: bcs}, c, ldc, acc)
}

// MultiplyHalfPanels is MultiplyHalf with a matrix b that may have panels.
func MultiplyHalfPanels[E Half, R Result](dry *kernel.Dry, m, n, k int, a []E, ars, acs int, b Matrix[E], c []R, ldc int, acc bool) {
	ks := selected()
	multiplyHalf(dry, ks, m, n, k, a, ars, acs, b, c, ldc, acc)
}

// multiplyHalf is MultiplyHalfPanels by the kernels ks.
func multiplyHalf[E Half, R Result](dry *kernel.Dry, ks kernels, m, n, k int, a []E, ars, acs int, right Matrix[E], c []R, ldc int, acc bool) {
	b, brs, bcs := right.X, right.Row, right.Col
	if m <= 0 || n <= 0 {
		return
	}
	if k <= 0 {
		if !acc && dry == nil {
			for i := range m {
				clear(c[i*ldc:][:n])
			}
		}
		return
	}
	if dry == nil { // assembly does not check bounds
		_, _, _ = a[(m-1)*ars+(k-1)*acs], b[(k-1)*brs+(n-1)*bcs], c[(m-1)*ldc+n-1]
	}
	w := halfWorkspaceOf(dry)
	defer w.release()
	multiplyHalfIn(w, ks, m, n, k, a, ars, acs, right, c, ldc, acc)
}

// multiplyHalfIn is multiplyHalf with the memory of w. No size is 0.
func multiplyHalfIn[E Half, R Result](w *halfWorkspace, ks kernels, m, n, k int, a []E, ars, acs int, right Matrix[E], c []R, ldc int, acc bool) {
	b, brs, bcs := right.X, right.Row, right.Col
	if x, ok := any(a).([]array.Brain); ok && ks.bf16 != nil {
		w.pairs = pairProduct{w: w, s: ks.bf16, a: x, ars: ars, acs: acs, b: any(b).([]array.Brain), brs: brs, bcs: bcs}
		if right.fit(n, ks.bf16.wide) {
			w.pairs.panels = right.Panels
		}
		run(&w.pairs, w, m, n, k, c, ldc, acc)
		return
	}
	p := widenedOf[E](w)
	*p = widenedProduct[E]{w: w, ks: ks, a: a, ars: ars, acs: acs, b: b, brs: brs, bcs: bcs}
	run(p, w, m, n, k, c, ldc, acc)
}

// engine multiplies blocks of the product.
type engine interface {
	// plan returns the numbers of rows and columns of C computed at a time, and the depth
	// in k of a copy of B.
	plan(m, n, k int) (rows, cols, deep int)
	// rounds reports whether sums over a depth of k are complete when they leave the
	// registers. If so, block passes them to `to` and does not write them to C.
	rounds(k int, to taker) bool
	// columns prepares the columns j0 to j0+jn-1 of B, in k from k0 to k0+kn-1.
	columns(j0, jn, k0, kn int)
	// block multiplies the rows i0 to i0+in-1 of A by the prepared columns. It adds the
	// product to c if acc is set, and otherwise sets c.
	block(i0, in int, c []float32, ldc int, acc bool)
}

// taker receives sums of C: `in` rows from row i on and jn columns from column j on. Rows
// of sums have a stride of pitch elements.
type taker interface {
	take(i, j, in, jn int, sums []float32, pitch int)
}

// rounded is a taker rounding sums to C.
type rounded[R Result] struct {
	c   []R
	ldc int
}

func (r *rounded[R]) take(i, j, in, jn int, sums []float32, pitch int) {
	narrowRows(in, jn, r.c[i*r.ldc+j:], r.ldc, sums, pitch)
}

// manyRows is the number of rows with sums kept while k advances, if the result is
// rounded. B is copied once for this many rows: the copy was measured to take as long as
// the product of a dozen.
const manyRows = 1024

// run multiplies with e. If C is not float32, it limits the rows and columns of kept sums
// to the size of a cache.
func run[R Result](e engine, w *halfWorkspace, m, n, k int, c []R, ldc int, acc bool) {
	rows, cols, deep := e.plan(m, n, k)
	direct, exact := any(c).([]float32)
	if !exact && !acc && e.rounds(k, roundedOf(w, c, ldc)) {
		for j0 := 0; j0 < n; j0 = w.dry.Next(j0, cols, n) {
			e.columns(j0, min(cols, n-j0), 0, k)
			for i0 := 0; i0 < m; i0 = w.dry.Next(i0, rows, m) {
				e.block(i0, min(rows, m-i0), nil, 0, false)
			}
		}
		return
	}
	many := m // number of rows with kept sums
	if !exact {
		many = rows
		if k > deep {
			many = max(rows, manyRows/rows*rows)
		}
	}
	for j0 := 0; j0 < n; j0 = w.dry.Next(j0, cols, n) {
		jn := min(cols, n-j0)
		for m0 := 0; m0 < m; m0 = w.dry.Next(m0, many, m) {
			end := min(m0+many, m)
			sums, ld := []float32(nil), ldc
			if exact {
				sums = kernel.From(direct, m0*ldc+j0)
			} else {
				ld = jn
				sums = kernel.Take(w.dry, &w.c, (end-m0)*jn)
				for i := m0; acc && w.dry == nil && i < end; i++ {
					widen(sums[(i-m0)*ld:][:jn], c[i*ldc+j0:][:jn])
				}
			}
			for d0 := 0; d0 < k; d0 = w.dry.Next(d0, deep, k) {
				if m0 == 0 || k > deep {
					e.columns(j0, jn, d0, min(deep, k-d0))
				}
				for i0 := m0; i0 < end; i0 = w.dry.Next(i0, rows, end) {
					e.block(i0, min(rows, end-i0), kernel.From(sums, (i0-m0)*ld), ld, acc || d0 > 0)
				}
			}
			if !exact && w.dry == nil {
				narrowRows(end-m0, jn, c[m0*ldc+j0:], ldc, sums, ld)
			}
		}
	}
}

// widen sets dst to src in float32.
func widen[R Result](dst []float32, src []R) {
	switch x := any(src).(type) {
	case []array.Brain:
		array.WidenBrain(dst, x)
	case []array.Half:
		array.WidenHalf(dst, x)
	}
}

// narrow sets dst to src, rounded. It does nothing if R is float32.
func narrow[R Result](dst []R, src []float32) {
	switch y := any(dst).(type) {
	case []array.Brain:
		array.NarrowBrain(y, src[:len(y)])
	case []array.Half:
		array.NarrowHalf(y, src[:len(y)])
	}
}

// narrowRows rounds rows of n elements from src to dst. The row strides are pitch
// elements in dst, and stride in src.
func narrowRows[R Result](rows, n int, dst []R, pitch int, src []float32, stride int) {
	done := 0
	switch y := any(dst).(type) {
	case []array.Brain:
		done = half.NarrowBrainRows(rows, n, y, pitch, src, stride)
	case []array.Half:
		done = half.NarrowHalfRows(rows, n, y, pitch, src, stride)
	}
	for i := 0; i < rows && done < n; i++ {
		narrow(dst[i*pitch+done:][:n-done], src[i*stride+done:])
	}
}

func bytesOf[E any](x []E) *byte { return (*byte)(unsafe.Pointer(unsafe.SliceData(x))) }
