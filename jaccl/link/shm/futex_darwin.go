package shm

import (
	"sync/atomic"
	"time"
)

// nap is how long a rank sleeps between two looks at a word: darwin has no public
// call to wait for one that another process changes before os_sync_wait_on_address
// of macOS 14.4, which needs the C library.
const nap = 50 * time.Microsecond

// futexWait sleeps until the word is not seen, or d is over. It returns false for
// the last.
func futexWait(word *atomic.Uint32, seen uint32, d time.Duration) bool {
	for end := time.Now().Add(d); word.Load() == seen; time.Sleep(nap) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// futexWake has nothing to do: sleepers look by themselves.
func futexWake(*atomic.Uint32) {}

// yield lets other threads have the processor.
func yield() { time.Sleep(time.Microsecond) }
