package world

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/link"
)

// apart is a site whose ranks are on the machines that are listed, by rank.
type apart struct {
	link.Site
	machines string
}

func (s apart) SameHost(rank int) bool { return s.machines[rank] == s.machines[s.Rank()] }
func (s apart) Host(rank int) string   { return string(s.machines[rank]) }

// Memory is shared within machines, TCP used between them, and collectives are right
// in any case.
func TestAutomatic(t *testing.T) {
	for _, c := range []struct {
		machines string
		want     []string
	}{
		{"aaa", []string{"shm", "shm", "shm"}},
		{"abc", []string{"tcp", "tcp", "tcp"}},
		{"aabb", []string{"mix", "mix", "mix", "mix"}},
		{"abab", []string{"mix", "mix", "mix", "mix"}},
		{"abaac", []string{"mix", "tcp", "mix", "mix", "tcp"}},
		{"a", []string{"shm"}},
	} {
		t.Run(c.machines, func(t *testing.T) {
			n := len(c.machines)
			sites, watches := jaccltest.Sites(n), jaccltest.Watches(n)
			errs, transports := make([]error, n), make([]string, n)
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					l, err := automatic(ctx, apart{sites[i], c.machines})
					if err != nil {
						errs[i] = err
						return
					}
					transports[i] = l.Transport()
					comm, err := engine.Connect(l, watches[i], jaccl.Options{Deadline: time.Minute})
					if err != nil {
						errs[i] = err
						return
					}
					defer comm.Close()
					if errs[i] = warm(ctx, comm.World()); errs[i] == nil {
						errs[i] = jaccltest.PlayRank(ctx, comm, 7)
					}
				})
			}
			wg.Wait()
			for i := range n {
				require.NoError(t, errs[i], "rank %d", i)
				kind := transports[i]
				if kind != "shm" && kind != "tcp" {
					kind = "mix"
				}
				if kind != c.want[i] {
					t.Errorf("rank %d has %s, want %s", i, transports[i], c.want[i])
				}
			}
		})
	}
}

// If one rank could not make its link, all ranks close theirs and get the error.
func TestAgreed(t *testing.T) {
	broken := errors.New("no port is left")
	sites, links := jaccltest.Sites(3), jaccltest.Links(3)
	errs := make([]error, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // ranks that do not agree wait for each other
	defer cancel()
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			s := &state{info: Info{Rank: i, Transport: "verbs"}}
			_, errs[i] = s.agreed(ctx, sites[i], func(context.Context, link.Site) (link.Link, error) {
				if i == 1 {
					return nil, broken
				}
				return links[i], nil
			})
		})
	}
	wg.Wait()
	for i, err := range errs {
		const want = "transport verbs is not to be had: rank 1 (host1): no port is left"
		if err == nil || err.Error() != want {
			t.Errorf("rank %d: %v, want %s", i, err, want)
		}
	}
	if !errors.Is(errs[1], broken) {
		t.Errorf("rank 1's own error is lost: %v", errs[1])
	}
	x := &link.Exchange{Peers: []int{1}}
	if err := links[0].Exchange(ctx, x); err == nil {
		t.Error("rank 0's link is still open")
	}
}
