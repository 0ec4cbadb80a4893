package world

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/sharding"
)

// A mesh that says on which machines ranks are must say what is true, unless there is one machine.
func TestMachinesOfMesh(t *testing.T) {
	for _, c := range []struct{ machines, mesh, want string }{
		{"aabb", "ep=2x2", ""}, {"aabb", "ep=4", ""}, {"abab", "ep=4", ""}, {"aaaa", "ep=2x2", ""},
		{"aaabbb", "ep=2x3", ""}, {"aabbaabb", "dp=2,ep=2x2", ""},
		{"abab", "ep=2x2", `the mesh "ep=2x2" puts the ranks 0 and 1 on one of the 2 machines of ep, and they run on two, a and b`},
		{"aaab", "ep=2x2", "puts the ranks 2 and 3 on one"},
		{"aaaabbbb", "dp=2,ep=2x2", ""}, // two machines are said, and one is enough
		{"abab", "ep=2x2 order=0,2,1,3", ""},
	} {
		name, order, _ := strings.Cut(c.mesh, " order=")
		m, err := sharding.ParseMesh(name)
		require.NoError(t, err)
		if order != "" {
			for _, r := range strings.Split(order, ",") {
				m.Order = append(m.Order, int(r[0]-'0'))
			}
		}
		n := len(c.machines)
		sites := jaccltest.Sites(n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				h, err := meetMachines(t.Context(), apart{sites[i], c.machines})
				if err == nil {
					err = h.fit(m)
				}
				switch {
				case c.want == "" && err != nil:
					t.Errorf("%s on %s: %v", c.mesh, c.machines, err)
				case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
					t.Errorf("%s on %s: error %v, want %s", c.mesh, c.machines, err, c.want)
				}
			})
		}
		wg.Wait()
	}
}
