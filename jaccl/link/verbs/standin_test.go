package verbs

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/rdma"
	"github.com/gomoe/gomoe/jaccl/rdma/rdmatest"
)

func TestMain(m *testing.M) { os.Exit(rdmatest.Main(m)) }

// connectAll connects n ranks of this process, and returns their errors by rank.
func connectAll(t testing.TB, n int, devices hostfile.Devices, settings rdma.Settings) ([]link.Link, []error) {
	t.Helper()
	links, errs := make([]link.Link, n), make([]error, n)
	ctx := rdmatest.Within(t, 3*time.Minute)
	var wg sync.WaitGroup
	for i, site := range jaccltest.Sites(n) {
		wg.Go(func() { links[i], errs[i] = Connect(ctx, site, devices, settings) })
	}
	wg.Wait()
	t.Cleanup(func() {
		for i, l := range links {
			if l != nil {
				if err := l.Close(); err != nil {
					t.Errorf("close of rank %d: %v", i, err)
				}
			}
		}
	})
	return links, errs
}

func linked(t testing.TB, n int, play string) []link.Link {
	t.Helper()
	return linkedOver(t, n, 1, play)
}

func linkedOver(t testing.TB, n, wires int, play string) []link.Link {
	t.Helper()
	links, errs := connectAll(t, n, rdmatest.Wires(n, wires), rdma.Settings{Library: rdmatest.Standin(t, play)})
	for i, err := range errs {
		require.NoError(t, err, "rank %d", i)
	}
	return links
}

// together runs f for every rank at once.
func together(links []link.Link, f func(rank int, l link.Link) error) []error {
	errs := make([]error, len(links))
	var wg sync.WaitGroup
	for i, l := range links {
		wg.Go(func() { errs[i] = f(i, l) })
	}
	wg.Wait()
	return errs
}
