package models

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/tensor"
)

// publishedCase is a config.json with the names and values of a published one, for a model of testdata, and what transformers computes
// with it; testdata/published.py has written it.
type publishedCase struct {
	Name, Model string
	Config      json.RawMessage
	Absent      string               // a pattern of the tensors that the model lacks
	More        map[string][]float32 // vectors that it has more
	Logits      []float32            // after the last token
	Generated   [][]int32            // prompts with what follows, where it depends on their length
}

func publishedCases(t *testing.T) (cases []publishedCase) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "published.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &cases))
	require.NotEmpty(t, cases)
	return cases
}

// open writes the model of a case, and opens it.
func (p publishedCase) open(t *testing.T) (*checkpoint.Checkpoint, *Model) {
	t.Helper()
	dir := changed(t, p.Model, func(ts []tensor.Source) (out []tensor.Source) {
		absent := regexp.MustCompile(p.Absent)
		for _, s := range ts {
			if p.Absent == "" || !absent.MatchString(s.Name) {
				out = append(out, s)
			}
		}
		for name, x := range p.More {
			a, err := array.Of(x, len(x))
			require.NoError(t, err)
			out = append(out, tensor.Of(name, a))
		}
		return out
	}, func(string) string { return string(p.Config) })
	c, err := checkpoint.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	m, err := Open(c)
	require.NoError(t, err, p.Name)
	return c, m
}

// Published config.json files give transformers' logits.
func TestPublishedLogits(t *testing.T) {
	for _, p := range publishedCases(t) {
		c, m := p.open(t)
		tokens := expectedOf(t, p.Model).Tokens
		meshes := []string{""}
		if p.Generated != nil { // operations that no other model has
			meshes = append(meshes, "dp=2", "tp=2")
		}
		for _, mesh := range meshes {
			got := array.Data[float32](logitsOf(t, c, m, mesh, tokens))[11*m.Vocab:][:m.Vocab]
			largest, worst := 0.0, 0.0
			for i, y := range p.Logits {
				largest = math.Max(largest, math.Abs(float64(y)))
				worst = math.Max(worst, math.Abs(float64(y)-float64(got[i])))
			}
			if !(worst <= 1e-5*largest) {
				t.Errorf("%s on mesh %q: logits are off by %g of the largest, %g", p.Name, mesh, worst/largest, largest)
			}
		}
	}
}

// The tokens of texts whose positions depend on their length are transformers', too, where keys of a shorter text are in the caches.
func TestGreedyOfGrowingPositions(t *testing.T) {
	n := 0
	for _, p := range publishedCases(t) {
		for i, want := range p.Generated {
			n++
			c, m := p.open(t)
			prompt := []int{5, 11}[i]
			require.Equal(t, fmt.Sprint(want), fmt.Sprint(greedy(t, c, m, want[:prompt], len(want))), "%s after %d tokens", p.Name, prompt)
		}
	}
	require.GreaterOrEqual(t, n, 10)
}
