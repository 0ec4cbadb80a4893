package jaccl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gomoe/gomoe/lowering"
)

// post is what a member brings to a rendezvous.
type post struct {
	call       lowering.Call
	dst, src   []byte
	dsts, srcs [][]byte // of all_to_all, instead of dst and src
}

// rendezvous is where the members of one group meet for one operation after
// another. Everything is reused: an operation allocates nothing.
//
// job.mu guards arrived and every member's here. A member's post is its own
// until it arrives; once all have arrived, posts are read by all and written by
// none until the operation is complete. verdict and alone belong to the last
// member to arrive, until it wakes the others.
type rendezvous struct {
	job     *job
	ranks   []int // of the job, in group order
	members []*member
	posts   []post
	arrived int

	verdict *failure // what the calls disagree on
	alone   bool     // the last to arrive did the work of all

	busy atomic.Int32 // members that have not finished their share
}

// member is one rank's end of a rendezvous.
type member struct {
	r     *rendezvous
	index int
	here  bool          // has arrived and waits for the others
	wake  chan struct{} // room for the one wake-up that a member can be waiting for
	timer *time.Timer   // stopped while the member does not wait for arrivals
	acc   accumulator
	inUse atomic.Bool
}

var _ lowering.Group = (*member)(nil)

func newRendezvous(j *job, ranks []int) *rendezvous {
	r := &rendezvous{job: j, ranks: ranks, posts: make([]post, len(ranks))}
	r.busy.Store(int32(len(ranks)))
	for i := range ranks {
		m := &member{r: r, index: i, wake: make(chan struct{}, 1), timer: time.NewTimer(j.deadline)}
		m.timer.Stop()
		r.members = append(r.members, m)
	}
	return r
}

func (m *member) Rank() int { return m.index }
func (m *member) Size() int { return len(m.r.ranks) }

// rank is the member's rank in the job, by which all errors name it.
func (m *member) rank() int { return m.r.ranks[m.index] }

// meet runs one operation. bad is what is wrong with p on its own, if anything.
func (m *member) meet(ctx context.Context, p post, bad *failure) error {
	if !m.inUse.CompareAndSwap(false, true) {
		return m.fail(ctx, p.call, argument(m.rank(), p.call, "another collective of the same group in progress, want one goroutine per rank at a time"))
	}
	defer m.inUse.Store(false)
	r, j := m.r, m.r.job
	if bad != nil {
		return m.fail(ctx, p.call, bad)
	}
	if ctx.Err() != nil {
		return m.fail(ctx, p.call, left(ctx, m.rank(), p.call))
	}

	j.mu.Lock()
	if f := r.obstacle(); f != nil {
		f = j.fail(f)
		j.mu.Unlock()
		return m.error(ctx, p.call, f)
	}
	r.posts[m.index] = p
	m.here = true
	r.arrived++
	last := r.arrived == len(r.ranks)
	if last {
		r.arrived = 0
		for _, o := range r.members {
			o.here = false
		}
	}
	j.mu.Unlock()

	if last {
		r.open(m)
	} else if f := m.await(ctx, p.call); f != nil {
		return m.error(ctx, p.call, f)
	}
	verdict := r.verdict
	if verdict == nil && !r.alone {
		r.share(m.index, &m.acc)
		m.finish()
	}
	r.posts[m.index] = post{} // the group outlives the caller's buffers
	if verdict != nil {
		return m.error(ctx, p.call, verdict)
	}
	return nil
}

// obstacle returns why no operation can start. job.mu is held.
func (r *rendezvous) obstacle() *failure {
	if r.job.first != nil {
		return r.job.first
	}
	for _, rank := range r.ranks {
		if r.job.closed[rank] {
			return gone(rank)
		}
	}
	return nil
}

// open judges the posts and lets the members go on. m is the last to arrive;
// nobody else touches the rendezvous until it is woken.
func (r *rendezvous) open(m *member) {
	r.verdict = r.disagreement()
	r.alone = false
	switch {
	case r.verdict != nil:
		r.job.mu.Lock()
		r.job.fail(r.verdict)
		r.job.mu.Unlock()
	case len(r.ranks) == 1 || r.volume() <= aloneBytes:
		r.alone = true
		for i := range r.ranks {
			r.share(i, &m.acc)
		}
	}
	m.wakeOthers()
}

// await waits until the last member has arrived. It returns the job's failure
// if this member had to leave before that.
func (m *member) await(ctx context.Context, c lowering.Call) *failure {
	r, j := m.r, m.r.job
	m.timer.Reset(j.deadline)
	timeout := false
	select {
	case <-m.wake:
		m.timer.Stop()
		return nil
	case <-ctx.Done():
	case <-m.timer.C:
		timeout = true
	case <-j.down:
	}
	m.timer.Stop()

	j.mu.Lock()
	if !m.here { // the last one came meanwhile and counts on this member
		j.mu.Unlock()
		<-m.wake
		return nil
	}
	defer j.mu.Unlock()
	f := j.first
	switch {
	case f != nil:
	case timeout:
		f = j.fail(r.late(c))
	default:
		f = j.fail(left(ctx, m.rank(), c))
	}
	m.here = false
	r.arrived--
	r.posts[m.index] = post{}
	return f
}

// late blames the members that are not here. job.mu is held.
func (r *rendezvous) late(c lowering.Call) *failure {
	var missing []int
	var where []string
	for i, rank := range r.ranks {
		if !r.members[i].here {
			missing = append(missing, rank)
			where = append(where, r.job.where(rank))
		}
	}
	return late(missing, where, c, r.ranks, r.job.deadline)
}

// where says in which collective a rank waits. mu is held.
func (j *job) where(rank int) string {
	for _, r := range j.groups {
		if i := slices.Index(r.ranks, rank); i >= 0 && r.members[i].here {
			return fmt.Sprintf("it waits in %s among ranks %v", r.posts[i].call, r.ranks)
		}
	}
	return ""
}

// finish returns when every member has done its share. All are in the
// operation, so this needs no deadline.
func (m *member) finish() {
	if m.r.busy.Add(-1) > 0 {
		<-m.wake
		return
	}
	m.r.busy.Store(int32(len(m.r.ranks)))
	m.wakeOthers()
}

func (m *member) wakeOthers() {
	for _, o := range m.r.members {
		if o != m {
			o.wake <- struct{}{}
		}
	}
}

// fail poisons the job with f and returns the error of this member.
func (m *member) fail(ctx context.Context, c lowering.Call, f *failure) error {
	m.r.job.mu.Lock()
	f = m.r.job.fail(f)
	m.r.job.mu.Unlock()
	return m.error(ctx, c, f)
}

// error returns f as this member's error. Where the context ended too, the
// error wraps both causes: which came first is chance.
func (m *member) error(ctx context.Context, c lowering.Call, f *failure) error {
	e := &Error{Rank: m.rank(), Call: c, Blame: slices.Clone(f.blame), Err: f}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(f, cause) {
		e.Err = fmt.Errorf("%w, and the context of rank %d ended: %w", f, m.rank(), cause)
	}
	return e
}
