//go:build linux || darwin

package shm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/jaccl/link"
)

// quiet is the watch of ranks that do not tell each other of failures.
type quiet struct{ down chan struct{} }

func (quiet) Host(rank int) string                   { return fmt.Sprintf("host%d", rank) }
func (quiet) Announce(link.Notice)                   {}
func (quiet) Tell(int, link.Parting)                 {}
func (quiet) Hear(func(int, link.Parting))           {}
func (quiet) Answer(func() link.Waiting)             {}
func (quiet) Ask(time.Duration) map[int]link.Waiting { return nil }
func (q quiet) Down() <-chan struct{}                { return q.down }
func (quiet) First() (link.Notice, bool)             { return link.Notice{}, false }
func (quiet) Leave()                                 {}
func (quiet) Left(int) bool                          { return false }
func (quiet) Close() error                           { return nil }

// operation is a collective of one rank, on buffers of its own.
type operation struct {
	comm jaccl.Communicator
	run  func() error
	dst  []byte
}

// newOperation returns an "all_sum" of size bytes or an "all_to_all" of size bytes in all,
// with buffers in the arena or in private memory.
func newOperation(site link.Site, op, how string, size int) (*operation, error) {
	l, err := Connect(context.Background(), site, Options{})
	if err != nil {
		return nil, err
	}
	alloc := func(n int) []byte { return make([]byte, n) }
	if how == "arena" {
		alloc = func(n int) []byte {
			b, err := l.(link.Shared).Alloc(n)
			if err != nil {
				panic(err)
			}
			return b
		}
	}
	src, dst := alloc(size), alloc(size)
	for i := 0; i+4 <= size; i += 4 {
		binary.LittleEndian.PutUint32(src[i:], math.Float32bits(float32(i/4%1000*(site.Rank()+1))))
	}
	c := &operation{dst: dst}
	if c.comm, err = engine.Connect(l, quiet{}, jaccl.Options{}); err != nil {
		return nil, err
	}
	g, n := c.comm.World(), site.Size()
	call := collective.Call{Op: op, DType: graph.F32, Bytes: int64(size)}
	if op == "all_sum" {
		c.run = func() error { return g.AllSum(context.Background(), call, dst, src) }
		return c, nil
	}
	var srcs, dsts [][]byte
	for i := range n {
		srcs, dsts = append(srcs, src[size/n*i:][:size/n]), append(dsts, dst[size/n*i:][:size/n])
	}
	c.run = func() error { return g.AllToAll(context.Background(), call, dsts, srcs) }
	return c, nil
}

// collect runs a collective until rank 0 has had enough.
func collect(site link.Site, args []string) error {
	size, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	c, err := newOperation(site, args[0], args[1], size)
	if err != nil {
		return err
	}
	for err == nil {
		err = c.run()
	}
	if !errors.Is(err, jaccl.ErrClosed) && !errors.Is(err, jaccl.ErrLost) {
		return err
	}
	return c.comm.Close()
}

// Collectives of processes, on memory of either kind, have the right results.
func TestCollectives(t *testing.T) {
	for _, op := range []string{"all_sum", "all_to_all"} {
		for _, how := range []string{"private", "arena"} {
			t.Run(op+"/"+how, func(t *testing.T) {
				const n, size = 3, 3 * 400_000
				_, sites := processes(t, n, 1, nil, "collect", op, how, fmt.Sprint(size))
				c, err := newOperation(sites[0], op, how, size)
				require.NoError(t, err)
				for range 20 {
					clear(c.dst)
					require.NoError(t, c.run())
					for i := 0; i < size/4; i++ {
						want := i % 1000 * 6    // 1 + 2 + 3
						if op == "all_to_all" { // part 0 of every rank
							rank := i / (size / 4 / n)
							want = i % (size / 4 / n) % 1000 * (rank + 1)
						}
						if got := math.Float32frombits(binary.LittleEndian.Uint32(c.dst[4*i:])); got != float32(want) {
							t.Fatalf("element %d is %v, want %d", i, got, want)
						}
					}
				}
				require.NoError(t, c.comm.Close())
			})
		}
	}
}

// BenchmarkCollective runs collectives. Each rank is a process of its own. Sizes are
// those of the whole vector, or of all that a rank sends, also to itself.
func BenchmarkCollective(b *testing.B) {
	for _, n := range []int{2, 4} {
		for _, op := range []string{"all_sum", "all_to_all"} {
			for _, how := range []string{"private", "arena"} {
				for _, size := range []int{4 << 10, 64 << 10, 1 << 20, 16 << 20} {
					b.Run(fmt.Sprintf("ranks=%d/%s/%s/%d", n, op, how, size), func(b *testing.B) {
						_, sites := processes(b, n, 1, nil, "collect", op, how, fmt.Sprint(size))
						c, err := newOperation(sites[0], op, how, size)
						require.NoError(b, err)
						for range 3 {
							require.NoError(b, c.run())
						}
						const row = 8
						best, start, i := time.Hour, time.Now(), 0
						for b.Loop() {
							require.NoError(b, c.run())
							if i++; i%row == 0 {
								now := time.Now()
								best, start = min(best, now.Sub(start)), now
							}
						}
						b.ReportMetric(float64(best)/1e3/row, "best-µs")
						require.NoError(b, c.comm.Close())
					})
				}
			}
		}
	}
}
