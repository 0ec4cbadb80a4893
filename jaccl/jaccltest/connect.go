package jaccltest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/jaccl/link"
)

// Connect returns the communicators, by rank, of ranks connected by links. Their watches
// come from Watches and lose no rank.
func Connect[L link.Link](t testing.TB, links []L, deadline time.Duration) []jaccl.Communicator {
	watches := Watches(len(links))
	comms := make([]jaccl.Communicator, len(links))
	for i, l := range links {
		var err error
		comms[i], err = engine.Connect(l, watches[i], jaccl.Options{Deadline: deadline})
		require.NoError(t, err)
	}
	return comms
}
