package engine_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
)

func connected(t testing.TB, n int) []jaccl.Communicator {
	return jaccltest.Connect(t, jaccltest.Links(n), time.Minute)
}

func TestConnect(t *testing.T) {
	jaccltest.Conformance(t, func(t *testing.T, n int) []jaccl.Communicator { return connected(t, n) })
}

func TestConnectShared(t *testing.T) {
	jaccltest.Conformance(t, func(t *testing.T, n int) []jaccl.Communicator {
		return jaccltest.Connect(t, jaccltest.SharedLinks(n), time.Minute)
	})
}

// Operations in many pieces, the last of which may be short or empty, have the same results
// as operations in one piece.
func TestConnectPieces(t *testing.T) {
	for _, n := range []int{2, 3, 5} {
		for _, stage := range []int{2000, 40000} {
			comms := connected(t, n)
			var wg sync.WaitGroup
			for _, c := range comms {
				engine.SetSizes(c, 0, stage)
				wg.Go(func() {
					if err := jaccltest.PlayRank(t.Context(), c, uint64(100*n+stage)); err != nil {
						c.Fail(err)
						t.Errorf("%d ranks, %d bytes at a time: rank %d: %v", n, stage, c.Rank(), err)
					}
				})
			}
			wg.Wait()
			for _, c := range comms {
				require.NoError(t, c.Close())
			}
		}
	}
}

// A group over a link outlives the steps that use it and must not keep their buffers
// alive, whether an operation succeeded or not.
func TestConnectLetsBuffersGo(t *testing.T) {
	for name, comms := range map[string][]jaccl.Communicator{
		"link":   connected(t, 2),
		"shared": jaccltest.Connect(t, jaccltest.SharedLinks(2), time.Minute),
	} {
		var wg sync.WaitGroup
		for _, c := range comms {
			wg.Go(func() {
				g := c.World()
				check := func(op string, err error, fails bool) {
					if (err != nil) != fails {
						t.Errorf("%s: %s: %v", name, op, err)
					}
					if engine.Kept(g) {
						t.Errorf("%s: rank %d keeps buffers after %s", name, c.Rank(), op)
					}
				}
				b := make([]byte, 100000)
				if m, err := c.(jaccl.Memory).Alloc(len(b)); err == nil {
					b = m
				}
				other := 1 - c.Rank()
				check("all_sum", g.AllSum(t.Context(), call("all_sum", 0), b, b), false)
				check("send_recv", g.SendRecv(t.Context(), call("send_recv", 1), other, b[:8], other, b[8:16]), false)
				check("all_gather_v", g.AllGatherV(t.Context(), call("all_gather_v", 2+other), [][]byte{b[:20000], b[40000:60000]}, b[80000:]), true)
			})
		}
		wg.Wait()
		for _, c := range comms {
			require.NoError(t, c.Close())
		}
	}
}
