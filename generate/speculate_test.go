package generate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/sharding"
)

// Texts with guesses have the tokens and logits of texts without, greedy and sampled, with rows and with carried states,
// up to the end of the room, also when they slide, and on every mesh.
func TestSpeculate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	part := tokens(r, 9)
	prompts := [][]int32{append(append(append([]int32{}, part...), part...), part[:4]...), tokens(r, 20), {3}}
	all := func(g *Generator, q Request) (out []string, result Result) {
		result, err := g.Generate(t.Context(), q, func(x Token) bool {
			out = append(out, fmt.Sprint(x.ID, x.LogProb, x.Top, x.Logits))
			return true
		})
		require.NoError(t, err)
		return out, result
	}
	for name, model := range map[string]func(Options) *Generator{
		"rows":    func(o Options) *Generator { return open(t, "olmoe", o) },
		"carried": func(o Options) *Generator { return hybrid(t, o) },
	} {
		for _, mesh := range []string{"", "ep=2,tp=2"} {
			m, err := sharding.ParseMesh(mesh)
			require.NoError(t, err)
			o := Options{Config: gomoe.Config{Mesh: m}, Room: 90, Snapshots: 16}
			plain := model(o)
			o.Speculate = NGram
			guessing := model(o)
			for i, q := range []Request{{}, {Sampling: Sampling{Temperature: 0.2, Seed: 3}}, {Sampling: Sampling{Temperature: 1, TopP: 0.9, Seed: 4}}, {N: 150, Slide: true, Keep: 2}, {N: 5}, {Ends: map[int32]bool{7: true, 12: true, 30: true}}} {
				for _, p := range prompts {
					q.Prompt, q.Top, q.Logits = p, 2, true
					want, whole := all(plain, q)
					got, result := all(guessing, q)
					require.Equal(t, want, got, "%s, request %d on mesh %q", name, i, mesh)
					require.Equal(t, whole.Finish, result.Finish)
					require.Equal(t, whole.Tokens, result.Tokens)
				}
			}
			s := guessing.Stats()
			require.Positive(t, s.Accepted, name)
			require.Greater(t, s.Guessed, s.Accepted)
			require.Equal(t, plain.Stats().Generated, s.Generated)
			require.Less(t, s.Steps, plain.Stats().Steps, name)
		}
	}
	_, err := Open(t.Context(), nil, nil, Options{Room: 8, Speculate: "draft"})
	require.ErrorContains(t, err, `speculate "draft", want nothing or "ngram"`)
}

// Guesses are the tokens after the last three where those were seen before, repeat a text that repeats, and become rare
// where none is accepted.
func TestGuess(t *testing.T) {
	var g speculation
	require.Nil(t, g.guess([]int32{1, 2}))
	require.Nil(t, g.guess([]int32{1, 2, 3, 4}))
	require.Equal(t, []int32{4, 9, 1, 2, 3, 4, 9}, g.guess([]int32{1, 2, 3, 4, 9, 1, 2, 3}))
	g = speculation{}
	require.Equal(t, []int32{5, 5, 5, 5, 5, 5, 5}, g.guess([]int32{0, 5, 5, 5, 5}))
	g.learn(7, 7)
	require.Len(t, g.guess([]int32{0, 5, 5, 5, 5, 5}), 31)
	asked := 0
	for range 1000 {
		if n := len(g.guess([]int32{0, 5, 5, 5, 5, 5})); n > 0 {
			asked++
			g.learn(0, n)
		}
	}
	require.Less(t, asked, 12)
}
