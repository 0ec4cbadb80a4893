package verbs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/rdma/rdmatest"
)

func TestLinkConformance(t *testing.T) {
	for _, play := range []string{"gid=2", "nic=1"} {
		t.Run(play, func(t *testing.T) {
			jaccltest.LinkConformance(t, func(t *testing.T, n int) []link.Link { return linked(t, n, play) })
		})
	}
}

// mixed returns links of n ranks, of which 0, 2 and so on, and 1, 3 and so on, are
// connected by devices, whose links are the second result.
func mixed(t *testing.T, n int) (links, devices []link.Link) {
	devices, others := linked(t, n, ""), jaccltest.Links(n)
	links = make([]link.Link, n)
	for rank := range links {
		of := make([]link.Link, n)
		for peer := range of {
			switch {
			case peer == rank:
			case (peer-rank)%2 == 0:
				of[peer] = devices[rank]
			default:
				of[peer] = others[rank]
			}
		}
		var err error
		links[rank], err = link.Mix(of...)
		require.NoError(t, err)
		t.Cleanup(func() { others[rank].Close() }) // if no pair uses it
	}
	return links, devices
}

func TestMixConformance(t *testing.T) {
	jaccltest.LinkConformance(t, func(t *testing.T, n int) []link.Link {
		links, _ := mixed(t, n)
		return links
	})
	links, _ := mixed(t, 4)
	comms := communicators(t, links)
	for i, err := range together(links, func(rank int, _ link.Link) error {
		return jaccltest.PlayRank(rdmatest.Within(t, 3*time.Minute), comms[rank], 3)
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}

func TestConformance(t *testing.T) {
	jaccltest.Conformance(t, func(t *testing.T, n int) []jaccl.Communicator {
		comms := make([]jaccl.Communicator, n)
		watches := jaccltest.Watches(n)
		for i, l := range linked(t, n, "") {
			c, err := engine.Connect(l, watches[i], jaccl.Options{})
			require.NoError(t, err)
			comms[i] = c
		}
		return comms
	})
}
