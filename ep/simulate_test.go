package ep

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// batch is a routing problem and how ranks share it.
type batch struct {
	layer  Layer
	k      int
	tokens []int // of each rank
	groups [][]int
	idx    []int32 // [T,K]
	split  Split   // of the experts, nil for as equal as can be
}

// experts returns the members' experts.
func (b batch) experts() Split {
	if b.split == nil {
		return EqualSplit(b.layer.Experts, len(b.groups[0]))
	}
	return b.split
}

// owners returns the member that has each expert.
func (b batch) owners() []int {
	var of []int
	for m := range b.experts().Parts() {
		for range b.experts().Size(m) {
			of = append(of, m)
		}
	}
	return of
}

// mesh returns the groups of ranks of size r: neighbours, or every
// (ranks/r)-th if strided.
func mesh(ranks, r int, strided bool) [][]int {
	groups := make([][]int, ranks/r)
	for n := range ranks {
		g := n / r
		if strided {
			g = n % len(groups)
		}
		groups[g] = append(groups[g], n)
	}
	return groups
}

func (b batch) rankOf() []int {
	var of []int
	for rank, n := range b.tokens {
		for range n {
			of = append(of, rank)
		}
	}
	return of
}

// result is the result of all ranks together.
type result struct {
	routing          []int32
	dropped          []bool
	demand, counts   []int32
	rows             map[[2]int][]int32 // [group, member]: the pair in each row, -1 in padding
	used             map[[2]int]int
	bound            map[[2]int]int
	zoneRows, starts map[[2]int][]int32
}

// simulate runs every rank's steps and moves pair numbers as the payload, to
// the experts and back.
func (b batch) simulate(t *testing.T) result {
	t.Helper()
	e, ranks := b.layer.Experts, len(b.tokens)
	table := make([]int32, ranks*e)
	local := make([][]int32, ranks)
	first := make([]int, ranks) // first pair of each rank
	for at, n := 0, 0; n < ranks; n++ {
		pairs := b.tokens[n] * b.k
		local[n], first[n] = b.idx[at:at+pairs], at
		require.NoError(t, Count(table[n*e:(n+1)*e], local[n], b.k))
		at += pairs
	}
	kept := garbage(len(table))
	Kept(kept, table, e, b.layer.Capacity)

	res := result{demand: garbage(e), counts: garbage(e),
		rows: map[[2]int][]int32{}, used: map[[2]int]int{}, bound: map[[2]int]int{},
		zoneRows: map[[2]int][]int32{}, starts: map[[2]int][]int32{}}
	Totals(res.counts, res.demand, table, b.layer.Capacity)

	type packet struct{ rows []int32 }
	sent := make([]packet, ranks) // all rows of a rank in send order
	sendRows := make([][]int32, ranks)
	for n := range ranks {
		routing, dropped := garbage(2*len(local[n])), make([]bool, len(local[n]))
		next := garbage(e)
		Before(next, table, n)
		drops := Assign(routing, dropped, next, local[n], b.layer.Capacity)
		want := 0
		for _, d := range dropped {
			if d {
				want++
			}
		}
		if drops != want {
			t.Errorf("rank %d: Assign returned %d drops and marked %d", n, drops, want)
		}
		after := garbage(e)
		Before(after, table, n+1)
		require.Equal(t, after, next, "rank %d: queues after Assign", n)
		res.routing = append(res.routing, routing...)
		res.dropped = append(res.dropped, dropped...)

		order := garbage(len(local[n]))
		rows := SendOrder(order, next, routing, 0)
		for _, i := range order[:rows] {
			sent[n].rows = append(sent[n].rows, int32(first[n])+i)
		}
	}

	for g, sources := range b.groups {
		group := Group{Experts: b.experts(), Sources: sources}
		require.NoError(t, group.Validate(ranks))
		for m, n := range sources {
			sendRows[n] = garbage(len(sources))
			if sum := group.SendCounts(sendRows[n], kept, m); sum != len(sent[n].rows) {
				t.Fatalf("rank %d sends %d rows by the table, %d by its routing", n, sum, len(sent[n].rows))
			}
		}
		back := make([][][]int32, len(sources)) // [to][from]
		for m := range back {
			back[m] = make([][]int32, len(sources))
		}
		for m := range sources {
			key := [2]int{g, m}
			recv := garbage(len(sources))
			total := group.RecvCounts(recv, kept, m)
			var arrived []int32
			for from, n := range sources {
				at := 0
				for to := range m {
					at += int(sendRows[n][to])
				}
				if recv[from] != sendRows[n][m] {
					t.Fatalf("member %d wants %d rows of %d, which sends %d", m, recv[from], from, sendRows[n][m])
				}
				arrived = append(arrived, sent[n].rows[at:at+int(recv[from])]...)
			}
			require.Len(t, arrived, total)

			lo, hi := group.Experts.Part(m)
			for x := lo; x < hi; x++ {
				require.Equal(t, m, group.Experts.Owner(x), "owner of expert %d", x)
			}
			start, zone := garbage(hi-lo), garbage(hi-lo)
			used := group.Zones(start, zone, kept, m, b.layer.Align)
			pairs := 0
			for _, n := range sources {
				pairs += len(local[n])
			}
			res.starts[key], res.zoneRows[key] = append([]int32(nil), start...), zone
			res.used[key], res.bound[key] = used, b.layer.RankRows(pairs, hi-lo)

			order := garbage(total)
			require.Equal(t, total, group.RecvOrder(order, start, kept, m))
			for x := range start {
				require.Equal(t, res.starts[key][x]+zone[x], start[x], "end of zone %d after RecvOrder", x)
			}
			rows := make([]int32, used)
			for i := range rows {
				rows[i] = -1
			}
			for j, row := range order {
				if rows[row] != -1 {
					t.Fatalf("group %d member %d: row %d filled twice", g, m, row)
				}
				rows[row] = arrived[j]
			}
			res.rows[key] = rows

			inverse := garbage(used)
			Inverse(inverse, order)
			for row, j := range inverse {
				if (j < 0) != (rows[row] < 0) || j >= 0 && order[j] != int32(row) {
					t.Fatalf("group %d member %d: inverse[%d] = %d", g, m, row, j)
				}
			}

			// Combine: the same rows, the other way.
			j := 0
			for from := range sources {
				for range recv[from] {
					back[from][m] = append(back[from][m], rows[order[j]])
					j++
				}
			}
		}
		for m, n := range sources {
			var returned []int32
			for from := range sources {
				returned = append(returned, back[m][from]...)
			}
			require.Equal(t, sent[n].rows, returned, "rank %d: rows come back in another order than they left", n)
		}
	}
	return res
}

// checkAgainst compares with the reference.
func (res result) checkAgainst(t *testing.T, b batch) {
	t.Helper()
	ref := reference(b.idx, b.k, b.layer, b.rankOf(), b.groups, b.owners())
	routing, dropped := make([]int32, 2*len(b.idx)), make([]bool, len(b.idx))
	for i := range routing {
		routing[i] = -1
	}
	for _, p := range ref.pairs {
		dropped[p.number] = p.dropped
		if !p.dropped {
			routing[2*p.number], routing[2*p.number+1] = int32(p.expert), int32(p.queue)
		}
	}
	equal(t, "routing", res.routing, routing)
	equal(t, "dropped", res.dropped, dropped)
	for e := range ref.demand {
		if int(res.demand[e]) != ref.demand[e] || int(res.counts[e]) != ref.counts[e] {
			t.Errorf("expert %d: demand %d, counts %d, want %d, %d", e, res.demand[e], res.counts[e], ref.demand[e], ref.counts[e])
		}
	}
	for g, ranks := range b.groups {
		for m := range ranks {
			key := [2]int{g, m}
			if res.used[key] != ref.used[g][m] {
				t.Errorf("group %d member %d: %d rows used, want %d", g, m, res.used[key], ref.used[g][m])
				continue
			}
			if res.used[key] > res.bound[key] {
				t.Errorf("group %d member %d: %d rows used, above the bound %d", g, m, res.used[key], res.bound[key])
			}
			rows := make([]int32, ref.used[g][m])
			for i := range rows {
				rows[i] = -1
			}
			for _, p := range ref.pairs {
				if !p.dropped && p.group == g && p.member == m {
					rows[p.row] = int32(p.number)
				}
			}
			equal(t, "rows", res.rows[key], rows)
			for x, s := range res.starts[key] {
				if b.layer.Align > 1 && int(s)%b.layer.Align != 0 {
					t.Errorf("zone %d starts at %d, want a multiple of %d", x, s, b.layer.Align)
				}
			}
		}
	}
}

// garbage returns memory like a caller's that is reused: nothing may rely on zeros.
func garbage(n int) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = -7 - int32(i)
	}
	return x
}

func equal[E comparable](t *testing.T, what string, got, want []E) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d elements, want %d", what, len(got), len(want))
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%s[%d] = %v, want %v\ngot  %v\nwant %v", what, i, got[i], want[i], got, want)
			return
		}
	}
}
