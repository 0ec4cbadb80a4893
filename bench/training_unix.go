//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
)

// peakOf returns the peak memory of a process in bytes.
func peakOf(p *os.ProcessState) int64 {
	use, ok := p.SysUsage().(*syscall.Rusage)
	switch {
	case !ok:
		return 0
	case runtime.GOOS == "darwin":
		return int64(use.Maxrss)
	}
	return int64(use.Maxrss) << 10
}
