//go:build amx_emulated

package kernel

import "golang.org/x/sys/cpu"

// hasAMX takes the processor to multiply tiles, because internal/testing/amx runs
// this process and computes what the processor refuses.
func hasAMX() bool { return cpu.X86.HasAVX512BW && cpu.X86.HasAVX512BF16 }
