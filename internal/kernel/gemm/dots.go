package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// dotsRows is the largest number of rows of A multiplied by columns of B in place, if the
// columns' elements are contiguous, as in a router's matrix in a file.
const dotsRows = 2

// dots multiplies few rows of A, such as one token, by columns of B with contiguous
// elements, in place. n is a multiple of the lanes, k a multiple of 4. An element of C
// has the same bits as from blocked.
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
