package shm

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gomoe/gomoe/internal/wait"
)

// The operations are those between processes, not the private ones.
const (
	futexOpWait = 0
	futexOpWake = 1
)

// futexWait sleeps until the word differs from seen, somebody wakes the sleeper, or d has
// passed.
func futexWait(word *atomic.Uint32, seen uint32, d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWait, uintptr(seen), uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// futexWake wakes whoever sleeps on the word.
func futexWake(word *atomic.Uint32) {
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWake, 1<<30, 0, 0, 0)
}

// yield lets other threads have the processor.
func yield() { wait.Yield() }
