package gemm

import (
	"golang.org/x/sys/cpu"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/pack"
)

// withCopies returns s with the copying loops over vectors that this processor has.
func withCopies(s halfSet) *halfSet {
	if cpu.X86.HasAVX2 {
		s.transposes = pack.Of(kernel.AVX2, 4).Transposes
	}
	if cpu.X86.HasAVX512F {
		s.pairRows = pairCopies()
	}
	return &s
}
