//go:build !amd64

package attention

import (
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/pack"
)

// laneSetOf is never called: other architectures compute attention by the products of
// package gemm.
func laneSetOf(kernel.Kind) (laneSet, *pack.Set) {
	panic("attention: no vector loops on this architecture")
}
