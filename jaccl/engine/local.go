package engine

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
)

// Local returns the communicators, by rank, of n ranks that live in this process. One
// goroutine at a time may use a communicator, except for Fail and Close, which may be
// called at any time from any goroutine.
//
// The errors of collectives are of type *jaccl.Error. After the first one the job is
// poisoned, and every collective of every rank fails with the same failure, until some
// rank calls Renew (see collective.Renewer) once all ranks know of it. An error of Group
// does not poison the job, nor does closing a rank for which no rank waits.
func Local(n int, opts jaccl.Options) ([]jaccl.Communicator, error) {
	if n < 1 {
		return nil, fmt.Errorf("engine: job in one process: %d ranks, want at least 1", n)
	}
	deadline, err := opts.Wait()
	if err != nil {
		return nil, fmt.Errorf("engine: job in one process: %w", err)
	}
	j := &job{
		size:     n,
		deadline: deadline,
		down:     make(chan struct{}),
		groups:   map[string]*rendezvous{},
		closed:   make([]bool, n),
		closes:   make([]map[string]int, n),
	}
	for i := range j.closes {
		j.closes[i] = map[string]int{}
	}
	comms := make([]jaccl.Communicator, n)
	for i := range comms {
		comms[i] = &comm{j, i}
	}
	return comms, nil
}

// job is the state that the ranks share. mu is held for bookkeeping only, never
// during a wait or a copy of data.
type job struct {
	size     int
	deadline time.Duration
	down     chan struct{} // closed by the first failure, replaced by Renew

	mu     sync.Mutex
	first  *failure
	groups map[string]*rendezvous // by key
	closed []bool                 // by rank
	closes []map[string]int       // by rank, and by the ranks of a group: the number of times the rank has closed it
}

// fail poisons the job with f, unless the job is poisoned already, returning the failure
// that poisoned it. The caller holds mu.
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

var (
	_ jaccl.Communicator = (*comm)(nil)
	_ collective.Renewer = (*comm)(nil)
)

func (c *comm) Rank() int { return c.rank }
func (c *comm) Size() int { return c.job.size }

// World implements jaccl.Communicator.
func (c *comm) World() jaccl.Group {
	c.job.mu.Lock()
	defer c.job.mu.Unlock()
	return c.open(everyone(c.job.size))
}

// Group returns the group of these ranks, in this order; the same ranks in
// another order are another group. Calls with equal ranks return the same
// group. An error leaves the job as it was.
func (c *comm) Group(ranks []int) (collective.Group, error) { return plain(c.Among(ranks)) }

// Among implements jaccl.Communicator.
func (c *comm) Among(ranks []int) (jaccl.Group, error) {
	if err := members(ranks, c.rank, c.job.size); err != nil {
		return nil, err
	}
	c.job.mu.Lock()
	defer c.job.mu.Unlock()
	if c.job.closed[c.rank] {
		return nil, fmt.Errorf("jaccl: group %v: rank %d: %w", ranks, c.rank, jaccl.ErrClosed)
	}
	return c.open(ranks), nil
}

// open returns the current group of these ranks, which this rank has not closed. The
// caller holds job.mu.
func (c *comm) open(ranks []int) *member {
	return c.job.group(groupKey(ranks, c.job.closes[c.rank]), ranks, c.rank)
}

// group returns the group with the given key, as seen by the rank, making it if it does
// not exist. The caller holds mu.
func (j *job) group(key string, ranks []int, rank int) *member {
	r := j.groups[key]
	if r == nil {
		r = newRendezvous(j, key, slices.Clone(ranks))
		j.groups[key] = r
	}
	return r.members[slices.Index(ranks, rank)]
}

// Fail poisons the job. It does not block. Only the first failure of a job
// counts.
func (c *comm) Fail(cause error) {
	f := failed(c.rank, cause)
	c.job.mu.Lock()
	defer c.job.mu.Unlock()
	c.job.fail(f)
}

// Renew implements collective.Renewer.
func (c *comm) Renew() {
	j := c.job
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.first != nil {
		j.first, j.down = nil, make(chan struct{})
	}
}

// Close marks the rank as gone. It does not block, and returns nil. Peers that wait for
// this rank, now or later, get an error; groups without this rank continue.
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

// child implements runner.
func (m *member) child(ranks []int, color int) (jaccl.Group, error) {
	key := splitKey(m.r.key, m.splits, color)
	m.splits++
	if ranks == nil {
		return nil, nil
	}
	j := m.r.job
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.group(key, ranks, m.rank()), nil
}

// Close implements Group. Peers that wait for this member in the group, now or later,
// get an error.
func (m *member) Close() error {
	r, j := m.r, m.r.job
	j.mu.Lock()
	defer j.mu.Unlock()
	if r.closed[m.index] {
		return nil
	}
	if base := fmt.Sprint(r.ranks); r.key == groupKey(r.ranks, j.closes[m.rank()]) {
		j.closes[m.rank()][base]++
	}
	r.leave(m.index)
	for pair, p := range r.pairs {
		for i, k := range pair {
			if k == m.index {
				p.leave(i)
			}
		}
	}
	for _, closed := range r.closed {
		if !closed {
			return nil
		}
	}
	delete(j.groups, r.key)
	for _, p := range r.pairs {
		delete(j.groups, p.key)
	}
	return nil
}

// leave notes that member i has closed the group. The caller holds job.mu.
func (r *rendezvous) leave(i int) {
	r.closed[i] = true
	if r.arrived > 0 {
		r.job.fail(goneFrom(r.ranks[i], r.whole))
	}
}
