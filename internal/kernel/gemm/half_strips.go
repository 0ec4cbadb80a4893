package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

const (
	stripMost = 8  // rows of A that are multiplied with columns of B where these lie
	stripDeep = 32 // elements of a column, a cache line
)

// striped multiplies m rows of A, at most stripMost, with n columns of B whose elements are
// contiguous, such as rows of weights, where they lie. n is a multiple of pairLanes, and the depth one of
// stripDeep. While 16 columns are multiplied, the next ones are fetched.
func (p *pairProduct) striped(i0, m, n int, c []float32, ldc int, acc bool) {
	w, s := p.w, p.s
	if w.dry != nil {
		return
	}
	t, do := &w.work, s.strips[m-1]
	t.rowStride, t.bstride, t.cstride = uintptr(2*p.ars), uintptr(2*p.bcs), uintptr(4*ldc)
	for j := 0; j < n; j += pairLanes {
		next := j + pairLanes
		if next+pairLanes > n {
			next = j
		}
		fetch := p.b[p.k0+(p.j0+next)*p.bcs:]
		for d := 0; d < p.kn; d += s.deep {
			dn := min(s.deep, p.kn-d)
			t.deep, t.add = dn/stripDeep, 0
			if acc || d > 0 {
				t.add = 1
			}
			t.a, t.b = unsafe.Pointer(&p.a[i0*p.ars+p.k0+d]), unsafe.Pointer(&p.b[p.k0+d+(p.j0+j)*p.bcs])
			t.c = unsafe.Pointer(&c[j])
			t.fetch = unsafe.Pointer(&kernel.From(fetch, min(pairLanes*d, len(fetch)-1))[0])
			do(t.of())
		}
	}
}
