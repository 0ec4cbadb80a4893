package mesh

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/reduce"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/rdma"
	"github.com/gomoe/gomoe/jaccl/rdma/rdmatest"
)

// A rank that sends all of an array to every rank, as MLX before 0.32.1 does, and one that
// takes no part in the check: no rank connects, and every rank says which version it wants.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		odd  func(ctx context.Context, g *group) error
		want string // of rank 0 or 1
	}{
		{"sends all", func(ctx context.Context, g *group) error {
			b := make([]byte, 4*checkCount)
			return g.run(ctx, collective.Call{Op: "all_sum"}, nil, func(o *operation) error {
				return o.drive(ctx, []step{g.wires[0].reduceAll(reduce.Sum, graph.F32, b, b)})
			})
		}, " of the sum is "},
		{"stays away", func(ctx context.Context, g *group) error { <-ctx.Done(); return nil }, "nothing has moved for 500ms in all_sum"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const n = 3
			lib, address := rdmatest.Standin(t, ""), rdmatest.FreeAddress(t)
			ctx, cancel := context.WithCancel(rdmatest.Within(t, 3*time.Minute))
			defer cancel()
			errs := make([]error, n)
			var checked, odd sync.WaitGroup
			for r := range n {
				wg := &checked
				if r == 2 {
					wg = &odd
				}
				o := Options{Settings: rdma.Settings{Library: lib}, Rank: r, Devices: rdmatest.Mesh(n), Coordinator: address, Unchecked: r == 2, Deadline: 500 * time.Millisecond}
				wg.Go(func() {
					comm, err := Connect(ctx, o)
					if errs[r] = err; err != nil {
						return
					}
					defer comm.Close()
					if r == 2 {
						c.odd(ctx, comm.World().(*group))
					}
				})
			}
			checked.Wait()
			cancel()
			odd.Wait()
			require.NoError(t, errs[2])
			for r, err := range errs[:2] {
				rdmatest.Contains(t, err, "protocol of MLX 0.32.4", "mx.arange(600000, dtype=mx.float32)", fmt.Sprintf("rank %d", r))
			}
			rdmatest.Contains(t, errors.Join(errs...), c.want)
		})
	}
}

// What the check takes of Connect.
func BenchmarkCheck(b *testing.B) {
	const n = 3
	lib, ctx := rdmatest.Standin(b, ""), context.Background()
	comms := make([]jaccl.Communicator, n)
	each := func(f func(r int)) {
		var wg sync.WaitGroup
		for r := range n {
			wg.Go(func() { f(r) })
		}
		wg.Wait()
	}
	address := rdmatest.FreeAddress(b)
	each(func(r int) {
		var err error
		if comms[r], err = Connect(ctx, Options{Settings: rdma.Settings{Library: lib}, Rank: r, Devices: rdmatest.Mesh(n), Coordinator: address, Unchecked: true}); err != nil {
			b.Error(err)
		}
	})
	b.ResetTimer()
	for range b.N {
		each(func(r int) {
			if err := comms[r].(*comm).check(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	b.StopTimer()
	each(func(r int) { comms[r].Close() })
}
