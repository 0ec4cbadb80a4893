package watch

import (
	"math"
	"time"
)

// window is the number of answers used to estimate an offset. At the default heartbeat
// these are the answers of the last ten seconds, in which clocks hardly drift.
const window = 32

// clock estimates the difference between a peer's clock and this rank's, like NTP: it
// uses the answer with the shortest round trip, which can be wrong by half of that time.
type clock struct {
	offsets, trips [window]time.Duration
	n              int // number of answers so far; the last window of them are kept
}

// sample adds the times of one question, in nanoseconds. asked and back are this rank's
// times of the question and of the answer; came and answered are the peer's. It returns
// false, adding nothing, if the times are impossible.
func (c *clock) sample(asked, came, answered, back int64) bool {
	trip := (back - asked) - (answered - came)
	if back < asked || answered < came || trip < 0 {
		return false
	}
	// The mean of two differences, computed without overflow: clocks may be years apart.
	a, b := came-asked, answered-back
	c.offsets[c.n%window] = time.Duration(a/2 + b/2 + (a%2+b%2)/2)
	c.trips[c.n%window] = time.Duration(trip)
	c.n++
	return true
}

// estimate returns the peer's clock minus this rank's, and the uncertainty, which is
// math.MaxInt64 if there is no answer yet.
func (c *clock) estimate() (offset, uncertainty time.Duration) {
	best := time.Duration(math.MaxInt64)
	for i := range min(c.n, window) {
		if c.trips[i] < best {
			best, offset = c.trips[i], c.offsets[i]
		}
	}
	if c.n == 0 {
		return 0, best
	}
	return offset, best/2 + 1
}
