package generate

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/sharding"
)

// The tokens of a prompt have the probabilities with which the model would generate them, on every mesh and in blocks of
// any length, next to other texts.
func TestScores(t *testing.T) {
	prompt, rest := expected(t, "mixtral")
	long := append(append([]int32{}, prompt...), rest...)
	for _, mesh := range []string{"", "ep=3", "ep=2,tp=2"} {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		g := open(t, "mixtral", Options{Config: gomoe.Config{Mesh: m}, Sequences: 2})
		var want []Token
		_, err = g.Generate(context.Background(), Request{Prompt: prompt, N: len(rest), Top: 3}, func(x Token) bool {
			want = append(want, x)
			return true
		})
		require.NoError(t, err)
		for _, n := range []int{1, 5, 8, 46, len(long)} {
			other := make(chan error, 1)
			go func() {
				_, err := g.Generate(context.Background(), Request{Prompt: prompt[:3], N: 20}, all)
				other <- err
			}()
			var got []Token
			r, err := g.Generate(context.Background(), Request{Prompt: long[:n], N: 1, Top: 3, Scores: true}, func(x Token) bool {
				got = append(got, x)
				return true
			})
			require.NoError(t, err)
			require.NoError(t, <-other)
			require.Equal(t, 1, r.Tokens)
			require.Zero(t, r.Reused)
			require.Len(t, got, n+1)
			require.True(t, math.IsNaN(got[0].LogProb))
			for i, x := range got[:n] {
				require.Equal(t, long[i], x.ID)
				require.True(t, x.Prompt)
				if i >= len(prompt) {
					require.Equal(t, want[i-len(prompt)].LogProb, x.LogProb, "mesh %q, token %d of %d", mesh, i, n)
					require.Equal(t, want[i-len(prompt)].Top, x.Top)
				}
			}
			require.False(t, got[n].Prompt)
		}
		// emit may end the text within the prompt.
		r, err := g.Generate(context.Background(), Request{Prompt: long[:8], N: 1, Scores: true}, func(x Token) bool { return false })
		require.NoError(t, err)
		require.Zero(t, r.Tokens)
		_, err = g.Generate(context.Background(), Request{Prompt: prompt, N: 1, Scores: true, Slide: true}, all)
		require.ErrorContains(t, err, "want one of both")
	}
}
