package shm

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gomoe/gomoe/internal/wait"
)

// These operations work between processes, unlike the private ones.
const (
	futexOpWait = 0
	futexOpWake = 1
)

// futexWait sleeps until the word differs from seen, futexWake is called for the word, or d
// has passed. It may return earlier.
func futexWait(word *atomic.Uint32, seen uint32, d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWait, uintptr(seen), uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// futexWake wakes all threads, of any process, that sleep in futexWait on the word.
func futexWake(word *atomic.Uint32) {
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWake, 1<<30, 0, 0, 0)
}

// yield lets other threads have the processor.
func yield() { wait.Yield() }
