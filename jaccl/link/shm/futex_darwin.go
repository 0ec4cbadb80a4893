package shm

import (
	"sync/atomic"
	"time"
)

// nap is the time that a rank sleeps between two looks at a word. The first public call
// of darwin waiting until another process changes a word is os_sync_wait_on_address of
// macOS 14.4, which needs the C library.
const nap = 50 * time.Microsecond

// futexWait sleeps until the word differs from seen, or d has passed.
func futexWait(word *atomic.Uint32, seen uint32, d time.Duration) {
	for end := time.Now().Add(d); word.Load() == seen && time.Now().Before(end); time.Sleep(nap) {
	}
}

// futexWake has nothing to do: a rank that sleeps looks at the word by itself.
func futexWake(*atomic.Uint32) {}

// yield lets other threads have the processor.
func yield() { time.Sleep(time.Microsecond) }
