//go:build linux || darwin

package shm

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/link"
)

// elsewhere is a site that says that ranks 1 and 2 are on another machine.
type elsewhere struct{ link.Site }

func (elsewhere) SameHost(rank int) bool { return rank != 1 && rank != 2 }

func TestConnectElsewhere(t *testing.T) {
	_, err := Connect(context.Background(), elsewhere{jaccltest.Sites(4)[0]}, Options{})
	require.EqualError(t, err, "shm: connect: ranks [1 (host1) 2 (host2)] do not share the memory of rank 0 (host0); use another link")
}

// What is wrong on one rank is an error on all ranks, which names that rank.
func TestConnectFails(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options // of rank 1
		want string
	}{
		{"ring", Options{Ring: 5000}, "rank 1 on host1 has no segment: a ring of 5000 bytes, want a power of two"},
		{"folder", Options{Dir: "/nowhere/at/all"}, "rank 1 on host1 has no segment: create /nowhere/at/all/gomoe-shm-"},
		{"reserve", Options{Reserve: -1}, "rank 1 on host1 has no segment: -1 bytes to reserve, want at most"},
		{"too much", Options{Reserve: 1 << 62}, "rank 1 on host1 has no segment: 4611686018427387904 bytes to reserve, want at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sites := jaccltest.Sites(3)
			errs := make([]error, 3)
			var wg sync.WaitGroup
			for i, s := range sites {
				wg.Go(func() {
					o := Options{}
					if i == 1 {
						o = c.o
					}
					_, errs[i] = Connect(deadline(t), s, o)
				})
			}
			wg.Wait()
			for rank, err := range errs {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("rank %d: %v, want %q", rank, err, c.want)
				}
			}
		})
	}
}

// liar changes what rank 1 announces.
type liar struct {
	link.Site
	lie func(a *announcement)
}

func (s liar) Gather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	if key == "shm segments" {
		a, err := parseAnnouncement(mine)
		if err != nil {
			return nil, err
		}
		s.lie(&a)
		mine = encode(a)
	}
	return s.Site.Gather(ctx, key, mine)
}

func TestConnectLies(t *testing.T) {
	for _, c := range []struct {
		lie  func(a *announcement)
		want string
	}{
		{func(a *announcement) { a.Nonce[3]++ }, "has another segment than it has announced"},
		{func(a *announcement) { a.Nonce = a.Nonce[:5] }, "5 bytes to know it by, want 16"},
		{func(a *announcement) { a.Size += 4096 }, "bytes, want the "},
		{func(a *announcement) { a.Size = -5 }, "announces a segment of -5 bytes, want at least"},
		{func(a *announcement) { a.Size = 10 }, "announces a segment of 10 bytes, want at least"},
		{func(a *announcement) { a.Ring = 0 }, "announces a ring of 0 bytes"},
		{func(a *announcement) { a.Ring = 1 << 40 }, "announces a ring of 1099511627776 bytes"},
		{func(a *announcement) { a.Pid = -1 }, "announces process -1"},
		{func(a *announcement) { a.Path = "../x" }, `file "../x"`},
		{func(a *announcement) { a.Path = "/dev/null" }, "/dev/null is of user"},
		{func(a *announcement) { a.Pid, a.FD = 1<<30, 3 }, "cannot be opened"},
		{func(a *announcement) { a.Error = "is tired" }, "rank 1 on host1 is tired"},
	} {
		sites := jaccltest.Sites(2)
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for i, s := range sites {
			if i == 1 {
				s = liar{s, c.lie}
			}
			wg.Go(func() { _, errs[i] = Connect(deadline(t), s, Options{}) })
		}
		wg.Wait()
		for rank, err := range errs {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("rank %d: %v, want %q", rank, err, c.want)
			}
		}
	}
}
