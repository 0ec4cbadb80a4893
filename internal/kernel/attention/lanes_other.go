//go:build !amd64

package attention

import (
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/pack"
)

// laneSetOf is never reached: other architectures have scalar loops only.
func laneSetOf(kernel.Kind) (laneSet, *pack.Set) {
	panic("attention: no vector loops on this architecture")
}
