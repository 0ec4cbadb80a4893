package norm

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// runNorm runs a loop with v, which is not Portable. It calls functions by name and not
// through a variable, so that arguments stay on the stack.
func runNorm(v kernel.Kind, l normLoop, t *normArgs) {
	a := (*byte)(unsafe.Pointer(t))
	if v == kernel.AVX512 {
		switch l {
		case normRMS:
			avx512RMSNorm(a)
		case normRMSGrad:
			avx512RMSNormGrad(a)
		case normRMSInverse:
			avx512RMSInverse(a)
		case normLayer:
			avx512LayerNorm(a)
		case normLayerGrad:
			avx512LayerNormGrad(a)
		case normMoments:
			avx512Moments(a)
		case normAddGain:
			avx512AddGain(a)
		case normAddBias:
			avx512AddBias(a)
		case normTurn:
			avx512Rope(a)
		}
		return
	}
	switch l {
	case normRMS:
		avx2RMSNorm(a)
	case normRMSGrad:
		avx2RMSNormGrad(a)
	case normRMSInverse:
		avx2RMSInverse(a)
	case normLayer:
		avx2LayerNorm(a)
	case normLayerGrad:
		avx2LayerNormGrad(a)
	case normMoments:
		avx2Moments(a)
	case normAddGain:
		avx2AddGain(a)
	case normAddBias:
		avx2AddBias(a)
	case normTurn:
		avx2Rope(a)
	}
}
