package ep

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Copies maps replicas to experts: Copies[c] is the expert of replica c. Every expert has
// at least one replica. Replicas are numbered in the order of the ranks holding them,
// according to a Split of the replicas. In a layer with replicated experts, replicas
// replace experts: rows are sent to replicas, and a rank holds the weights of its
// replicas.
type Copies []int32

// BalanceCopies returns replicas that balance the given loads of the experts, such as
// Load.Share. held has one part per rank, with the number of replicas that the rank
// holds.
//
// The rule follows DeepSeek's EPLB. Every expert has one replica. Each further replica
// goes to the expert with the highest load per replica, the lowest of equals. Then the
// replicas, in order of falling load, are assigned to the rank with the lowest load so
// far among the ranks with free capacity; of equals to the one with the fewest replicas,
// and of these to the first. A rank's replicas are in the order of their experts, and may
// be replicas of one expert. (github.com/deepseek-ai/EPLB, eplb.py: replicate_experts,
// balanced_packing.)
func BalanceCopies(loads []float64, held Split) (Copies, error) {
	if err := held.Validate(); err != nil {
		return nil, err
	}
	experts, copies := len(loads), held.Len()
	switch {
	case experts == 0:
		return nil, fmt.Errorf("ep: copies: loads of no experts, want one for each expert")
	case copies < experts:
		return nil, fmt.Errorf("ep: copies: %d copies of %d experts, want at least one of each", copies, experts)
	}
	for e, load := range loads {
		if !(load >= 0) || math.IsInf(load, 1) {
			return nil, fmt.Errorf("ep: copies: load %g of expert %d, want a finite number of at least 0", load, e)
		}
	}
	n, all := make([]int, experts), make([]int32, copies)
	each := func(e int) float64 { return loads[e] / float64(n[e]) }
	for c := range all {
		hottest := c
		if c >= experts {
			hottest = 0
			for e := range loads {
				if each(e) > each(hottest) {
					hottest = e
				}
			}
		}
		n[hottest]++
		all[c] = int32(hottest)
	}
	slices.SortStableFunc(all, func(a, b int32) int {
		return cmp.Or(cmp.Compare(each(int(b)), each(int(a))), cmp.Compare(a, b))
	})
	ranks, load := make([][]int32, held.Parts()), make([]float64, held.Parts())
	for _, e := range all {
		to := -1
		for r := range ranks {
			if len(ranks[r]) < held.Size(r) && (to < 0 || cmp.Or(cmp.Compare(load[r], load[to]), cmp.Compare(len(ranks[r]), len(ranks[to]))) < 0) {
				to = r
			}
		}
		ranks[to] = append(ranks[to], e)
		load[to] += each(int(e))
	}
	for _, r := range ranks {
		slices.Sort(r)
	}
	return slices.Concat(ranks...), nil
}

// Index sets order int32[replicas] to the replicas sorted by expert, ascending within an
// expert, and first int32[E+1] to the offset in order of each expert's replicas. It
// returns an error for a replica of an expert that does not exist and for an expert
// without a replica.
func (c Copies) Index(first, order []int32) error {
	experts := len(first) - 1
	clear(first)
	for i, e := range c {
		if e < 0 || int(e) >= experts {
			return fmt.Errorf("ep: copies: copy %d is of expert %d, want 0 to %d", i, e, experts-1)
		}
		first[e]++
	}
	sum := int32(0)
	for e, n := range first[:experts] {
		if n == 0 {
			return fmt.Errorf("ep: copies: expert %d has none of the %d copies, want at least one of each of %d experts", e, len(c), experts)
		}
		sum += n
		first[e] = sum // the end, which becomes the beginning below
	}
	first[experts] = sum
	for i, e := range slices.Backward(c) {
		first[e]--
		order[first[e]] = int32(i)
	}
	return nil
}

// CopyIndex distributes pairs over the replicas of their experts: pair n of an expert's
// queue goes to replica n mod m of the expert's m replicas. First and Order are the
// results of Copies.Index. The queue of a replica is also in (t, k) order.
type CopyIndex struct{ First, Order []int32 }

// Place returns the replica for pair n of an expert's queue, and the pair's position in the
// replica's queue.
func (x CopyIndex) Place(expert, n int32) (copy, position int32) {
	first := x.First[expert]
	m := x.First[expert+1] - first
	return x.Order[first+n%m], n / m
}

// Routing sets spread int32[T,K,2] to (replica, position in its queue) for each pair of
// routing int32[T,K,2], holding (expert, position in its queue), and to (-1, -1) for pairs
// without a row. It reads only the experts of routing: next int32[E] holds the positions
// from which the queues continue (see Before), and on return the positions following these
// tokens.
func (x CopyIndex) Routing(spread, next, routing []int32) {
	for i := 0; i < len(routing); i += 2 {
		copy, position := int32(-1), int32(-1)
		if e := routing[i]; e >= 0 {
			copy, position = x.Place(e, next[e])
			next[e]++
		}
		spread[i], spread[i+1] = copy, position
	}
}

// Choices sets spread int32[T,K] to the replica of each pair of chosen int32[T,K],
// holding the experts of kept pairs and -1 for others. The two may be the same slice.
// next is as in Routing.
func (x CopyIndex) Choices(spread, next, chosen []int32) {
	for i, e := range chosen {
		if e >= 0 {
			n := next[e]
			next[e] = n + 1
			e, _ = x.Place(e, n)
		}
		spread[i] = e
	}
}

// Table sets spread int32[N,replicas] to the table of pairs for each replica, given kept
// int32[N,E], the table of pairs for each expert after drops.
func (x CopyIndex) Table(spread, kept []int32) {
	experts, copies := len(x.First)-1, len(x.Order)
	for e := range experts {
		own := x.Order[x.First[e]:x.First[e+1]]
		m, before := int32(len(own)), int32(0)
		for s := range len(kept) / experts {
			end := before + kept[s*experts+e]
			for i, c := range own {
				spread[s*copies+int(c)] = congruent(end, m, int32(i)) - congruent(before, m, int32(i))
			}
			before = end
		}
	}
}

// congruent returns the number of integers in [0, n) congruent to i modulo m.
func congruent(n, m, i int32) int32 {
	count := n / m
	if n%m > i {
		count++
	}
	return count
}
