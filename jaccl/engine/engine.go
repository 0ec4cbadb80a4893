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
	if w, ok := watch.(link.Whereabouts); ok {
		w.Answer(func() link.Waiting { return e.at.answer(e.rank) })
	}
	if w, ok := watch.(link.Partings); ok {
		w.Hear(e.partings.hear)
	}
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
