package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/link"
)

// lending is a link that lends memory and counts the leases.
type lending struct {
	link.Link
	refuses      bool
	lent, leases atomic.Int64
}

func (l *lending) Lease(n int) ([]byte, func() error, error) {
	if l.refuses {
		return nil, nil, errors.New("nothing is left")
	}
	l.lent.Add(int64(n))
	l.leases.Add(1)
	return make([]byte, n), func() error {
		l.lent.Add(int64(-n))
		return nil
	}, nil
}

// A communicator receives data for sums into memory that its link lends, if the link lends
// any, and gives the memory back.
func TestStagingIsLent(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		t.Run(fmt.Sprint(refuses), func(t *testing.T) {
			var links []*lending
			for i, l := range jaccltest.Links(3) {
				links = append(links, &lending{Link: l, refuses: refuses && i == 1})
			}
			comms := jaccltest.Connect(t, links, time.Minute)
			var wg sync.WaitGroup
			for _, c := range comms {
				wg.Go(func() {
					for k, n := range []int{8, 1000, 5000, 4000, 3 << 20, 64} {
						src := bytes.Repeat([]byte{byte(1 + c.Rank())}, n)
						call := collective.Call{Op: "all_sum", Seq: k, DType: graph.U8, Bytes: int64(n)}
						if err := c.World().AllSum(t.Context(), call, src, src); err != nil {
							t.Errorf("rank %d: %v", c.Rank(), err)
							return
						}
						if bytes.Count(src, []byte{6}) != n {
							t.Errorf("rank %d: the sum of %d bytes is wrong", c.Rank(), n)
						}
					}
				})
			}
			wg.Wait()
			for i, l := range links {
				switch lent, n := l.lent.Load(), l.leases.Load(); {
				case l.refuses && lent+n > 0:
					t.Errorf("rank %d has %d bytes of a link that lends nothing", i, lent)
				case !l.refuses && (lent < 1<<19 || lent > 4<<20 || n > 5):
					t.Errorf("rank %d has %d bytes of its link, the last of %d leases, want room for a step of a sum, in few", i, lent, n)
				}
				require.NoError(t, comms[i].Close())
				require.NoError(t, comms[i].Close())
				if lent := l.lent.Load(); lent != 0 {
					t.Errorf("rank %d has not given back %d bytes", i, lent)
				}
			}
		})
	}
}
