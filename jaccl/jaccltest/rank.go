package jaccltest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
)

// PlayRank runs one rank's part of operations chosen by seed. It checks the results bit
// for bit, returning an error describing the first difference. Every rank of the job
// calls it with the same seed, each in a process of its own, or all in one process. It
// leaves the communicator open and at the same operation as the other ranks.
//
// PlayRank is for transports with ranks that cannot be goroutines of one process, and for
// jobs on several machines: it needs nothing but the communicator.
func PlayRank(ctx context.Context, c jaccl.Communicator, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	n := c.Size()
	ranks := world(n)
	if err := playIn(ctx, c, c.World(), ranks, trials(n, random(rng, 40))); err != nil {
		return fmt.Errorf("seed %d: all ranks: %w", seed, err)
	}
	for range 5 {
		rng.Shuffle(n, func(i, k int) { ranks[i], ranks[k] = ranks[k], ranks[i] })
		members := ranks[:1+rng.IntN(n)]
		ts := random(rng, 12)
		if !slices.Contains(members, c.Rank()) {
			continue
		}
		g, err := c.Among(members)
		if err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		if err := playIn(ctx, c, g, members, trials(len(members), ts)); err != nil {
			return fmt.Errorf("seed %d: ranks %v: %w", seed, members, err)
		}
	}
	for seq, p := range partings(n) {
		ts := random(rng, 6)
		part, members, err := p.apart(c, c.World(), world(n), seq)
		if err == nil && part != nil {
			if err = playIn(ctx, c, part, members, trials(len(members), ts)); err == nil {
				err = part.Close()
			}
		}
		if err != nil {
			return fmt.Errorf("seed %d: split %d: %w", seed, seq, err)
		}
	}
	return playIn(ctx, c, c.World(), world(n), trials(n, []op{{name: "barrier"}}))
}

// random returns operations of any kind, most of them small and a few of some 100 KB.
func random(rng *rand.Rand, count int) []op {
	ops := make([]op, count)
	for i := range ops {
		o := op{name: names[rng.IntN(len(names))], seed: rng.IntN(1000), inPlace: rng.IntN(2) == 0, skew: rng.IntN(9)}
		for o.d = graph.NoDType; o.d == graph.NoDType || o.reduces() && (o.d == graph.Bool || o.d.IsF8()); { // which cannot be summed
			o.d = graph.Bool + graph.DType(rng.IntN(int(graph.F64)))
		}
		if o.count = rng.IntN(1 << rng.IntN(12)); rng.IntN(20) == 0 {
			o.count += 100000 / o.d.Size()
		}
		ops[i] = o
	}
	return ops
}
