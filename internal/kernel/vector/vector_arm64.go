package vector

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// has reports whether v has the loop over vectors. Loops missing in neon run in Go.
func has(v kernel.Kind, l loop) bool {
	switch l {
	case loopExp, loopTanh, loopLogistic, loopSiLU, loopSiLUGrad, loopSwiGLU, loopSwiGLUGrad,
		loopScaleMax, loopMax, loopExpSum, loopExpTotal, loopAttentionGrad, loopScaled, loopAdamW:
		return v == kernel.NEON
	}
	return false
}

// run runs a loop that v has. It calls functions by name and not through a variable, so
// that arguments stay on the stack.
func run(v kernel.Kind, l loop, t *vectorArgs) {
	a := (*byte)(unsafe.Pointer(t))
	switch l {
	case loopExp:
		neonExp(a)
	case loopTanh:
		neonTanh(a)
	case loopLogistic:
		neonLogistic(a)
	case loopSiLU:
		neonSiLU(a)
	case loopSiLUGrad:
		neonSiLUGrad(a)
	case loopSwiGLU:
		neonSwiGLU(a)
	case loopSwiGLUGrad:
		neonSwiGLUGrad(a)
	case loopScaleMax:
		neonScaleMax(a)
	case loopMax:
		neonMax(a)
	case loopExpSum:
		neonExpSum(a)
	case loopExpTotal:
		neonExpTotal(a)
	case loopAttentionGrad:
		neonAttentionGrad(a)
	case loopScaled:
		neonScaled(a)
	case loopAdamW:
		neonAdamW(a)
	default:
		panic("vector: neon lacks this loop; ask has before")
	}
}
