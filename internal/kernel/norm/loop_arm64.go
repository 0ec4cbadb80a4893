package norm

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// runNorm runs a loop with v, which is NEON. It calls functions by name and not through a
// variable, so that arguments stay on the stack.
func runNorm(v kernel.Kind, l normLoop, t *normArgs) {
	a := (*byte)(unsafe.Pointer(t))
	switch l {
	case normRMS:
		neonRMSNorm(a)
	case normRMSGrad:
		neonRMSNormGrad(a)
	case normRMSInverse:
		neonRMSInverse(a)
	case normLayer:
		neonLayerNorm(a)
	case normLayerGrad:
		neonLayerNormGrad(a)
	case normMoments:
		neonMoments(a)
	case normAddGain:
		neonAddGain(a)
	case normAddBias:
		neonAddBias(a)
	case normTurn:
		neonRope(a)
	}
}
