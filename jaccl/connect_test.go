package jaccl_test

import (
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
