package recurrence

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// columns returns the number of columns of the next step, where `left` are left.
func columns[T kernel.Float](left int) int {
	if kernel.VectorsOf[T]() == kernel.Portable {
		return min(left, portableWidth)
	}
	return 16
}

func runRow(_ int, t *rowArgs) { neonRow((*byte)(unsafe.Pointer(t))) }
