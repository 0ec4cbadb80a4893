package jaccl

import (
	"fmt"
	"time"
)

// DefaultDeadline is the time that a member waits for the others of its group.
const DefaultDeadline = 30 * time.Second

// Pause is the time between two looks at an operation from which a rank concludes that
// its process was stopped meanwhile, as by a signal. A stopped rank knows nothing of the
// others, so this time does not count towards its deadline: the other ranks, if they were
// not stopped themselves, decide about the stopped one.
const Pause = time.Second

// Options are the settings of a job. The zero Options are usable.
type Options struct {
	// Deadline is the time that a member waits in a collective for the last member to
	// arrive, and the longest time without any progress of a transfer; 0 means
	// DefaultDeadline. It has to be longer than the ranks' work between two collectives.
	// Time during which the member's own process is stopped does not count.
	Deadline time.Duration
}

// minDeadline is the shortest deadline. A shorter one is a mistake about its unit: a plain 30
// is 30 nanoseconds.
const minDeadline = time.Millisecond

// Wait returns the deadline to use: Deadline, or DefaultDeadline for 0. A Deadline below
// 1 ms is an error.
func (o Options) Wait() (time.Duration, error) {
	if o.Deadline != 0 && o.Deadline < minDeadline {
		return 0, fmt.Errorf("deadline %v, want 0 for %v, or at least %v", o.Deadline, DefaultDeadline, minDeadline)
	}
	if o.Deadline == 0 {
		return DefaultDeadline, nil
	}
	return o.Deadline, nil
}
