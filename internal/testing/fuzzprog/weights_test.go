package fuzzprog

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
)

// Rows of any length are multiplied by matrices with as many scales as these need.
func TestScaled(t *testing.T) {
	for seed := range uint64(50) {
		for _, n := range []int{1, scaleBlock, scaleBlock + 1, 3 * scaleBlock} {
			made := false
			_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
				g := &gen{r: rand.New(rand.NewPCG(seed, 0)), t: tr}
				g.scaled(g.input([]int{n}))
				made = len(g.pool) > 1
				return []*graph.Value{g.pool[len(g.pool)-1].Value}
			})
			require.NoError(t, err, "seed %d, rows of %d", seed, n)
			require.True(t, made, "seed %d, rows of %d", seed, n)
		}
	}
}
