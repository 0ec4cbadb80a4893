package jaccltest_test

import (
	"testing"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
)

func TestLinks(t *testing.T) {
	jaccltest.LinkConformance(t, func(t *testing.T, n int) []jaccl.Link { return jaccltest.Links(n) })
}

func TestSharedLinks(t *testing.T) {
	jaccltest.LinkConformance(t, func(t *testing.T, n int) []jaccl.Link {
		var links []jaccl.Link
		for _, l := range jaccltest.SharedLinks(n) {
			links = append(links, l)
		}
		return links
	})
}
