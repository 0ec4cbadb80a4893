package rdma

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
)

func TestLinkConformance(t *testing.T) {
	for _, play := range []string{"gid=2", "nic=1"} {
		t.Run(play, func(t *testing.T) {
			jaccltest.LinkConformance(t, func(t *testing.T, n int) []jaccl.Link { return linked(t, n, play) })
		})
	}
}

func TestConformance(t *testing.T) {
	jaccltest.Conformance(t, func(t *testing.T, n int) []jaccl.Communicator {
		comms := make([]jaccl.Communicator, n)
		watches := jaccltest.Watches(n)
		for i, l := range linked(t, n, "") {
			c, err := jaccl.Connect(l, watches[i], jaccl.Options{})
			require.NoError(t, err)
			comms[i] = c
		}
		return comms
	})
}
