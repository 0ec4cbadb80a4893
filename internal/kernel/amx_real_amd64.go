//go:build !amx_emulated

package kernel

import "golang.org/x/sys/cpu"

// hasAMX reports whether this processor multiplies tiles of bf16 and of int8, and the
// operating system lets this process use them.
func hasAMX() bool {
	return cpu.X86.HasAMXTile && cpu.X86.HasAMXBF16 && cpu.X86.HasAMXInt8 && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512BF16 && permitTiles()
}
