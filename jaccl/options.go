package jaccl

import (
	"fmt"
	"time"
)

// DefaultDeadline is how long a member waits for the others of its group.
const DefaultDeadline = 30 * time.Second

// Pause is how much time between two looks at an operation is taken to mean that this process
// was stopped meanwhile, as a signal can do. A rank that was stopped does not know what others
// did meanwhile, so that this time does not count towards its deadline: the other ranks, if
// they were not stopped themselves, decide about the stopped one.
const Pause = time.Second

// Options are the settings of a job. The zero Options are usable.
type Options struct {
	// Deadline is how long a member that called a collective waits for the
	// last member to arrive, and the longest time for which no byte of a transfer may
	// move; 0 means DefaultDeadline. It has to be longer than ranks work between two
	// collectives. Time for which the member's own process is stopped does not count.
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
