//go:build linux || darwin

package shm

import (
	"testing"
	"time"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/link"
)

func opened(t *testing.T, n int, o Options) []link.Link {
	links := make([]link.Link, n)
	for i, l := range connectAll(t, jaccltest.Sites(n), o) {
		links[i] = l
	}
	return links
}

func TestLinkConformance(t *testing.T) {
	jaccltest.LinkConformance(t, func(t *testing.T, n int) []link.Link { return opened(t, n, Options{}) })
}

func TestLinkConformanceSmallRings(t *testing.T) {
	jaccltest.LinkConformance(t, func(t *testing.T, n int) []link.Link { return opened(t, n, Options{Ring: minRing}) })
}

func TestConformance(t *testing.T) {
	jaccltest.Conformance(t, func(t *testing.T, n int) []jaccl.Communicator {
		comms := make([]jaccl.Communicator, n)
		watches := jaccltest.Watches(n)
		for i, l := range opened(t, n, Options{}) {
			c, err := engine.Connect(l, watches[i], jaccl.Options{Deadline: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			comms[i] = c
		}
		return comms
	})
}
