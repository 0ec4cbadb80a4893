package pack

import "github.com/gomoe/gomoe/internal/kernel"

// Of returns k's copying loops for elements of 4 or 8 bytes, nil for the portable kernels.
func Of(k kernel.Kind, size int) *Set {
	s := &Set{copies: map[int]func(n int, dst, src *byte, stride uintptr){16: copy16, 32: copy32, 64: copy64, 96: copy96, 128: copy128, 192: copy192}}
	switch k.Vectors() {
	case kernel.AVX512:
		s.lanes = 64 / size
	case kernel.AVX2:
		s.lanes = 32 / size
	default:
		return nil
	}
	switch {
	case size == 8:
		s.Transposes = []Transposition{{4, 4, transpose4F64}}
	case s.lanes == 16:
		s.Transposes = []Transposition{{16, 16, transpose16F32}, {8, 8, transpose8F32}, {4, 4, transpose4F32}}
	default:
		s.Transposes = []Transposition{{8, 8, transpose8F32}, {4, 4, transpose4F32}}
	}
	return s
}
