package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/kernel"
)

const (
	stripMost = 8  // rows of A multiplied by columns of B in place
	stripDeep = 32 // elements of a column, a cache line
)

// stripSet has functions for 1 to stripMost rows of A, which multiply them by columns of
// B with contiguous elements, such as rows of weights, in place.
type stripSet struct {
	products [stripMost]func(*byte)
	few      int // rows of A multiplied by pairLanes columns at a time; more use half as many
}

// stripes reports whether m rows of k elements are multiplied in strips by n columns,
// given the strides of their elements.
func stripes(m, n, k, acs, brs int) bool {
	return m <= stripMost && acs == 1 && brs == 1 && k%stripDeep == 0 && n >= pairLanes
}

// striped multiplies m rows of a, ars elements apart, by n columns of b. n is a multiple
// of pairLanes, and the depth k a multiple of stripDeep. Sums of `deep` products are
// added to C. While some columns are multiplied, the next ones are prefetched.
func striped[A array.Brain | float32](w *halfWorkspace, s *stripSet, m, n, k, deep int, a []A, ars int, b []array.Brain, bcs int, c []float32, ldc int, acc bool) {
	if w.dry != nil {
		return
	}
	t, do, columns := &w.work, s.products[m-1], pairLanes
	if m > s.few {
		columns /= 2
	}
	t.rowStride, t.bstride, t.cstride = uintptr(ars)*unsafe.Sizeof(a[0]), uintptr(2*bcs), uintptr(4*ldc)
	for j := 0; j < n; j += columns {
		next := j + columns
		if next+columns > n {
			next = j
		}
		fetch := b[next*bcs:]
		for d := 0; d < k; d += deep {
			t.deep, t.add = min(deep, k-d)/stripDeep, 0
			if acc || d > 0 {
				t.add = 1
			}
			t.a, t.b, t.c = unsafe.Pointer(&a[d]), unsafe.Pointer(&b[j*bcs+d]), unsafe.Pointer(&c[j])
			t.fetch = unsafe.Pointer(&kernel.From(fetch, min(columns*d, len(fetch)-1))[0])
			do(t.of())
		}
	}
}
