package generate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/models"
)

// Where positions depend on the length of the text, a prompt that is read in blocks, and one that begins as an earlier request, is followed
// by the tokens that transformers generates from it alone.
func TestGrowingPositions(t *testing.T) {
	text, err := os.ReadFile("../models/testdata/published.json")
	require.NoError(t, err)
	var cases []struct {
		Name, Model, Absent string
		Config              json.RawMessage
		Generated           [][]int32
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	tried := 0
	for _, x := range cases {
		if len(x.Generated) == 0 {
			continue
		}
		tried++
		c, err := checkpoint.Open(filepath.Join("../models/testdata", x.Model))
		require.NoError(t, err)
		var ts []tensor.Source
		for _, s := range c.Tensors {
			if x.Absent == "" || !regexp.MustCompile(x.Absent).MatchString(s.Name) {
				a, err := s.Array()
				require.NoError(t, err)
				ts = append(ts, tensor.Of(s.Name, a))
			}
		}
		dir := t.TempDir()
		require.NoError(t, safetensors.Write(filepath.Join(dir, safetensors.FileName), nil, ts))
		require.NoError(t, os.WriteFile(filepath.Join(dir, checkpoint.ConfigName), x.Config, 0o666))
		require.NoError(t, c.Close())
		c, err = checkpoint.Open(dir)
		require.NoError(t, err)
		m, err := models.Open(c)
		require.NoError(t, err)
		g, err := Open(t.Context(), m, c, Options{Room: 64})
		require.NoError(t, err)
		for range 2 { // the second time tokens of the first are in the caches
			for i, want := range x.Generated {
				n := []int{5, 11}[i]
				got, _ := generate(t, g, Request{Prompt: want[:n], N: len(want) - n})
				require.Equal(t, want[n:], got, "%s after %d tokens", x.Name, n)
			}
		}
		require.NoError(t, g.Close())
	}
	require.GreaterOrEqual(t, tried, 5)
}
