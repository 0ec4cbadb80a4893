package kernel

import "golang.org/x/sys/cpu"

// withCopies returns s with what this processor can copy in vectors.
func withCopies(s halfSet) *halfSet {
	if cpu.X86.HasAVX2 {
		s.transposes = pairTransposes()
	}
	if cpu.X86.HasAVX512F {
		s.pairRows = pairCopies()
	}
	return &s
}
