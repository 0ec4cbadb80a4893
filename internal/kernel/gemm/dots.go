package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// dotsRows is up to how many rows of A are multiplied with columns of B where these lie, if their
// elements are contiguous, as those of a router's matrix in a file are.
const dotsRows = 2

// dots multiplies few rows of A, such as one token, with columns of B whose elements are
// contiguous, where they lie. n is a multiple of the lanes, k one of 4. An element of C has the same
// bits as from blocked.
func (w *Workspace[T]) dots(s *set, m, n, k int, a []T, ars int, b []T, bcs int, c []T, ldc int, acc bool) {
	size := int(unsafe.Sizeof(T(0)))
	sums := kernel.Take(w.Dry, &w.sums, s.lanes)
	if w.Dry != nil {
		return
	}
	t := &w.work
	t.bstride, t.c = uintptr(bcs*size), unsafe.Pointer(&sums[0])
	for j := 0; j < n; j += s.lanes {
		for k0 := 0; k0 < k; k0 += gemmDeep {
			t.deep, t.b = min(gemmDeep, k-k0), unsafe.Pointer(&b[j*bcs+k0])
			for i := range m {
				row := c[i*ldc+j:][:s.lanes]
				if !acc && k0 == 0 {
					clear(row)
				}
				t.a = unsafe.Pointer(&a[i*ars+k0])
				s.dots(t.of())
				add(row, sums)
			}
		}
	}
}
