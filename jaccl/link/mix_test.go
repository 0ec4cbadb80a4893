package link_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/link"
)

// mixed returns links of n ranks on three machines: ranks 0, 3, 6 and so on are on the
// first, 1, 4, 7 on the second and 2, 5 on the third.
func mixed(t testing.TB, n int) []link.Link { return mixedOf(t, jaccltest.Links(n)) }

// mixedOf is mixed with the given links within machines.
func mixedOf[L link.Link](t testing.TB, within []L) []link.Link {
	n := len(within)
	between := jaccltest.Links(n)
	links := make([]link.Link, n)
	for rank := range links {
		of := make([]link.Link, n)
		for peer := range of {
			switch {
			case peer == rank:
			case peer%3 == rank%3:
				of[peer] = within[rank]
			default:
				of[peer] = between[rank]
			}
		}
		var err error
		links[rank], err = link.Mix(of...)
		require.NoError(t, err)
		t.Cleanup(func() { // the mix does not own links that no pair uses
			within[rank].Close()
			between[rank].Close()
		})
	}
	return links
}

func TestMixLink(t *testing.T) {
	jaccltest.LinkConformance(t, func(t *testing.T, n int) []link.Link {
		links := mixed(t, n)
		if n == 1 {
			return links[:1]
		}
		return links
	})
}

func TestMix(t *testing.T) {
	jaccltest.Conformance(t, func(t *testing.T, n int) []jaccl.Communicator { return jaccltest.Connect(t, mixed(t, n), time.Minute) })
}

// A mix lends memory if one of its links does. On its other links this is ordinary memory.
func TestMixLends(t *testing.T) {
	lending := func(t *testing.T, n int) []link.Link { return mixedOf(t, jaccltest.SharedLinks(n)) }
	jaccltest.LinkConformance(t, lending)
	jaccltest.Conformance(t, func(t *testing.T, n int) []jaccl.Communicator {
		return jaccltest.Connect(t, lending(t, n), time.Minute)
	})

	links := lending(t, 4) // ranks 0 and 3 share a machine
	if _, release, err := links[3].(link.Lender).Lease(10); err != nil || release() != nil {
		t.Errorf("a mix of a link that lends memory: %v", err)
	}
	if _, _, err := links[1].(link.Lender).Lease(10); !errors.Is(err, jaccl.ErrUnsupported) {
		t.Errorf("a mix of links that lend nothing: %v, want ErrUnsupported", err)
	}
	for _, c := range jaccltest.Connect(t, links, time.Minute) {
		m := c.(jaccl.Memory)
		_, _, err := m.Lease(10)
		if lends := c.Rank()%3 == 0; lends != (err == nil) || !lends && !errors.Is(err, jaccl.ErrUnsupported) {
			t.Errorf("rank %d: a lease of its communicator: %v", c.Rank(), err)
		}
		if _, err := m.Alloc(10); !errors.Is(err, jaccl.ErrUnsupported) {
			t.Errorf("rank %d: alloc: %v, want ErrUnsupported, as its memory is not seen by all", c.Rank(), err)
		}
		require.NoError(t, c.Close())
	}
}

func TestMixArguments(t *testing.T) {
	a, b := jaccltest.Links(2), jaccltest.Links(3)
	for want, links := range map[string][]link.Link{
		"want nil for this one":                     {a[0], a[0]},
		"no links for ranks 0 and 1":                {nil, nil},
		"is rank 1 of 2, want rank 0 of 2":          {nil, a[1]},
		"is rank 0 of 3, want rank 0 of 2":          {nil, b[0]},
		"a link for each of 0 ranks, want nil":      {},
		"memory link for rank 2 is rank 0 of 2, wa": {nil, b[0], a[0]},
	} {
		if l, err := link.Mix(links...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("mix of %v is %v, %v; want an error with %q", links, l, err, want)
		}
	}
	for _, l := range append(a, b...) {
		require.NoError(t, l.Close())
	}
}
