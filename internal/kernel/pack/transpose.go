package pack

import (
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// Transpose sets y[j·ys + i] = x[i·xs + j] for i below m and j below n. x and y must not
// overlap.
func Transpose(y []uint32, ys int, x []uint32, xs, m, n int) {
	transpose32(selected(), y, ys, x, xs, m, n)
}

// selected returns the selected kind's copying loops for elements of 4 bytes.
var selected = sync.OnceValue(func() *Set {
	k, _ := kernel.Selected() // the error is reported when a program is run
	return Of(k, 4)
})

// transposeDeep is the number of rows of y written at a time. With 16 rows of x at a
// time, their cache lines are written whole while in the first-level cache.
const transposeDeep = 16

func transpose32(s *Set, y []uint32, ys int, x []uint32, xs, m, n int) {
	if m <= 0 || n <= 0 {
		return
	}
	_, _ = x[(m-1)*xs+n-1], y[(n-1)*ys+m-1]
	m8, n8 := 0, 0
	if s != nil && s.Transposes[0].Lanes == 8 {
		m8, n8 = m&^7, n&^7
		for i := 0; i < m8; i += 16 {
			for j := 0; j < n8; j += transposeDeep {
				for k := i; k < min(i+16, m8); k += 8 {
					s.Transposes[0].Do(min(transposeDeep, n8-j), (*byte)(unsafe.Pointer(&y[j*ys+k])), uintptr(ys*4), (*byte)(unsafe.Pointer(&x[k*xs+j])), uintptr(xs*4))
				}
			}
		}
	}
	for i := range m {
		j := 0
		if i < m8 {
			j = n8
		}
		for ; j < n; j++ {
			y[j*ys+i] = x[i*xs+j]
		}
	}
}
