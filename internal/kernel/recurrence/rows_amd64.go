package recurrence

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// columns returns the number of columns of the next step, where `left` are left.
func columns[T kernel.Float](left int) int {
	switch k := kernel.VectorsOf[T](); {
	case k == kernel.Portable:
		return min(left, portableWidth)
	case k == kernel.AVX512 && left > 16:
		return 32
	}
	return 16
}

func runRow(columns int, t *rowArgs) {
	if a := (*byte)(unsafe.Pointer(t)); columns == 32 {
		avx512Row(a)
	} else {
		avx2Row(a)
	}
}
