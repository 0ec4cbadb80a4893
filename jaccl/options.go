package jaccl

import (
	"fmt"
	"time"
)

// DefaultDeadline is how long a member waits for the others of its group.
const DefaultDeadline = 30 * time.Second

// Options are the settings of a job. The zero Options are usable.
type Options struct {
	// Deadline is how long a member that called a collective waits for the
	// last member to arrive; 0 means DefaultDeadline. It has to be longer than
	// ranks work between two collectives; the transfer does not count.
	Deadline time.Duration
}

// Wait returns the deadline to use: Deadline, or DefaultDeadline for 0. A negative
// Deadline is an error.
func (o Options) Wait() (time.Duration, error) {
	if o.Deadline < 0 {
		return 0, fmt.Errorf("deadline %v, want 0 for %v or more", o.Deadline, DefaultDeadline)
	}
	if o.Deadline == 0 {
		return DefaultDeadline, nil
	}
	return o.Deadline, nil
}
