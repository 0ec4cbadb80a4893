package random

import (
	"testing"
	"unsafe"

	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// No loop touches what is behind the last element; if one did, this test would crash.
func TestRandomStaysInside(t *testing.T) {
	for _, n := range []int{1, 2, 7, 8, 9, 15, 16, 17, 31, 40, 63, 64, 65, 130} {
		z := numbers.AtGuard(t, make([]float32, n))
		for _, l := range loopsHere() {
			bits32(l, unsafe.Slice((*uint32)(unsafe.Pointer(&z[0])), n), [2]uint32{1, 2}, 3)
			uniform(l, z, [2]uint32{1, 2}, 3, 0, 1)
			normal(l, z, [2]uint32{1, 2}, 3)
		}
	}
}
