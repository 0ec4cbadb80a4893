package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/kernel"
)

// streamedGroups multiplies m rows, at most streamRows, by n columns of B in place, for a
// set copying A in squares. n is a multiple of s.lanes(m). An element of C has the same
// bits as from tiles.
func (p *pairProduct) streamedGroups(m, n int, c []float32, ldc int, acc bool) {
	s, w := p.s, p.w
	do, rows := streamOf(s.streams, m)
	lanes := s.lanes(m)
	cols := kernel.Evenly(n, 2*streamSums/streamRows, lanes)
	whole, rest := p.kn/s.step, p.kn%s.step
	a := kernel.Take(w.dry, &w.a, s.depth(p.kn)*rows)
	sums := kernel.Take(w.dry, &w.sums, rows*cols)
	var last []array.Brain // the rows of B after the last whole group, and zeros
	if rest > 0 {
		last = brains(kernel.Take(w.dry, &w.pb, s.step*cols/2))
	}
	if w.dry != nil {
		return
	}
	p.widenGroups(a, m, rows)
	t := &w.work
	for j0 := 0; j0 < n; j0 += cols {
		jn := min(cols, n-j0)
		clear(sums[:rows*jn])
		if acc {
			moveGroups(sums, c[j0:], ldc, m, rows, jn, func(sum, c *float32) { *sum = *c })
		}
		t.c, t.cols = unsafe.Pointer(&sums[0]), uintptr(2*jn)
		if whole > 0 {
			t.deep, t.a = whole, unsafe.Pointer(&a[0])
			t.b, t.bstride = unsafe.Pointer(&p.b[p.k0*p.brs+j0]), uintptr(2*p.brs)
			do(t.of())
		}
		if rest > 0 {
			last = last[:s.step*jn]
			for r := range rest {
				copy(last[r*jn:][:jn], p.b[(p.k0+whole*s.step+r)*p.brs+j0:])
			}
			clear(last[rest*jn:])
			t.deep, t.a = 1, unsafe.Pointer(&a[whole*s.step*rows])
			t.b, t.bstride = unsafe.Pointer(&last[0]), uintptr(2*jn)
			do(t.of())
		}
		moveGroups(sums, c[j0:], ldc, m, rows, jn, func(sum, c *float32) { *c = *sum })
	}
}

// widenGroups sets dst to m rows of A, and zeros, in the order read by streams of groups:
// by pair in k, row, and even before odd.
func (p *pairProduct) widenGroups(dst []float32, m, rows int) {
	clear(dst)
	for r := range m {
		from := p.a[r*p.ars+p.k0*p.acs:]
		for k := range p.kn {
			dst[(k/2*rows+r)*2+k%2] = from[k*p.acs].Float32()
		}
	}
}

// moveGroups calls move for every one of n sums of m rows, and its element of c. Sums are
// ordered by round, vector of 32 columns, and row; even columns come before odd ones.
func moveGroups(sums, c []float32, ldc, m, rows, n int, move func(sum, c *float32)) {
	for j := 0; j < n; j += streamLanes {
		for r := range m {
			y, low := c[r*ldc+j:][:streamLanes], sums[j*rows+r*streamLanes:][:streamLanes]
			high := low[pairLanes:]
			for q := range pairLanes {
				move(&low[q], &y[2*q])
				move(&high[q], &y[2*q+1])
			}
		}
	}
}
