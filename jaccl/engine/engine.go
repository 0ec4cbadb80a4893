package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/internal/reduce"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/link"
)

// Connect returns this rank's communicator of a job. The link l carries the job's data,
// and watch tells ranks of failures. Every operation consists of exchanges of the link;
// the results are the same as with Local, bit for bit. If there is no error, the
// communicator owns l and watch and closes them with itself.
//
// An operation fails when no byte of it has moved for the deadline, when its context
// ends, when a peer's connection ends, and when watch knows of a failure of any rank,
// whether that rank takes part or not. Every rank learns of the first failure, and all
// later operations fail with it. The errors are of type *jaccl.Error.
//
// A rank runs one operation at a time, in all groups together.
func Connect(l link.Link, watch link.Watch, opts jaccl.Options) (jaccl.Communicator, error) {
	deadline, err := opts.Wait()
	if err != nil {
		return nil, fmt.Errorf("jaccl: connect: %w", err)
	}
	if l == nil || watch == nil {
		return nil, errors.New("jaccl: connect: no link or no watch, want both")
	}
	if n := l.Size(); n < 1 || l.Rank() < 0 || l.Rank() >= n {
		return nil, fmt.Errorf("jaccl: connect: rank %d of %d on %s, want 0 to %d", l.Rank(), n, l.Transport(), n-1)
	}
	e := &engine{link: l, watch: watch, rank: l.Rank(), deadline: deadline, sizes: sizes{smallBytes, stageBytes},
		groups: map[string]*linkGroup{}, closes: map[string]int{},
		wake: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{})}
	e.shared, _ = l.(link.Shared)
	e.lender, _ = l.(link.Lender)
	if e.shared == nil {
		e.room.lender = e.lender // ranks sharing memory move data through that memory, and need no lease
	}
	watch.Answer(func() link.Waiting { return e.at.answer(e.rank) })
	watch.Hear(e.partings.hear)
	e.ctx, e.interrupt = context.WithCancelCause(context.Background())
	go e.supervise()
	return e, nil
}

// engine is one rank's communicator over a link.
type engine struct {
	link     link.Link
	shared   link.Shared // the link, if its ranks share memory; else nil
	lender   link.Lender // the link, if it has memory to lend; else nil
	watch    link.Watch
	rank     int
	deadline time.Duration
	sizes

	inUse atomic.Bool // a collective is in progress
	works sync.Mutex  // held by a collective while using the link
	acc   reduce.Accumulator
	room  staging
	at    place // the operation in progress on this rank, for other ranks

	partings partings // groups that ranks have closed

	// ctx is the context of all exchanges. It ends with the first failure stopping an
	// exchange, or with Close.
	ctx       context.Context
	interrupt context.CancelCauseFunc
	wake      chan struct{} // wakes the supervisor while waiting for an operation
	quit      chan struct{} // closed by Close
	ended     chan struct{} // closed when the supervisor has ended

	mu     sync.Mutex // guards the following fields
	op     underWay
	first  *failure // the job's failure, as this rank knows it; nil if none is known
	closed bool
	groups map[string]*linkGroup // by key
	closes map[string]int        // by the ranks of a group: the number of times this rank has closed it
}

var _ jaccl.Communicator = (*engine)(nil)

func (e *engine) Rank() int { return e.rank }
func (e *engine) Size() int { return e.link.Size() }

// World implements jaccl.Communicator.
func (e *engine) World() jaccl.Group {
	e.mu.Lock()
	defer e.mu.Unlock()
	ranks := everyone(e.Size())
	return e.group(groupKey(ranks, e.closes), ranks)
}

// Group implements collective.Communicator. The same ranks in another order are
// another group. Calls with equal ranks return the same group.
func (e *engine) Group(ranks []int) (collective.Group, error) { return plain(e.Among(ranks)) }

// Among implements jaccl.Communicator.
func (e *engine) Among(ranks []int) (jaccl.Group, error) {
	if err := members(ranks, e.rank, e.Size()); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, fmt.Errorf("jaccl: group %v: rank %d: %w", ranks, e.rank, jaccl.ErrClosed)
	}
	return e.group(groupKey(ranks, e.closes), ranks), nil
}

// group returns the group with that key, making it if it does not exist. The caller holds
// mu.
func (e *engine) group(key string, ranks []int) *linkGroup {
	g := e.groups[key]
	if g == nil {
		g = newLinkGroup(e, key, slices.Clone(ranks))
		e.groups[key] = g
	}
	return g
}

// Fail implements collective.Communicator. It does not block. Only the first failure of a
// job counts.
func (e *engine) Fail(cause error) { e.fail(failed(e.rank, cause), collective.Call{}) }

// Close implements collective.Communicator. Peers that wait for this rank, now or later,
// get an error; groups without this rank continue. An operation of this rank that is in
// progress returns an error.
func (e *engine) Close() error {
	e.mu.Lock()
	was := e.closed
	e.closed = true
	e.mu.Unlock()
	if was {
		<-e.ended
		return nil
	}
	e.watch.Leave()
	e.interrupt(jaccl.ErrClosed)
	close(e.quit)
	e.works.Lock() // an operation may still work on the link's memory
	defer e.works.Unlock()
	err := errors.Join(e.link.Close(), e.room.close())
	<-e.ended
	return errors.Join(err, e.watch.Close())
}

// hash returns the number that identifies a group's key in heads.
func hash(key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	return h.Sum64()
}

// members returns an error unless ranks are distinct ranks of a job of size ranks,
// including rank, the caller.
func members(ranks []int, rank, size int) error {
	seen := make([]bool, size)
	for _, r := range ranks {
		if r < 0 || r >= size {
			return fmt.Errorf("jaccl: group %v: rank %d is not in the job, want 0 to %d", ranks, r, size-1)
		}
		if seen[r] {
			return fmt.Errorf("jaccl: group %v: rank %d twice, want every rank once", ranks, r)
		}
		seen[r] = true
	}
	if !slices.Contains(ranks, rank) {
		return fmt.Errorf("jaccl: group %v: rank %d asks for a group that it is not in, want only members to", ranks, rank)
	}
	return nil
}

func everyone(size int) []int {
	ranks := make([]int, size)
	for i := range ranks {
		ranks[i] = i
	}
	return ranks
}

// groupKey returns the key of a group, which is equal on all members and differs between
// the groups of a job. closes has, by the ranks of a group, the number of times that the
// caller's rank has closed it: after a Close the same ranks form a new group, once all
// members have closed the earlier groups of these ranks equally often.
func groupKey(ranks []int, closes map[string]int) string {
	key := fmt.Sprint(ranks)
	return fmt.Sprintf("%s#%d", key, closes[key])
}

// splitKey returns the key of the group formed by the members with a color in the n-th
// split of a group.
func splitKey(parent string, n, color int) string {
	return fmt.Sprintf("%s/%d:%d", parent, n, color)
}

// plain returns g as a collective.Group. On error it returns a nil interface, not an
// interface holding a nil pointer.
func plain(g jaccl.Group, err error) (collective.Group, error) {
	if err != nil {
		return nil, err
	}
	return g, nil
}

// tick is the interval at which the supervisor checks an operation in progress. An
// operation may end this much later than its deadline, or later than its context if no
// operation before it had the same context.
const tick = 10 * time.Millisecond

// errLate is the supervisor's cause for ending an exchange making no progress.
var errLate = errors.New("jaccl: no progress")

// underWay is the operation in progress. An operation takes microseconds, so neither its
// start nor its end allocates memory, sets a timer or, mostly, wakes a goroutine.
type underWay struct {
	ctx  context.Context // the caller's; nil if no operation is in progress
	g    *linkGroup      // the operation's group
	pair [2]int          // the ranks needed by a pairwise operation
	two  bool            // the operation is pairwise: it needs only the ranks in pair
	x    *link.Exchange  // the exchange in progress, or the last one; nil before the first
	turn uint64          // counts operations and exchanges
	idle bool            // the supervisor waits for wake
}

// begin puts the operation p of group g under supervision, until finish.
func (e *engine) begin(ctx context.Context, g *linkGroup, p *post) {
	e.mu.Lock()
	g.count(p)
	e.op.ctx, e.op.g, e.op.pair, e.op.two = ctx, g, [2]int{p.to, p.from}, pairwise(p.call.Op)
	e.op.turn++
	idle := e.op.idle
	e.op.idle = false
	e.mu.Unlock()
	if idle {
		e.wake <- struct{}{} // does not block: the supervisor takes one wake-up each time it is idle
	}
}

// finish ends the supervision started by begin.
func (e *engine) finish() {
	e.mu.Lock()
	e.op.ctx, e.op.g, e.op.x = nil, nil, nil
	e.mu.Unlock()
}

// exchange runs one exchange of the operation in progress.
func (e *engine) exchange(x *link.Exchange) error {
	e.mu.Lock()
	e.op.x = x
	e.op.turn++
	e.mu.Unlock()
	return e.link.Exchange(e.ctx, x)
}

// supervise ends the operation in progress when its context ends, when making no progress
// for the deadline, and when a failure is known. It runs until Close.
func (e *engine) supervise() {
	defer close(e.ended)
	timer := time.NewTimer(tick)
	timer.Stop()
	var turn uint64
	var moved int64
	var since, last time.Time // of the last progress, and of the last check
	for {
		e.mu.Lock()
		op := e.op
		e.op.idle = op.ctx == nil
		e.mu.Unlock()
		if op.ctx == nil {
			select {
			case <-e.wake:
			case <-e.quit:
				return
			}
			continue
		}
		now, m := time.Now(), int64(0)
		if slept := now.Sub(last); slept > jaccl.Pause {
			since = since.Add(slept)
		}
		last = now
		if op.x != nil {
			m = op.x.Moved()
		}
		if op.turn != turn || m != moved || since.IsZero() {
			turn, moved, since = op.turn, m, now
		}
		if f := e.deserted(); f != nil {
			e.interrupt(f)
			<-e.quit
			return
		}
		rest := e.deadline - now.Sub(since)
		if rest <= 0 {
			e.interrupt(errLate)
			<-e.quit
			return
		}
		timer.Reset(min(tick, rest))
		select {
		case <-timer.C:
		case <-op.ctx.Done():
			timer.Stop()
			e.mu.Lock()
			if e.op.ctx == op.ctx { // otherwise the operation has ended, and no later one can begin with this context
				e.interrupt(context.Cause(op.ctx))
			}
			e.mu.Unlock()
			timer.Reset(tick)
			<-timer.C
		case <-e.watch.Down():
			e.interrupt(errDown)
			<-e.quit
			return
		case <-e.quit:
			return
		}
	}
}

// errDown is the supervisor's cause for ending an exchange when the watch knows of a
// failure.
var errDown = errors.New("jaccl: a rank has failed")
