package ep

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every rank sends a row once to each member that has an expert for its token, and the rows
// that arrive fill the zones as a plan of the whole batch says.
func TestRowsFillTheZonesOfThePlan(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 3))
		b := random(r)
		e, ranks := b.layer.Experts, len(b.tokens)
		chosen, tokens := slices.Clone(b.idx), Split{0}
		for n, has := range b.tokens {
			tokens = append(tokens, tokens[n]+has)
		}
		of := func(source int) []int32 { return chosen[tokens[source]*b.k : tokens[source+1]*b.k] }
		if b.layer.Capacity > 0 {
			Keep(chosen, make([]int32, e), b.layer.Capacity)
		}
		table := make([]int32, ranks*e)
		for n := range ranks {
			require.NoError(t, Count(table[n*e:(n+1)*e], of(n), b.k))
		}
		plan, err := NewPlan(b.layer, b.idx, b.k)
		require.NoError(t, err)
		counts := make([]int32, e)
		Totals(counts, make([]int32, e), table, 0)
		require.Equal(t, plan.Counts, counts, "seed %d: what is kept", seed)

		for _, sources := range b.groups {
			g := Group{Experts: b.experts(), Sources: sources}
			out, sent, home := make([][]int32, len(sources)), make([][]int32, len(sources)), make([][]int32, len(sources))
			for m, s := range sources {
				own := of(s)
				out[m], sent[m], home[m] = garbage(b.tokens[s]*min(b.k, len(sources))), garbage(len(sources)), garbage(b.tokens[s]*b.k)
				n := g.RowsOut(out[m], sent[m], home[m], own, b.k, garbage(2*len(sources)))
				out[m] = out[m][:n]
				for i, e := range own {
					if j := home[m][i]; e < 0 {
						require.Equal(t, int32(-1), j)
					} else {
						require.Equal(t, int32(i/b.k), out[m][j], "seed %d: the row of pair %d", seed, i)
					}
				}
			}
			for m := range sources {
				// The rows that arrive at m: of each source those for m, each once.
				var arrived []int // numbers of tokens in the batch
				for from, s := range sources {
					first := 0
					for _, n := range sent[from][:m] {
						first += int(n)
					}
					last := -1
					for _, x := range out[from][first : first+int(sent[from][m])] {
						require.Greater(t, int(x), last, "seed %d: rows leave once, in token order", seed)
						last = int(x)
						arrived = append(arrived, tokens[s]+int(x))
					}
				}
				lo, hi := g.Experts.Part(m)
				start, n := garbage(hi-lo), garbage(hi-lo)
				used := g.Zones(start, n, table, m, b.layer.Align)
				from, choice, rows := garbage(used+3), garbage(used+3), garbage(len(sources))
				next := append([]int32(nil), start...)
				require.Equal(t, len(arrived), g.RowsIn(from, choice, rows, chosen, next, tokens, b.k, m))
				for i := range sources {
					require.Equal(t, sent[i][m], rows[i], "seed %d: rows from member %d", seed, i)
				}
				slots := garbage(len(arrived) * b.k)
				Slots(slots, from, choice, b.k)
				seen := 0
				for x := lo; x < hi; x++ {
					zone := from[start[x-lo]:][:n[x-lo]]
					for i, j := range zone {
						row := start[x-lo] + int32(i)
						c := int(choice[row])
						token := arrived[j]
						require.Equal(t, int32(x), chosen[token*b.k+c], "seed %d: row %d", seed, row)
						require.Equal(t, row, slots[int(j)*b.k+c])
						if pair := token*b.k + c; len(sources) == ranks {
							require.Equal(t, plan.Start[x]+int32(i), plan.Row[pair], "seed %d: order within the zone of expert %d", seed, x)
						}
						seen++
					}
				}
				for _, j := range from {
					if j >= 0 {
						seen--
					}
				}
				require.Zero(t, seen, "seed %d: rows that belong to no pair", seed)
				for _, i := range slots {
					if i >= 0 {
						seen++
					}
				}
				for _, c := range n {
					seen -= int(c)
				}
				require.Zero(t, seen, "seed %d: slots", seed)
			}
		}
	}
}
