package jaccltest_test

import (
	"testing"

	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/link"
)

func TestLinks(t *testing.T) {
	jaccltest.LinkConformance(t, func(t *testing.T, n int) []link.Link { return jaccltest.Links(n) })
}

func TestSharedLinks(t *testing.T) {
	jaccltest.LinkConformance(t, func(t *testing.T, n int) []link.Link {
		var links []link.Link
		for _, l := range jaccltest.SharedLinks(n) {
			links = append(links, l)
		}
		return links
	})
}
