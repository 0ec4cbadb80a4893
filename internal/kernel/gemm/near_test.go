package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// Blocks of B that are near have the bits of others, and take the same memory.
func TestNear(t *testing.T) {
	t.Run("f32", near[float32])
	t.Run("f64", near[float64])
}

func near[T kernel.Float](t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, ks := range available() {
		s := ks.set(unsafe.Sizeof(T(0)))
		if s == nil {
			continue
		}
		for _, c := range [][3]int{{9, 30, 40}, {130, 500, 513}, {140, 1100, 1030}, {40, 530, 2100}, {129, 2150, 600}} {
			for _, transposed := range []bool{false, true} {
				m, n, k := c[0], c[1], c[2]
				a, b := numbers.Normals[T](r, m*k), numbers.Normals[T](r, k*n)
				brs, bcs := n, 1
				if transposed {
					brs, bcs = 1, k
				}
				var results [2][]T
				var took [2]*Workspace[T]
				for i := range results {
					set := *s
					set.near = i > 0
					results[i], took[i] = make([]T, m*n), new(Workspace[T])
					took[i].blocked(&set, m, n, k, a, k, 1, b, brs, bcs, Panels{}, results[i], n, false)
				}
				what := fmt.Sprintf("%s %dx%dx%d %v", ks.name, m, n, k, transposed)
				numbers.SameBits(t, what, results[1], results[0])
				if got, want := len(took[1].b), len(took[0].b); got != want {
					t.Errorf("%s: %d elements for B near, want %d", what, got, want)
				}
			}
		}
	}
}
