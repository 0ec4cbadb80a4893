package engine

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl/link"
)

// place is the current operation of this rank. Its lock is taken last, because the watch
// may hold its own locks when asking for the place.
type place struct {
	mu   sync.Mutex
	call collective.Call
	with []int  // ranks of the group; nil if the rank is in no operation
	pair [2]int // the ranks of a pairwise operation, or none
	two  bool   // the operation is pairwise: it needs only the ranks in pair
}

func (w *place) enter(p *post, ranks []int) {
	w.mu.Lock()
	w.call, w.with, w.pair, w.two = p.call, ranks, [2]int{p.to, p.from}, pairwise(p.call.Op)
	w.mu.Unlock()
}

func (w *place) leave() {
	w.mu.Lock()
	w.with = nil
	w.mu.Unlock()
}

// answer returns this rank's whereabouts for other ranks. of is this rank.
func (w *place) answer(of int) link.Waiting {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.with == nil {
		return link.Waiting{}
	}
	a := link.Waiting{Text: fmt.Sprintf("it waits in %s among ranks %v", w.call, w.with)}
	a.Text = a.Text[:min(len(a.Text), link.MaxWaiting)]
	candidates := w.with
	if w.two {
		candidates = w.pair[:]
	}
	for _, r := range candidates {
		if r != of && r != none && !slices.Contains(a.For, r) {
			a.For = append(a.For, r)
		}
	}
	return a
}

// blamed asks all ranks for their whereabouts, returning the ranks to blame. This rank
// waits for the suspects. The suspects that do not answer, or are in no operation, are to
// blame. If every suspect waits in an operation, blamed continues with the ranks for
// which the suspects wait, and so on; if all of these wait, the suspects are to blame.
// known describes a rank's answer; it returns "" for a rank that is in no operation.
func (e *engine) blamed(suspects []int) (blame []int, known func(rank int) string) {
	at := e.watch.Ask(grace)
	known = func(rank int) string {
		switch a, answered := at[rank]; {
		case !answered && e.watch.Left(rank):
			return "it has left"
		case !answered:
			return "it does not answer"
		default:
			return a.Text
		}
	}
	return waitedFor(e.rank, suspects, func(r int) link.Waiting { return at[r] }), known
}

// waitedFor returns the ranks to blame, as in blamed. rank waits for the suspects; at
// returns the operation in which a rank waits.
func waitedFor(rank int, suspects []int, at func(rank int) link.Waiting) (blame []int) {
	seen := map[int]bool{rank: true}
	for next := suspects; len(next) > 0 && len(blame) == 0; {
		var further []int
		for _, r := range next {
			if seen[r] {
				continue
			}
			seen[r] = true
			if a := at(r); a.Text != "" {
				further = append(further, a.For...)
			} else {
				blame = append(blame, r)
			}
		}
		next = further
	}
	if len(blame) == 0 {
		return suspects
	}
	slices.Sort(blame)
	return blame
}

// further describes the ranks to blame that are not among the suspects.
func further(blame, suspects []int, known func(rank int) string) string {
	text := ""
	for _, r := range blame {
		if !slices.Contains(suspects, r) {
			text += fmt.Sprintf("; rank %d is waited for: %s", r, cmp.Or(known(r), "it is in no operation"))
		}
	}
	return text
}

// maxPartings is the largest number of groups in a partings. Messages about further
// groups are ignored, so that no rank can use up this rank's memory.
const maxPartings = 1 << 16

// partings are the groups that ranks have closed. Its lock, like the lock of place, is
// taken last: a goroutine holding it takes no other lock.
type partings struct {
	some atomic.Bool // of is not empty
	mu   sync.Mutex
	of   map[uint64]*parted
}

// parted is the state of a group until all of its members have closed it.
type parted struct {
	begun   map[int]uint64 // by rank that has closed the group: Begun of its Parting
	waiting int            // number of other members, if this rank has closed the group; else -1
}

// group returns the state of a group, making an entry if there is none; nil if there are
// too many. The caller holds mu.
func (p *partings) group(id uint64) *parted {
	g := p.of[id]
	if g == nil && len(p.of) < maxPartings {
		if p.of == nil {
			p.of = map[uint64]*parted{}
		}
		g = &parted{begun: map[int]uint64{}, waiting: -1}
		p.of[id] = g
		p.some.Store(true)
	}
	return g
}

// settle forgets a group that all members have closed. The caller holds mu.
func (p *partings) settle(id uint64) {
	if g := p.of[id]; g.waiting >= 0 && len(g.begun) >= g.waiting {
		delete(p.of, id)
		p.some.Store(len(p.of) > 0)
	}
}

// hear notes that rank from has closed a group.
func (p *partings) hear(from int, a link.Parting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g := p.group(a.Group); g != nil {
		g.begun[from] = a.Begun
		p.settle(a.Group)
	}
}

// close notes that this rank has closed a group with the given number of other members.
func (p *partings) close(id uint64, others int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g := p.group(id); g != nil {
		g.waiting = others
		p.settle(id)
	}
}

// gone reports whether rank has closed the group before its n-th operation with this
// rank, counted from 1.
func (p *partings) gone(id uint64, rank int, n uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.of[id]
	if g == nil {
		return false
	}
	begun, closed := g.begun[rank]
	return closed && begun < n
}

// begun counts the operations of a group that this rank has begun with each member.
// The engine's lock guards it.
type begun struct {
	all   uint64   // operations of all members
	pairs []uint64 // pairwise operations, by member
}

// with returns the number of operations that this rank has begun with member i.
func (b *begun) with(i int) uint64 { return b.all + b.pairs[i] }

// count counts the operation p, which is about to begin.
func (g *linkGroup) count(p *post) {
	if !pairwise(p.call.Op) {
		g.begun.all++
		return
	}
	for i, rank := range g.ranks {
		if rank == p.to || rank == p.from {
			g.begun.pairs[i]++
		}
	}
}

// deserted returns a failure if a member that the operation in progress needs has closed
// the group, else nil.
func (e *engine) deserted() *failure {
	if !e.partings.some.Load() {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	g := e.op.g
	if g == nil {
		return nil
	}
	for i, rank := range g.ranks {
		needed := rank != e.rank && (!e.op.two || rank == e.op.pair[0] || rank == e.op.pair[1])
		if needed && e.partings.gone(g.id, rank, g.begun.with(i)) {
			return goneFrom(rank, g.ranks)
		}
	}
	return nil
}
