package engine_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
)

// repeated prepares one rank's buffers and returns the operation that is to be repeated.
type repeated func(g jaccl.Group) func(seq int) error

// opening returns the communicators of n ranks of a new job.
type opening func(tb testing.TB, n int) []jaccl.Communicator

func localRanks(tb testing.TB, n int) []jaccl.Communicator {
	comms, err := engine.Local(n, jaccl.Options{Deadline: time.Minute})
	require.NoError(tb, err)
	return comms
}

// repeat runs the operation of every rank times times and returns the first error.
func repeat(tb testing.TB, open opening, ranks, times int, f repeated) {
	tb.Helper()
	comms := open(tb, ranks)
	defer func() {
		for _, c := range comms {
			c.Close()
		}
	}()
	all := make([]int, ranks)
	for i := range all {
		all[i] = i
	}
	steps := make([]func(int) error, ranks)
	for i, c := range comms {
		g, err := c.Among(all)
		require.NoError(tb, err)
		steps[i] = f(g)
	}
	if b, ok := tb.(*testing.B); ok {
		b.ReportAllocs()
		b.ResetTimer()
	}
	var wg sync.WaitGroup
	for _, step := range steps {
		wg.Go(func() {
			for seq := range times {
				if err := step(seq); err != nil {
					tb.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func summing(tb testing.TB, n int, d graph.DType) repeated {
	return func(g jaccl.Group) func(int) error {
		dst, src, ctx := make([]byte, n), make([]byte, n), tb.Context()
		return func(seq int) error {
			return g.AllSum(ctx, collective.Call{Op: "all_sum", Seq: seq, DType: d}, dst, src)
		}
	}
}

// exchanging sends n bytes from every member, its own part included.
func exchanging(tb testing.TB, n int) repeated {
	return func(g jaccl.Group) func(int) error {
		parts := func() [][]byte {
			p := make([][]byte, g.Size())
			for i := range p {
				p[i] = make([]byte, n/g.Size())
			}
			return p
		}
		dst, src, ctx := parts(), parts(), tb.Context()
		return func(seq int) error {
			return g.AllToAll(ctx, collective.Call{Op: "all_to_all", Seq: seq}, dst, src)
		}
	}
}

var sizes = []struct {
	name  string
	bytes int
}{{"1KiB", 1 << 10}, {"1MiB", 1 << 20}}

func BenchmarkAllSum(b *testing.B) {
	for _, d := range []graph.DType{graph.F32, graph.BF16, graph.F16} {
		for _, s := range sizes {
			b.Run(fmt.Sprintf("%s/%s/4ranks", d, s.name), func(b *testing.B) {
				b.SetBytes(int64(s.bytes))
				repeat(b, localRanks, 4, b.N, summing(b, s.bytes, d))
			})
		}
	}
}

func BenchmarkAllToAll(b *testing.B) {
	for _, s := range sizes {
		b.Run(s.name+"/4ranks", func(b *testing.B) {
			b.SetBytes(int64(s.bytes))
			repeat(b, localRanks, 4, b.N, exchanging(b, s.bytes))
		})
	}
}

// passing has every member send n bytes to the next one and receive n from the one before.
func passing(tb testing.TB, n int) repeated {
	return func(g jaccl.Group) func(int) error {
		dst, src, ctx := make([]byte, n), make([]byte, n), tb.Context()
		to, from := (g.Rank()+1)%g.Size(), (g.Rank()+g.Size()-1)%g.Size()
		return func(seq int) error {
			return g.SendRecv(ctx, collective.Call{Op: "send_recv", Seq: seq}, to, src, from, dst)
		}
	}
}

func broadcasting(tb testing.TB, n int) repeated {
	return func(g jaccl.Group) func(int) error {
		buf, ctx := make([]byte, n), tb.Context()
		return func(seq int) error {
			return g.Broadcast(ctx, collective.Call{Op: "broadcast", Seq: seq, Pos: graph.Pos{File: "/src/moe.go"}}, seq%g.Size(), buf)
		}
	}
}

// sharing is summing with buffers in memory that all ranks see, if there is such memory.
func sharing(tb testing.TB, comms []jaccl.Communicator, n int) repeated {
	return func(g jaccl.Group) func(int) error {
		b, err := comms[g.Rank()].(jaccl.Memory).Alloc(n)
		require.NoError(tb, err)
		ctx := tb.Context()
		return func(seq int) error {
			return g.AllSum(ctx, collective.Call{Op: "all_sum", Seq: seq, DType: graph.F32}, b, b)
		}
	}
}

// TestAllocations: many operations allocate no more memory than a few.
func TestAllocations(t *testing.T) {
	for transport, open := range map[string]opening{"local": localRanks, "link": connected} {
		for name, f := range map[string]repeated{
			"small sum":       summing(t, 1<<10, graph.F32),
			"large sum":       summing(t, 64<<10, graph.BF16),
			"small exchange":  exchanging(t, 1<<10),
			"large exchange":  exchanging(t, 64<<10),
			"pass on":         passing(t, 1<<10),
			"broadcast":       broadcasting(t, 1<<10),
			"large broadcast": broadcasting(t, 64<<10),
		} {
			allocations(t, transport+": "+name, open, f)
		}
	}
	var comms []jaccl.Communicator
	allocations(t, "shared: sum", func(tb testing.TB, n int) []jaccl.Communicator {
		comms = jaccltest.Connect(tb, jaccltest.SharedLinks(n), time.Minute)
		return comms
	}, func(g jaccl.Group) func(int) error { return sharing(t, comms, 64<<10)(g) })
}

func allocations(t *testing.T, name string, open opening, f repeated) {
	few := testing.AllocsPerRun(2, func() { repeat(t, open, 3, 10, f) })
	many := testing.AllocsPerRun(2, func() { repeat(t, open, 3, 510, f) })
	if many > few+100 {
		t.Errorf("%s: 510 operations make %v allocations where 10 make %v, want as many", name, many, few)
	}
}
