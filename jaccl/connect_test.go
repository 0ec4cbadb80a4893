package jaccl_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
)

func connected(t testing.TB, n int) []jaccl.Communicator {
	return connect(t, jaccltest.Links(n), time.Minute)
}

func connect[L jaccl.Link](t testing.TB, links []L, deadline time.Duration) []jaccl.Communicator {
	watches := jaccltest.Watches(len(links))
	comms := make([]jaccl.Communicator, len(links))
	for i, l := range links {
		var err error
		comms[i], err = jaccl.Connect(l, watches[i], jaccl.Options{Deadline: deadline})
		require.NoError(t, err)
	}
	return comms
}

func TestConnect(t *testing.T) {
	jaccltest.Conformance(t, func(t *testing.T, n int) []jaccl.Communicator { return connected(t, n) })
}

func TestConnectShared(t *testing.T) {
	jaccltest.Conformance(t, func(t *testing.T, n int) []jaccl.Communicator {
		return connect(t, jaccltest.SharedLinks(n), time.Minute)
	})
}

// Operations in many pieces, with short and with empty last ones, give what operations
// in one do.
func TestConnectPieces(t *testing.T) {
	for _, n := range []int{2, 3, 5} {
		for _, stage := range []int{2000, 40000} {
			comms := connected(t, n)
			var wg sync.WaitGroup
			for _, c := range comms {
				jaccl.SetSizes(c, 0, stage)
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
