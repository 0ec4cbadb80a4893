package gemm

import "github.com/gomoe/gomoe/internal/kernel"

// gemmDeep is the number of products summed before the sum is added to C. Results depend
// on it.
const gemmDeep = 256

// Multiply sets C = A·B, or adds A·B to C if acc is set. A is m by k with element i,p at
// a[i*ars+p*acs], B is k by n with element p,j at b[p*brs+j*bcs], C is m by n with
// element i,j at c[i*ldc+j]. C must not overlap A or B. Swapping an operand's strides
// transposes it; a stride of 0 repeats elements.
//
// The order of additions is part of the contract. Element i,j of C is
//
//	((C + s0) + s1) + …,   sb = ((0 + a[i,256b]·b[256b,j]) + a[i,256b+1]·b[256b+1,j]) + …
//
// over blocks of 256 in k, with C replaced by 0 if acc is not set. So apart from the old
// C it depends only on row i of A and column j of B, and not on m, n, the strides or the
// caller's division of rows or columns. Zeros are not skipped: 0·NaN is NaN.
//
// The portable kernel rounds every product before adding it, and has the same bits on
// every machine. The other kernels (see kernel.Selected) fuse: each product is added with
// one rounding. They agree with each other bit for bit, and differ from the portable
// kernel in the last bits.
//
// Multiply does not start goroutines: to share work, split rows, or columns if there are
// few rows. A call copies B once, unless bcs is 1 and A has few rows: up to 128 for
// float32 with AVX-512, up to 32 with the portable kernels, up to 8 otherwise. Nor does
// it copy B if brs and acs are 1, A has one or two rows of float32, k is a multiple of 4,
// and there is AVX2 or AVX-512.
func Multiply[T kernel.Float](m, n, k int, a []T, ars, acs int, b []T, brs, bcs int, c []T, ldc int, acc bool) {
	gemmPanels(nil, m, n, k, a, ars, acs, b, brs, bcs, Panels{}, c, ldc, acc)
}

// gemmPanels is Multiply with panels p of B, or without if p is zero.
func gemmPanels[T kernel.Float](dry *kernel.Dry, m, n, k int, a []T, ars, acs int, b []T, brs, bcs int, p Panels, c []T, ldc int, acc bool) {
	w := workspaceOf[T](dry)
	defer w.release()
	w.multiply(selectedSet[T](), m, n, k, a, ars, acs, b, brs, bcs, p, c, ldc, acc)
}

// Multiply is the function Multiply with the memory of w.
func (w *Workspace[T]) Multiply(m, n, k int, a []T, ars, acs int, b []T, brs, bcs int, c []T, ldc int, acc bool) {
	w.multiply(selectedSet[T](), m, n, k, a, ars, acs, b, brs, bcs, Panels{}, c, ldc, acc)
}

// multiply is Multiply by the functions of s, or in portable loops if s is nil. p are panels
// of B, or zero.
func (w *Workspace[T]) multiply(s *set, m, n, k int, a []T, ars, acs int, b []T, brs, bcs int, p Panels, c []T, ldc int, acc bool) {
	if m <= 0 || n <= 0 {
		return
	}
	if k <= 0 {
		if !acc && w.Dry == nil {
			for i := range m {
				clear(c[i*ldc:][:n])
			}
		}
		return
	}
	if w.Dry == nil { // assembly does not check bounds
		_, _, _ = a[(m-1)*ars+(k-1)*acs], b[(k-1)*brs+(n-1)*bcs], c[(m-1)*ldc+n-1]
	}
	switch {
	case s == nil:
		w.portable(m, n, k, a, ars, acs, b, brs, bcs, c, ldc, acc)
		return
	case m <= streamRows && bcs == 1 && n >= s.lanes && !p.fit(n, tileVecs*s.lanes):
		whole := n - n%s.lanes
		w.stream(s, m, whole, k, a, ars, acs, b, brs, c, ldc, acc)
		if whole < n {
			w.blocked(s, m, n-whole, k, a, ars, acs, kernel.From(b, whole), brs, 1, Panels{}, kernel.From(c, whole), ldc, acc)
		}
	case m <= dotsRows && s.dots != nil && acs == 1 && brs == 1 && k%4 == 0 && n >= s.lanes && !p.fit(n, tileVecs*s.lanes):
		whole := n - n%s.lanes
		w.dots(s, m, whole, k, a, ars, b, bcs, c, ldc, acc)
		if whole < n {
			w.blocked(s, m, n-whole, k, a, ars, acs, kernel.From(b, whole*bcs), brs, bcs, Panels{}, kernel.From(c, whole), ldc, acc)
		}
	default:
		w.blocked(s, m, n, k, a, ars, acs, b, brs, bcs, p, c, ldc, acc)
	}
	w.work = work{} // the pool must not keep the caller's memory alive
}
