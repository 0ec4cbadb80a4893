package kernel

import (
	"golang.org/x/sys/cpu"

	"github.com/gomoe/gomoe/internal/half"
)

// vectorKinds returns the kinds in assembly that this processor runs, the best first.
func vectorKinds() []Kind {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA || !half.Vectors() {
		return nil
	}
	var have []Kind
	if cpu.X86.HasAVX512F {
		if hasAMX() {
			have = append(have, AMX)
		}
		have = append(have, AVX512)
	}
	return append(have, AVX2)
}
