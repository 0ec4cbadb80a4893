package random

import "github.com/gomoe/gomoe/internal/kernel"

func loopsFor(k kernel.Kind) *loops {
	switch k {
	case kernel.AVX512:
		return &loops{threefry: avx512Threefry, uniform: avx512Uniform, normal: avx2Normal, round: avx512RoundBrain}
	case kernel.AVX2:
		return &loops{threefry: avx2Threefry, uniform: avx2Uniform, normal: avx2Normal, round: avx2RoundBrain}
	}
	return nil
}
