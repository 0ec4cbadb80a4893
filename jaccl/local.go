package jaccl

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gomoe/gomoe/lowering"
)

// DefaultDeadline is how long a member waits for the others of its group.
const DefaultDeadline = 30 * time.Second

// Options are the settings of a job. The zero Options are usable.
type Options struct {
	// Deadline is how long a member that called a collective waits for the
	// last member to arrive; 0 means DefaultDeadline. It covers whatever ranks
	// do between two collectives, not the transfer.
	Deadline time.Duration
}

// Local returns the communicators of n ranks that live in this process, by
// rank. Each is for one goroutine at a time, but for Fail and Close, which may
// be called at any time from any goroutine.
//
// The errors of collectives are of type *Error. After the first one the job is
// poisoned and every collective of every rank fails with it. Two things end no
// job: an error of Group, and a Close that nobody is waiting for.
func Local(n int, opts Options) ([]lowering.Communicator, error) {
	if n < 1 {
		return nil, fmt.Errorf("jaccl: local job: %d ranks, want at least 1", n)
	}
	if opts.Deadline < 0 {
		return nil, fmt.Errorf("jaccl: local job: deadline %v, want 0 for %v or more", opts.Deadline, DefaultDeadline)
	}
	if opts.Deadline == 0 {
		opts.Deadline = DefaultDeadline
	}
	j := &job{
		size:     n,
		deadline: opts.Deadline,
		down:     make(chan struct{}),
		groups:   map[string]*rendezvous{},
		closed:   make([]bool, n),
	}
	comms := make([]lowering.Communicator, n)
	for i := range comms {
		comms[i] = &comm{j, i}
	}
	return comms, nil
}

// job is what the ranks share. mu is held for bookkeeping only, never across a
// wait or a copy of data.
type job struct {
	size     int
	deadline time.Duration
	down     chan struct{} // closed by the first failure

	mu     sync.Mutex
	first  *failure
	groups map[string]*rendezvous // by fmt.Sprint of the ranks
	closed []bool                 // by rank
}

// fail poisons the job with f unless it is poisoned, and returns the failure
// that did. mu is held.
func (j *job) fail(f *failure) *failure {
	if j.first == nil {
		j.first = f
		close(j.down)
	}
	return j.first
}

// comm is one rank's communicator.
type comm struct {
	job  *job
	rank int
}

var _ lowering.Communicator = (*comm)(nil)

func (c *comm) Rank() int { return c.rank }
func (c *comm) Size() int { return c.job.size }

// Group returns the group of these ranks, in this order; the same ranks in
// another order are another group. Calls with equal ranks return the same
// group. An error leaves the job as it was.
func (c *comm) Group(ranks []int) (lowering.Group, error) {
	for i, r := range ranks {
		if r < 0 || r >= c.job.size {
			return nil, fmt.Errorf("jaccl: group %v: rank %d is not in the job, want 0 to %d", ranks, r, c.job.size-1)
		}
		if slices.Contains(ranks[:i], r) {
			return nil, fmt.Errorf("jaccl: group %v: rank %d twice, want every rank once", ranks, r)
		}
	}
	index := slices.Index(ranks, c.rank)
	if index < 0 {
		return nil, fmt.Errorf("jaccl: group %v: rank %d asks for a group that it is not in, want only members to", ranks, c.rank)
	}
	key := fmt.Sprint(ranks)
	c.job.mu.Lock()
	defer c.job.mu.Unlock()
	if c.job.closed[c.rank] {
		return nil, fmt.Errorf("jaccl: group %v: rank %d: %w", ranks, c.rank, ErrClosed)
	}
	r := c.job.groups[key]
	if r == nil {
		r = newRendezvous(c.job, slices.Clone(ranks))
		c.job.groups[key] = r
	}
	return r.members[index], nil
}

// Fail poisons the job. It does not block. Only the first failure of a job
// counts.
func (c *comm) Fail(cause error) {
	f := failed(c.rank, cause)
	c.job.mu.Lock()
	defer c.job.mu.Unlock()
	c.job.fail(f)
}

// Close marks the rank as gone. It does not block, and returns nil. Peers that
// wait for this rank, and those that come to wait for it, get an error; groups
// without this rank go on.
func (c *comm) Close() error {
	j := c.job
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed[c.rank] = true
	for _, r := range j.groups {
		if r.arrived > 0 && slices.Contains(r.ranks, c.rank) {
			j.fail(gone(c.rank))
		}
	}
	return nil
}
