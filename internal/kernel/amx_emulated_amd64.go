//go:build amx_emulated

package kernel

import "golang.org/x/sys/cpu"

// hasAMX assumes that the processor multiplies tiles: internal/testing/amx runs this
// process and computes the instructions that the processor refuses.
func hasAMX() bool { return cpu.X86.HasAVX512BW && cpu.X86.HasAVX512BF16 }
