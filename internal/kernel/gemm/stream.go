package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/pack"
)

const (
	// Up to this many rows of A, each element of B is used so few times that copying B
	// does not pay.
	streamRows = 4
	streamSums = 2048 // number of sums of a stream: half of a first-level cache in float64
)

// stream multiplies few rows of A, such as one token, by B in place. n is a multiple of
// the lanes. Sums stay in the first-level cache. An element of C has the same bits as
// from blocked.
func (w *Workspace[T]) stream(s *set, m, n, k int, a []T, ars, acs int, b []T, brs int, c []T, ldc int, acc bool) {
	size := int(unsafe.Sizeof(T(0)))
	do, rows := s.streamOf(m)
	cols := kernel.Evenly(n, streamSums/rows, s.lanes)
	pa, sums := kernel.Take(w.Dry, &w.a, rows*min(gemmDeep, k)), kernel.Take(w.Dry, &w.sums, rows*cols)
	if w.Dry != nil {
		return
	}
	t := &w.work
	for j0 := 0; j0 < n; j0 += cols {
		jn := min(cols, n-j0)
		for k0 := 0; k0 < k; k0 += gemmDeep {
			kn := min(gemmDeep, k-k0)
			pack.Panel(s.packs, pa, rows, a[k0*acs:], m, kn, acs, ars)
			clear(sums[:rows*jn])
			t.deep, t.cols = kn, uintptr(jn*size)
			t.a, t.c = unsafe.Pointer(&pa[0]), unsafe.Pointer(&sums[0])
			t.b, t.bstride = unsafe.Pointer(&b[k0*brs+j0]), uintptr(brs*size)
			do(t.of())
			for r := range m {
				row := c[r*ldc+j0:][:jn]
				if !acc && k0 == 0 {
					clear(row)
				}
				if rows == 1 {
					add(row, sums)
					continue
				}
				for j := 0; j < jn; j += s.lanes {
					add(row[j:][:s.lanes], sums[j*rows+r*s.lanes:])
				}
			}
		}
	}
}

func add[T kernel.Float](dst, src []T) {
	src = src[:len(dst)]
	for i, x := range src {
		dst[i] += x
	}
}
