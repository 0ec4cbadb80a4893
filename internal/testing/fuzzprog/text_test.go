package fuzzprog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
)

// TestText parses every program's text. The program that it gets prints the same text and
// runs the same.
func TestText(t *testing.T) {
	eachSeed(t, func(t *testing.T, seed uint64) {
		p, err := New(seed)
		require.NoError(t, err)
		require.NoError(t, graph.Check(p.Program))
		q, err := gomoe.Parse("p.graph", p.String())
		require.NoError(t, err, "seed %d:\n%s", seed, p)
		require.Equal(t, p.String(), q.String(), "seed %d", seed)
		require.NoError(t, graph.Check(q))
		in := p.Inputs(p.Program, seed)
		want, err := run(p.Program, gomoe.Config{}, in)
		require.NoError(t, err, "seed %d:\n%s", seed, p)
		got, err := run(q, gomoe.Config{}, in)
		require.NoError(t, err)
		require.NoError(t, differ(got, want, 0), "seed %d:\n%s", seed, p)
		again, err := New(seed)
		require.NoError(t, err)
		require.Equal(t, p.String(), again.String(), "seed %d gives two programs", seed)
	})
}
