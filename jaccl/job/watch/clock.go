package watch

import (
	"math"
	"time"
)

// window is how many answers an offset is estimated from: at the default
// heartbeat, those of the last ten seconds, in which clocks hardly drift.
const window = 32

// clock estimates how a peer's clock differs from this rank's, as NTP does: the
// answer that took the shortest time says most, and half of that time is what it
// can be wrong by.
type clock struct {
	offsets, trips [window]time.Duration
	n              int // answers, of which the last window are kept
}

// sample takes the times of one question, in nanoseconds: asked and back are this rank's
// times of the question and of the answer, came and answered the peer's. It returns false
// if the times are impossible.
func (c *clock) sample(asked, came, answered, back int64) bool {
	trip := (back - asked) - (answered - came)
	if back < asked || answered < came || trip < 0 {
		return false
	}
	// The mean of two differences that may be large, as clocks may be years apart.
	a, b := came-asked, answered-back
	c.offsets[c.n%window] = time.Duration(a/2 + b/2 + (a%2+b%2)/2)
	c.trips[c.n%window] = time.Duration(trip)
	c.n++
	return true
}

// estimate returns the peer's clock less this rank's, and what that may be wrong
// by; math.MaxInt64 if there is no answer yet.
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
