package vector

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// has reports whether v has the loop over vectors. avx2 and avx512 have all except the
// loops for attention in blocks.
func has(v kernel.Kind, l loop) bool { return v != kernel.Portable && l < loopScaleMax }

// run runs a loop that v has. It calls functions by name and not through a variable, so
// that arguments stay on the stack.
func run(v kernel.Kind, l loop, t *vectorArgs) {
	a := (*byte)(unsafe.Pointer(t))
	if v == kernel.AVX512 {
		runAVX512(l, a)
	} else {
		runAVX2(l, a)
	}
}

func runAVX512(l loop, a *byte) {
	switch l {
	case loopExp:
		avx512Exp(a)
	case loopTanh:
		avx512Tanh(a)
	case loopLogistic:
		avx512Logistic(a)
	case loopSiLU:
		avx512SiLU(a)
	case loopSiLUGrad:
		avx512SiLUGrad(a)
	case loopSwiGLU:
		avx512SwiGLU(a)
	case loopSwiGLUGrad:
		avx512SwiGLUGrad(a)
	case loopMax:
		avx512Max(a)
	case loopExpSum:
		avx512ExpSum(a)
	case loopExpTotal:
		avx512ExpTotal(a)
	case loopScaled:
		avx512Scaled(a)
	case loopAdamW:
		avx512AdamW(a)
	case loopAddScaled:
		avx512AddScaled(a)
	}
}

func runAVX2(l loop, a *byte) {
	switch l {
	case loopExp:
		avx2Exp(a)
	case loopTanh:
		avx2Tanh(a)
	case loopLogistic:
		avx2Logistic(a)
	case loopSiLU:
		avx2SiLU(a)
	case loopSiLUGrad:
		avx2SiLUGrad(a)
	case loopSwiGLU:
		avx2SwiGLU(a)
	case loopSwiGLUGrad:
		avx2SwiGLUGrad(a)
	case loopMax:
		avx2Max(a)
	case loopExpSum:
		avx2ExpSum(a)
	case loopExpTotal:
		avx2ExpTotal(a)
	case loopScaled:
		avx2Scaled(a)
	case loopAdamW:
		avx2AdamW(a)
	case loopAddScaled:
		avx2AddScaled(a)
	}
}
