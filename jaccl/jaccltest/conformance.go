package jaccltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/jaccl/link"
)

// Conformance runs the suite for communicators. open returns the communicators of a
// new job of n ranks, by rank, with a deadline that no test of the suite should reach;
// the suite closes them.
func Conformance(t *testing.T, open func(t *testing.T, n int) []jaccl.Communicator) {
	s := suite{open}
	t.Run("Ranks", s.ranks)
	t.Run("Types", s.types)
	t.Run("BackToBack", s.backToBack)
	t.Run("Orders", s.orders)
	t.Run("Mesh", s.mesh)
	t.Run("Disjoint", s.disjoint)
	t.Run("Overlapping", s.overlapping)
	t.Run("LateGroup", s.lateGroup)
	t.Run("BadGroups", s.badGroups)
	t.Run("Large", s.large)
	t.Run("Random", s.random)
	t.Run("Pairs", s.pairs)
	t.Run("Rings", s.rings)
	t.Run("Split", s.split)
	t.Run("CloseGroup", s.closeGroup)
	t.Run("ClosedGroup", s.closedGroup)
	t.Run("DesertedGroup", s.desertedGroup)
	t.Run("CloseEarly", s.closeEarly)
	t.Run("BadArguments", s.badArguments)
	t.Run("Mismatch", s.mismatch)
	t.Run("PairMismatch", s.pairMismatch)
	t.Run("Fail", s.fail)
	t.Run("Cancel", s.cancel)
	t.Run("Close", s.close)
	t.Run("CloseElsewhere", s.closeElsewhere)
}

type suite struct {
	open func(t *testing.T, n int) []jaccl.Communicator
}

// start opens a job of n ranks. At the end of the test it closes every communicator twice, as
// Close allows.
func (s suite) start(t *testing.T, n int) []jaccl.Communicator {
	t.Helper()
	return closedTwice(t, s.open(t, n), n)
}

// closedTwice closes every one of n ranks at the end of the test, and once more.
func closedTwice[C io.Closer](t *testing.T, ranks []C, n int) []C {
	t.Helper()
	require.Len(t, ranks, n)
	t.Cleanup(func() {
		for range 2 {
			for i, c := range ranks {
				if err := c.Close(); err != nil {
					t.Errorf("close of %T of rank %d: %v", c, i, err)
				}
			}
		}
	})
	return ranks
}

// Each runs f for all ranks at the same time, returning the errors by rank.
func Each[C any](ranks []C, f func(C) error) []error {
	errs := make([]error, len(ranks))
	var wg sync.WaitGroup
	for i, c := range ranks {
		wg.Go(func() { errs[i] = f(c) })
	}
	wg.Wait()
	return errs
}

// all is Each for an f that has to succeed. If f fails on a rank, the rank makes the others
// fail, so that they do not wait for it.
func all(t *testing.T, comms []jaccl.Communicator, f func(c jaccl.Communicator) error) {
	t.Helper()
	errs := Each(comms, func(c jaccl.Communicator) error {
		err := f(c)
		if err != nil {
			c.Fail(err)
		}
		return err
	})
	for rank, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

func world(n int) []int {
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i
	}
	return ranks
}

// play runs the trials, in order, in the group of ranks.
func play(c jaccl.Communicator, ranks []int, ts []trial) error {
	g, err := c.Among(ranks)
	if err != nil {
		return err
	}
	a, err := newArena(c, g.Rank(), ts)
	if err != nil {
		return err
	}
	return errors.Join(playOn(background(), c, g, ranks, ts, a), a.close())
}

// playIn is play in the group g, which must be the group of ranks, with buffers in the
// process's own memory.
func playIn(ctx context.Context, c jaccl.Communicator, g jaccl.Group, ranks []int, ts []trial) error {
	return playOn(ctx, c, g, ranks, ts, nil)
}

func playOn(ctx context.Context, c jaccl.Communicator, g jaccl.Group, ranks []int, ts []trial, a *arena) error {
	if g.Size() != len(ranks) || g.Rank() != slices.Index(ranks, c.Rank()) {
		return fmt.Errorf("rank %d is %d of %d in group %v", c.Rank(), g.Rank(), g.Size(), ranks)
	}
	for seq, o := range ts {
		if err := o.run(ctx, g, a.next(o.op, g.Rank()), seq); err != nil {
			return err
		}
	}
	return nil
}

func (s suite) ranks(t *testing.T) {
	for i, c := range s.start(t, 5) {
		if c.Rank() != i || c.Size() != 5 {
			t.Errorf("communicator %d is rank %d of %d, want %d of 5", i, c.Rank(), c.Size(), i)
		}
	}
}

// types runs everything in jobs of 1 to 8 ranks.
func (s suite) types(t *testing.T) {
	for _, n := range sizes() {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			ops := everything()
			ts := trials(n, ops)
			all(t, s.start(t, n), func(c jaccl.Communicator) error { return play(c, world(n), ts) })
		})
	}
}

// everything returns reductions of all element types that can be summed, and operations that
// only move bytes with two element types. Lengths go from nothing to some pages.
func everything() []op {
	var ops []op
	for d := graph.Bool; d <= graph.F64; d++ {
		for i, count := range []int{0, 1, 3, 130, 4099} {
			for _, name := range names {
				o := op{name: name, d: d, count: count, seed: len(ops), skew: i % 2}
				switch {
				case o.reduces() && (d == graph.Bool || d.IsF8()):
				case !o.reduces() && d != graph.Bool && d != graph.I64:
				case o.reduces() && name != "all_sum" && (count == 1 || count == 130):
				default:
					ops = append(ops, o)
					if o.toAll() && count != 3 {
						o.seed, o.inPlace = len(ops), true
						ops = append(ops, o)
					}
				}
			}
		}
	}
	return ops
}

// alternating returns n operations. Neighbours differ in operation, element type and length.
func alternating(n int) []op {
	types := []graph.DType{graph.F32, graph.BF16, graph.U8, graph.F64, graph.I32, graph.F16, graph.I64, graph.U32}
	counts := []int{5, 0, 77, 3000, 1, 16}
	ops := make([]op, n)
	for i := range ops {
		ops[i] = op{name: names[i%len(names)], d: types[i%len(types)], count: counts[i%len(counts)], seed: i, inPlace: i%2 == 0}
	}
	return ops
}

// backToBack runs operations one after another and overwrites src as soon as a call returns:
// an implementation that still reads src, or that mixes two operations up, gives wrong sums.
func (s suite) backToBack(t *testing.T) {
	const n = 4
	ts := trials(n, alternating(400))
	all(t, s.start(t, n), func(c jaccl.Communicator) error { return play(c, world(n), ts) })
}

// orders has groups with members that are not in the order of their ranks.
func (s suite) orders(t *testing.T) {
	groups := [][]int{{3, 1, 0, 2}, {2, 0}, {1, 3}, {3, 2, 1, 0}, {0, 1, 2, 3}, {2}}
	all(t, s.start(t, 4), func(c jaccl.Communicator) error {
		for _, ranks := range groups {
			if slices.Contains(ranks, c.Rank()) {
				if err := play(c, ranks, trials(len(ranks), alternating(20))); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// mesh runs operations along both axes of a (4,2) mesh in turn: in {0,2,4,6} and {1,3,5,7}
// along the first axis, and in {0,1} to {6,7} along the second.
func (s suite) mesh(t *testing.T) {
	four, two := trials(4, alternating(15)), trials(2, alternating(15))
	all(t, s.start(t, 8), func(c jaccl.Communicator) error {
		row, column := c.Rank()/2, c.Rank()%2
		for range 5 {
			if err := play(c, []int{column, 2 + column, 4 + column, 6 + column}, four); err != nil {
				return err
			}
			if err := play(c, []int{2 * row, 2*row + 1}, two); err != nil {
				return err
			}
		}
		return nil
	})
}

// disjoint has two groups without a common rank, which run different numbers of operations.
func (s suite) disjoint(t *testing.T) {
	three, two := trials(3, alternating(200)), trials(2, alternating(70))
	all(t, s.start(t, 5), func(c jaccl.Communicator) error {
		if c.Rank()%2 == 0 {
			return play(c, []int{0, 2, 4}, three)
		}
		return play(c, []int{1, 3}, two)
	})
}

// overlapping has a chain of groups, each sharing one rank with the next.
func (s suite) overlapping(t *testing.T) {
	const n = 6
	all(t, s.start(t, n), func(c jaccl.Communicator) error {
		for first := range n - 1 {
			if c.Rank() == first || c.Rank() == first+1 {
				if err := play(c, []int{first, first + 1}, trials(2, alternating(10))); err != nil {
					return err
				}
			}
		}
		return play(c, world(n), trials(n, alternating(10)))
	})
}

// lateGroup: a member asks for a group while other members already wait in it, and asks
// for it again later.
func (s suite) lateGroup(t *testing.T) {
	all(t, s.start(t, 3), func(c jaccl.Communicator) error {
		for range 100 * c.Rank() {
			runtime.Gosched()
		}
		for range 3 {
			if err := play(c, []int{2, 1, 0}, trials(3, alternating(7))); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s suite) badGroups(t *testing.T) {
	comms := s.start(t, 3)
	for _, ranks := range [][]int{nil, {}, {1}, {1, 2}, {0, 0}, {0, 1, 0}, {0, 3}, {-1, 0}} {
		if g, err := comms[0].Group(ranks); err == nil {
			t.Errorf("rank 0 got %v for the group %v, want an error", g, ranks)
		}
	}
	all(t, comms, func(c jaccl.Communicator) error { return play(c, world(3), trials(3, alternating(5))) })
}

func (s suite) random(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		all(t, s.start(t, n), func(c jaccl.Communicator) error { return PlayRank(background(), c, uint64(n)) })
	}
}

func background() context.Context { return context.Background() }

var errSeeded = errors.New("seeded failure")

// Connect returns the communicators, by rank, of ranks connected by links. Their watches
// come from Watches and lose no rank.
func Connect[L link.Link](t testing.TB, links []L, deadline time.Duration) []jaccl.Communicator {
	watches := Watches(len(links))
	comms := make([]jaccl.Communicator, len(links))
	for i, l := range links {
		var err error
		comms[i], err = engine.Connect(l, watches[i], jaccl.Options{Deadline: deadline})
		require.NoError(t, err)
	}
	return comms
}

// PlayRank runs one rank's part of operations chosen by seed. It checks the results bit
// for bit, returning an error describing the first difference. Every rank of the job
// calls it with the same seed, each in a process of its own, or all in one process. It
// leaves the communicator open and at the same operation as the other ranks.
//
// PlayRank is for transports with ranks that cannot be goroutines of one process, and for
// jobs on several machines: it needs nothing but the communicator.
func PlayRank(ctx context.Context, c jaccl.Communicator, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	n := c.Size()
	ranks := world(n)
	if err := playIn(ctx, c, c.World(), ranks, trials(n, random(rng, 40))); err != nil {
		return fmt.Errorf("seed %d: all ranks: %w", seed, err)
	}
	for range 5 {
		rng.Shuffle(n, func(i, k int) { ranks[i], ranks[k] = ranks[k], ranks[i] })
		members := ranks[:1+rng.IntN(n)]
		ts := random(rng, 12)
		if !slices.Contains(members, c.Rank()) {
			continue
		}
		g, err := c.Among(members)
		if err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		if err := playIn(ctx, c, g, members, trials(len(members), ts)); err != nil {
			return fmt.Errorf("seed %d: ranks %v: %w", seed, members, err)
		}
	}
	for seq, p := range partings(n) {
		ts := random(rng, 6)
		part, members, err := p.apart(c, c.World(), world(n), seq)
		if err == nil && part != nil {
			if err = playIn(ctx, c, part, members, trials(len(members), ts)); err == nil {
				err = part.Close()
			}
		}
		if err != nil {
			return fmt.Errorf("seed %d: split %d: %w", seed, seq, err)
		}
	}
	return playIn(ctx, c, c.World(), world(n), trials(n, []op{{name: "barrier"}}))
}

// random returns operations of any kind, most of them small and a few of some 100 KB.
func random(rng *rand.Rand, count int) []op {
	ops := make([]op, count)
	for i := range ops {
		o := op{name: names[rng.IntN(len(names))], seed: rng.IntN(1000), inPlace: rng.IntN(2) == 0, skew: rng.IntN(9)}
		for o.d = graph.NoDType; o.d == graph.NoDType || o.reduces() && (o.d == graph.Bool || o.d.IsF8()); { // which cannot be summed
			o.d = graph.Bool + graph.DType(rng.IntN(int(graph.F64)))
		}
		if o.count = rng.IntN(1 << rng.IntN(12)); rng.IntN(20) == 0 {
			o.count += 100000 / o.d.Size()
		}
		ops[i] = o
	}
	return ops
}

// WorldConformance runs the part of Conformance that uses only the group of all ranks,
// for a transport without other groups. It runs the operations for which has returns
// true. far is the distance in ranks of a send or send_recv, up to size, and 0 for other
// operations. The inputs are such that sums of floats are exact, because such a transport
// need not add in the order of ranks.
//
// The rest of Conformance needs other groups, or ranks comparing their calls.
func WorldConformance(t *testing.T, open func(t *testing.T, n int) []jaccl.Communicator, has func(name string, d graph.DType, far, size int) bool) {
	s := suite{open}
	run := func(t *testing.T, n int, ops []op) {
		ops = slices.DeleteFunc(ops, func(o op) bool {
			far := 0
			switch o.name {
			case "send_recv":
				far = o.shift(n)
			case "send":
				far = (o.far(n) - o.root(n) + n) % n
			}
			return !has(o.name, o.d, far, n)
		})
		if len(ops) == 0 {
			t.Fatal("there is no operation")
		}
		for i := range ops {
			ops[i].exact = true
		}
		ts := trials(n, ops)
		all(t, s.start(t, n), func(c jaccl.Communicator) error { return playIn(background(), c, c.World(), world(n), ts) })
	}
	t.Run("Ranks", s.ranks)
	t.Run("Types", func(t *testing.T) {
		for _, n := range sizes() {
			t.Run(fmt.Sprint(n), func(t *testing.T) { run(t, n, everything()) })
		}
	})
	t.Run("BackToBack", func(t *testing.T) { run(t, 4, alternating(400)) })
	t.Run("Large", func(t *testing.T) {
		for n, ops := range large() {
			run(t, n, ops)
		}
	})
}
