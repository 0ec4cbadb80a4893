//go:build !race

package verbs

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/rdma/rdmatest"
)

// The race detector makes pools forget, of which purego has one for its calls.

// An exchange allocates nothing once its buffers are there.
func TestExchangeAllocations(t *testing.T) {
	links := linked(t, 2, "")
	ctx := rdmatest.Within(t, 3*time.Minute)
	const rounds = 200
	var before, after runtime.MemStats
	var gate [2]sync.WaitGroup
	for i := range gate {
		gate[i].Add(2)
	}
	errs := together(links, func(rank int, l link.Link) error {
		b := make([]byte, 10000)
		x := &link.Exchange{Peers: []int{1 - rank}, Head: b[:100], Heads: func([][]byte) error { return nil }, Send: [][][]byte{{b[:5000]}}, Recv: [][][]byte{{b[5000:]}}}
		once := func() error { return l.Exchange(ctx, x) }
		if err := once(); err != nil {
			return err
		}
		gate[0].Done()
		gate[0].Wait()
		if rank == 0 {
			runtime.ReadMemStats(&before)
		}
		for range rounds {
			if err := once(); err != nil {
				return err
			}
		}
		gate[1].Done()
		gate[1].Wait()
		if rank == 0 {
			runtime.ReadMemStats(&after)
		}
		return nil
	})
	require.NoError(t, errors.Join(errs...))
	if n := after.Mallocs - before.Mallocs; n > rounds {
		t.Errorf("%d allocations in %d exchanges of two ranks, want next to none", n, rounds)
	}
}
