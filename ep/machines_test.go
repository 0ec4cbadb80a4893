package ep

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// note is what a row carries in the test: the member that it is of, and its token there.
type note struct{ member, token int }

// Rows that go from member to member as Find says arrive where there are experts for them, each
// once, in the order that Arrive gives, and once on each machine; and what goes back the same way
// comes home to its pair.
func TestMachines(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ machines, each, experts, tokens, k int }{
		{2, 2, 8, 12, 2}, {3, 2, 7, 13, 3}, {2, 3, 4, 5, 4}, {2, 4, 16, 64, 8}, {4, 2, 8, 3, 1}, {2, 2, 4, 0, 2},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			n, k := c.machines*c.each, c.k
			g := Machines{Group{EqualSplit(c.experts, n), make([]int, n)}, c.machines}
			for i := range g.Sources {
				g.Sources[i] = i
			}
			tokens := EqualSplit(c.tokens, n)
			chosen := make([]int32, c.tokens*k)
			for i := range chosen {
				chosen[i] = int32(r.IntN(c.experts+1)) - 1
			}
			outs, comes, passes := g.Room(tokens.Largest(), k)
			ps := make([]Passage, n)
			for m := range ps {
				ps[m] = Passage{make([]int32, outs), make([]int32, passes), make([]int32, tokens.Size(m)*k), make([]int32, comes*k),
					make([]int32, 2*c.machines), make([]int32, 2*c.each), make([]int32, n)}
				out, come, pass, arrive := g.Find(ps[m], chosen, tokens, k, m)
				require.Equal(t, []int{out, come, pass, arrive}, []int{sum(ps[m].Between[:c.machines]), sum(ps[m].Between[c.machines:]), sum(ps[m].Within[:c.each]), sum(ps[m].Within[c.each:])})
				require.Equal(t, int32(0), ps[m].Between[m/c.each])
			}
			// There.
			from := func(m, other int) int { return other*c.each + m%c.each }
			sent, come, passed, got := make([][][]note, n), make([][]note, n), make([][][]note, n), make([][]note, n)
			for m, p := range ps {
				at := 0
				for _, rows := range p.Between[:c.machines] {
					var part []note
					for _, q := range p.Out[at : at+int(rows)] {
						part = append(part, note{m, int(q)})
					}
					sent[m], at = append(sent[m], part), at+int(rows)
				}
			}
			for m, p := range ps {
				for other := range c.machines {
					part := sent[from(m, other)][m/c.each]
					require.Len(t, part, int(p.Between[c.machines+other]))
					come[m] = append(come[m], part...)
				}
				at := 0
				for _, rows := range p.Within[:c.each] {
					var part []note
					for _, j := range p.Pass[at : at+int(rows)] {
						if j < 0 {
							part = append(part, note{m, int(-1 - j)})
						} else {
							part = append(part, come[m][j])
						}
					}
					passed[m], at = append(passed[m], part), at+int(rows)
				}
			}
			for m, p := range ps {
				for other := range c.each {
					part := passed[m/c.each*c.each+other][m%c.each]
					require.Len(t, part, int(p.Within[c.each+other]))
					got[m] = append(got[m], part...)
				}
			}
			for m := range ps {
				var want []note // by member and token
				for s := range n {
					first, end := tokens.Part(s)
					for q := first; q < end; q++ {
						if g.Comes(chosen[q*k:(q+1)*k], m) {
							want = append(want, note{s, q - first})
						}
					}
				}
				require.ElementsMatch(t, want, got[m])
				room, rows := make([]int32, c.tokens*k), make([]int32, n)
				choice := slices.Clone(room)
				lo, hi := g.Experts.Part(m)
				start, counts, kept := make([]int32, hi-lo), make([]int32, hi-lo), make([]int32, n*c.experts)
				for s := range n {
					first, end := tokens.Part(s)
					require.NoError(t, Count(kept[s*c.experts:(s+1)*c.experts], chosen[first*k:end*k], k))
				}
				g.Zones(start, counts, kept, m, 0)
				g.RowsIn(room, choice, rows, chosen, start, tokens, k, m)
				before := slices.Clone(room)
				Arrive(room, rows, ps[m].Base, make([]int32, len(got[m])))
				for i, j := range room {
					if j >= 0 {
						require.Equal(t, want[before[i]], got[m][j])
					}
				}
			}
			// Home: every pair finds the row that went to its expert.
			for m, p := range ps {
				first, end := tokens.Part(m)
				for q := first; q < end; q++ {
					for choice, e := range chosen[q*k : (q+1)*k] {
						home := int(p.Home[(q-first)*k+choice])
						if e < 0 {
							require.Equal(t, -1, home)
							continue
						}
						owner := g.Experts.Owner(int(e))
						relay, at := m, home
						if owner/c.each != m/c.each {
							require.Equal(t, int32(q-first), p.Out[home-len(p.Pass)])
							relay = from(m, owner/c.each)
							row := slices.Index(come[relay], note{m, q - first})
							at = int(ps[relay].Relay[row*k+choice])
						}
						within := owner % c.each
						before := sum(ps[relay].Within[:within])
						require.Equal(t, note{m, q - first}, passed[relay][within][at-before])
					}
				}
			}
		})
	}
}

func sum(n []int32) (s int) {
	for _, x := range n {
		s += int(x)
	}
	return s
}
