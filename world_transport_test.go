package gomoe

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
)

// apart is a site whose ranks are on the machines that are listed, by rank.
type apart struct {
	jaccl.Site
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
					comm, err := jaccl.Connect(l, watches[i], jaccl.Options{Deadline: time.Minute})
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
