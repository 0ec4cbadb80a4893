package engine

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/internal/reduce"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/link"
)

// rendezvous is a meeting point of some ranks for one operation after another: all
// members of a group, or two of them for pairwise operations. Its memory is reused, so
// that an operation allocates nothing.
//
// job.mu guards arrived and every member's here. A member writes its post and claim
// before arriving; once all have arrived, all members read them and none writes them
// until the operation is complete. verdict and alone belong to the last member to arrive,
// until it wakes the others.
type rendezvous struct {
	job     *job
	key     string
	ranks   []int // of the job, in group order
	whole   []int // the ranks of the whole group, also in the rendezvous of a pair
	members []*member
	posts   []post
	claims  []claim
	arrived int
	closed  []bool // members that have closed the group; job.mu guards it
	pairs   map[[2]int]*rendezvous

	verdict *failure // the disagreement of the calls; nil if they agree
	alone   bool     // the last member to arrive did the work of all

	busy atomic.Int32 // members that have not finished their share
}

// member is one rank in a rendezvous. It implements jaccl.Group.
type member struct {
	operations
	r     *rendezvous
	here  bool          // the member has arrived and waits for the others
	wake  chan struct{} // buffers one wake-up; a member never waits for two
	timer *time.Timer   // runs only while the member waits for arrivals
	acc   reduce.Accumulator
	inUse atomic.Bool

	splits int       // number of splits that this member has called
	pairs  []*member // this rank in the rendezvous of pairs, by the other member's index; made when needed
}

var _ jaccl.Group = (*member)(nil)

func newRendezvous(j *job, key string, ranks []int) *rendezvous {
	r := &rendezvous{job: j, key: key, ranks: ranks, whole: ranks, posts: make([]post, len(ranks)), claims: make([]claim, len(ranks)), closed: make([]bool, len(ranks))}
	r.busy.Store(int32(len(ranks)))
	for i := range ranks {
		m := &member{r: r, wake: make(chan struct{}, 1), timer: time.NewTimer(j.deadline)}
		m.operations = operations{ranks: ranks, index: i, run: m}
		m.timer.Stop()
		r.members = append(r.members, m)
	}
	return r
}

// meet implements runner.
func (m *member) meet(ctx context.Context, p post, bad *failure) error {
	if !m.inUse.CompareAndSwap(false, true) {
		return m.fail(ctx, p.call, busy(m.rank(), p.call))
	}
	defer m.inUse.Store(false)
	if bad != nil {
		return m.fail(ctx, p.call, bad)
	}
	if ctx.Err() != nil {
		return m.fail(ctx, p.call, left(ctx, m.rank(), p.call))
	}
	if pairwise(p.call.Op) {
		return m.meetPairs(ctx, p)
	}
	return m.among(ctx, p)
}

// among runs one operation of all members of the rendezvous.
func (m *member) among(ctx context.Context, p post) error {
	last, f := m.arrive(&p)
	if f != nil {
		return f.seen(ctx, m.rank(), p.call)
	}
	work, f := m.begin(ctx, p.call, last)
	if work {
		m.share()
		if !m.done() {
			<-m.wake
		}
	}
	m.r.posts[m.index] = post{} // the group outlives the caller's buffers
	if f != nil {
		return f.seen(ctx, m.rank(), p.call)
	}
	return nil
}

// arrive posts p. It reports whether this member is the last to arrive, or returns the
// reason why the operation cannot start.
func (m *member) arrive(p *post) (last bool, f *failure) {
	r, j := m.r, m.r.job
	p.claim(&r.claims[m.index])
	j.mu.Lock()
	defer j.mu.Unlock()
	if f := r.obstacle(); f != nil {
		return false, j.fail(f)
	}
	r.posts[m.index] = *p
	m.here = true
	r.arrived++
	if r.arrived < len(r.ranks) {
		return false, nil
	}
	r.arrived = 0
	for _, o := range r.members {
		o.here = false
	}
	return true, nil
}

// obstacle returns the reason why no operation can start, or nil. The caller holds
// job.mu.
func (r *rendezvous) obstacle() *failure {
	if r.job.first != nil {
		return r.job.first
	}
	for i, rank := range r.ranks {
		if r.job.closed[rank] {
			return gone(rank)
		}
		if r.closed[i] {
			return goneFrom(rank, r.whole)
		}
	}
	return nil
}

// begin waits until all members have arrived. It reports whether this member has a share
// of the work to do, returning the failure if the operation has failed.
func (m *member) begin(ctx context.Context, c collective.Call, last bool) (work bool, f *failure) {
	if last {
		m.r.open(m)
	} else if f := m.await(ctx, c); f != nil {
		return false, f
	}
	f = m.r.verdict
	return f == nil && !m.r.alone, f
}

// open compares the claims and wakes the other members. m is the last member to arrive;
// no other member touches the rendezvous until it is woken.
func (r *rendezvous) open(m *member) {
	r.verdict = disagreement(r.ranks, r.claims)
	r.alone = false
	switch {
	case r.verdict != nil:
		r.job.mu.Lock()
		r.job.fail(r.verdict)
		r.job.mu.Unlock()
	case len(r.ranks) == 1 || volume(r.claims) <= aloneBytes:
		r.alone = true
		for i := range r.members {
			shareOf(r.ranks, r.posts, r.claims, i, &m.acc)
		}
	}
	m.wakeOthers()
}

// share does this member's share of the work.
func (m *member) share() { shareOf(m.r.ranks, m.r.posts, m.r.claims, m.index, &m.acc) }

// await waits until the last member has arrived. It returns the job's failure
// if this member had to leave before that, else nil.
func (m *member) await(ctx context.Context, c collective.Call) *failure {
	r, j := m.r, m.r.job
	timeout := false
	rest := j.deadline
	for {
		part, since := min(rest, jaccl.Pause), time.Now()
		m.timer.Reset(part)
		select {
		case <-m.wake:
			m.timer.Stop()
			return nil
		case <-ctx.Done():
		case <-m.timer.C:
			if time.Since(since) <= part+jaccl.Pause { // otherwise the process was stopped meanwhile
				rest -= part
			}
			if timeout = rest <= 0; !timeout {
				continue
			}
		case <-j.down:
		}
		break
	}
	m.timer.Stop()

	j.mu.Lock()
	if !m.here { // the last member has arrived meanwhile and counts on this one
		j.mu.Unlock()
		<-m.wake
		return nil
	}
	defer j.mu.Unlock()
	f := j.first
	switch {
	case f != nil:
	case timeout:
		f = j.fail(r.late(m.rank(), c))
	default:
		f = j.fail(left(ctx, m.rank(), c))
	}
	m.here = false
	r.arrived--
	r.posts[m.index] = post{}
	return f
}

// late returns the failure of the members that have not arrived, on behalf of the waiting
// rank of. It blames these members, or the ranks for which they wait. The caller holds
// job.mu.
func (r *rendezvous) late(of int, c collective.Call) *failure {
	var missing []int
	var where []string
	for i, rank := range r.ranks {
		if !r.members[i].here {
			missing = append(missing, rank)
			where = append(where, r.job.where(rank).Text)
		}
	}
	f := late(missing, where, c, r.ranks, r.job.deadline)
	f.blame = waitedFor(of, missing, r.job.where)
	f.text += further(f.blame, missing, func(rank int) string { return r.job.where(rank).Text })
	return f
}

// where returns the collective in which a rank waits; zero if it waits in none. The
// caller holds mu.
func (j *job) where(rank int) link.Waiting {
	for _, r := range j.groups {
		if i := slices.Index(r.ranks, rank); i >= 0 && r.members[i].here {
			w := link.Waiting{Text: fmt.Sprintf("it waits in %s among ranks %v", r.posts[i].call, r.ranks)}
			for k, m := range r.members {
				if !m.here {
					w.For = append(w.For, r.ranks[k])
				}
			}
			return w
		}
	}
	return link.Waiting{}
}

// done notes that this member has finished its share, reporting whether all members have.
// If not, the last one to finish wakes this member. All members are in the operation, so
// waiting for the wake-up needs no deadline.
func (m *member) done() bool {
	if m.r.busy.Add(-1) > 0 {
		return false
	}
	m.r.busy.Store(int32(len(m.r.ranks)))
	m.wakeOthers()
	return true
}

func (m *member) wakeOthers() {
	for _, o := range m.r.members {
		if o != m {
			o.wake <- struct{}{}
		}
	}
}

// fail poisons the job with f, returning the error of this member.
func (m *member) fail(ctx context.Context, c collective.Call, f *failure) error {
	m.r.job.mu.Lock()
	f = m.r.job.fail(f)
	m.r.job.mu.Unlock()
	return f.seen(ctx, m.rank(), c)
}

// meetPairs runs a pairwise operation: this member and each of the one or two named
// members meet in a rendezvous of that pair, and the rest of the group continues.
func (m *member) meetPairs(ctx context.Context, p post) error {
	if p.to == m.rank() { // then from is this rank as well
		if f := m.own(); f != nil {
			return m.fail(ctx, p.call, f)
		}
		copy(p.dst, p.src)
		return nil
	}
	switch {
	case p.to == none:
		return m.with(p.from).among(ctx, p)
	case p.from == none || p.from == p.to:
		return m.with(p.to).among(ctx, p)
	}
	giving, taking := p, p
	giving.dst, taking.src = nil, nil
	to, from := m.with(p.to), m.with(p.from)

	// A member arrives at both pairs before waiting at either, so that a ring of members
	// does not deadlock. For the same reason it finishes its share of both before waiting
	// for others to finish theirs.
	lastTo, f := to.arrive(&giving)
	arrived := f == nil
	var lastFrom, takes, gives, taken, given bool
	if arrived {
		lastFrom, f = from.arrive(&taking)
	}
	if arrived && f == nil {
		if takes, f = from.begin(ctx, p.call, lastFrom); takes {
			from.share()
			taken = from.done()
		}
	}
	if arrived { // even if the pair with from has failed: the member at to may count on this one
		var g *failure
		if gives, g = to.begin(ctx, p.call, lastTo); gives {
			given = to.done()
		}
		if f == nil {
			f = g
		}
	}
	if gives && !given {
		<-to.wake
	}
	if takes && !taken {
		<-from.wake
	}
	to.r.posts[to.index], from.r.posts[from.index] = post{}, post{}
	if f != nil {
		return f.seen(ctx, m.rank(), p.call)
	}
	return nil
}

// own returns the reason why this member cannot run even an operation with itself alone,
// or nil.
func (m *member) own() *failure {
	j := m.r.job
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.first != nil:
		return j.first
	case j.closed[m.rank()]:
		return gone(m.rank())
	case m.r.closed[m.index]:
		return goneFrom(m.rank(), m.r.ranks)
	}
	return nil
}

// with returns this member in the rendezvous of its pair with another rank of the group.
func (m *member) with(rank int) *member {
	if len(m.r.ranks) == 2 {
		return m
	}
	other := slices.Index(m.r.ranks, rank)
	if m.pairs == nil {
		m.pairs = make([]*member, len(m.r.ranks))
	}
	if m.pairs[other] == nil {
		m.pairs[other] = m.r.pair(m.index, other)
	}
	return m.pairs[other]
}

// pair returns member i in the rendezvous of members i and k.
func (r *rendezvous) pair(i, k int) *member {
	lo, hi := min(i, k), max(i, k)
	r.job.mu.Lock()
	defer r.job.mu.Unlock()
	p := r.pairs[[2]int{lo, hi}]
	if p == nil {
		key := fmt.Sprintf("%s:%d,%d", r.key, lo, hi)
		p = newRendezvous(r.job, key, []int{r.ranks[lo], r.ranks[hi]})
		p.whole = r.ranks
		p.closed[0], p.closed[1] = r.closed[lo], r.closed[hi]
		if r.pairs == nil {
			r.pairs = map[[2]int]*rendezvous{}
		}
		r.pairs[[2]int{lo, hi}] = p
		r.job.groups[key] = p
	}
	if i == lo {
		return p.members[0]
	}
	return p.members[1]
}
