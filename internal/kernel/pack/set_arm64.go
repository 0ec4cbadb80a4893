package pack

import "github.com/gomoe/gomoe/internal/kernel"

// Of returns k's copying loops for elements of 4 or 8 bytes, nil for the portable kernels.
func Of(k kernel.Kind, size int) *Set {
	if k != kernel.NEON {
		return nil
	}
	s := &Set{lanes: 16 / size, copies: map[int]func(n int, dst, src *byte, stride uintptr){16: neonCopy16, 32: neonCopy32, 48: neonCopy48, 64: neonCopy64}}
	if size == 8 {
		s.Transposes = []Transposition{{2, 2, neonTranspose2F64}}
	} else {
		s.Transposes = []Transposition{{4, 4, neonTranspose4F32}}
	}
	return s
}
