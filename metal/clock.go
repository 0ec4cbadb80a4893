package metal

import "time"

// clock brings the GPU's times, seconds of a clock of the system that Go does not read, to
// those of the host. A segment ends before the host has seen its end: the least time in
// between, of all segments so far, is what the clocks are apart, too much by how long that
// one wait took to return.
type clock struct {
	known bool
	apart float64 // seconds to add to the GPU's time, since base
	base  time.Time
}

// span returns when a segment ran that began and ended at times of the GPU, was handed over
// at committed, and was seen to be done at seen. It lies between these two.
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
