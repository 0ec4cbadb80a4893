package metal

import "time"

// clock converts the GPU's times, in seconds of a system clock that Go does not read, to times of
// the host's clock. The host sees the end of a segment after a delay. The smallest delay of all
// segments so far is the estimate of the offset between the clocks; it is too large by the time
// that this wait took to return.
type clock struct {
	known bool
	apart float64 // seconds to add to the GPU's time, giving the time since base
	base  time.Time
}

// span returns the start and the end of a segment by the host's clock. began and ended are the
// GPU's times. The host committed the segment at committed and saw its end at seen; the result lies
// between these two.
func (c *clock) span(began, ended float64, committed, seen time.Time) (from, to time.Time) {
	if !c.known {
		c.base = committed
	}
	if apart := seen.Sub(c.base).Seconds() - ended; !c.known || apart < c.apart {
		c.known, c.apart = true, apart
	}
	at := func(gpu float64) time.Time {
		t := c.base.Add(time.Duration((gpu + c.apart) * float64(time.Second)))
		switch {
		case t.Before(committed):
			return committed
		case t.After(seen):
			return seen
		}
		return t
	}
	return at(began), at(ended)
}
