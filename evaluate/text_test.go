package evaluate

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/sharding"
)

// open opens a model of package models' testdata, and reads tokens and what transformers computes with them.
func open(t *testing.T, name string) (*models.Model, *checkpoint.Checkpoint, [][]int32, [][][]float32) {
	t.Helper()
	dir := filepath.Join("../models/testdata", name)
	c, err := checkpoint.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	m, err := models.Open(c)
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	require.NoError(t, err)
	var want struct {
		Tokens [][]int32
		Logits [][][]float32
	}
	require.NoError(t, json.Unmarshal(text, &want))
	require.NotEmpty(t, want.Tokens)
	return m, c, want.Tokens, want.Logits
}

// loss returns -log(p) of a token, computed plainly.
func loss(logits []float32, token int32) float64 {
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x))
	}
	return math.Log(sum) - float64(logits[token])
}

// The loss is that of transformers' logits, window by window, and has the same bits on every mesh without tp; so has the load.
func TestText(t *testing.T) {
	for name, meshes := range map[string][]string{"olmoe": {"ep=2", "dp=2", "ep=4"}, "mixtral": {"ep=3"}, "llama": nil} {
		m, c, tokens, logits := open(t, name)
		var ids []int32
		want, n := 0.0, 0
		for b, window := range tokens {
			require.Len(t, window, len(tokens[0]))
			ids = append(ids, window...)
			for i, id := range window[1:] {
				want += loss(logits[b][i], id)
				n++
			}
		}
		// A shorter last window, and a token behind it of which nothing is predicted.
		short := len(tokens[0]) - 1
		ids = append(ids, tokens[0][:short]...)
		for i, id := range tokens[0][1:short] {
			want += loss(logits[0][i], id)
			n++
		}
		want /= float64(n)
		var first Result
		for i, mesh := range append([]string{""}, meshes...) {
			o := Options{Window: len(tokens[0])}
			var err error
			o.Mesh, err = sharding.ParseMesh(mesh)
			require.NoError(t, err)
			last := 0
			o.Progress = func(done, total int) { last = done; require.Equal(t, len(ids), total) }
			r, err := Text(context.Background(), m, c, ids, o)
			require.NoError(t, err)
			require.Equal(t, len(ids), last)
			require.InDelta(t, want, r.Loss, 1e-5, "%s %s", name, mesh)
			require.Equal(t, n, r.Predicted)
			require.Equal(t, len(tokens)+1, r.Windows)
			if i == 0 {
				first = r
			}
			require.Equal(t, math.Float64bits(first.Loss), math.Float64bits(r.Loss), "%s %s", name, mesh)
			require.Equal(t, first.Load, r.Load, "%s %s", name, mesh)
			if m.Experts == 0 {
				require.Empty(t, r.Load)
				continue
			}
			require.Len(t, r.Load, m.Layers)
			for _, l := range r.Load {
				require.Len(t, l.Shares, m.Experts)
				sum := 0.0
				for _, x := range l.Shares {
					pairs := x * float64(len(ids)*m.TopK)
					require.InDelta(t, math.Round(pairs), pairs, 1e-6)
					sum += x
				}
				require.InDelta(t, 1, sum, 1e-12)
			}
		}
		require.Equal(t, math.Exp(first.Loss), first.Perplexity())
	}
}

// A single token behind the last window is left out.
func TestLastToken(t *testing.T) {
	m, c, tokens, _ := open(t, "olmoe")
	r, err := Text(context.Background(), m, c, tokens[0][:9], Options{Window: 4})
	require.NoError(t, err)
	require.Equal(t, 2, r.Windows)
	require.Equal(t, 6, r.Predicted)
}

// With sums of rows that come home, the loss is close to that of one rank, and in bf16 less close.
func TestExchange(t *testing.T) {
	m, c, tokens, _ := open(t, "olmoe")
	want, err := Text(context.Background(), m, c, tokens[0], Options{})
	require.NoError(t, err)
	mesh, err := sharding.ParseMesh("ep=2")
	require.NoError(t, err)
	for wire, most := range map[graph.DType]float64{graph.NoDType: 1e-6, graph.BF16: 1e-2} {
		o := Options{Exchange: ep.Sum, Wire: wire}
		o.Mesh = mesh
		r, err := Text(context.Background(), m, c, tokens[0], o)
		require.NoError(t, err)
		require.InDelta(t, want.Loss, r.Loss, most, "sums in %v", wire)
		if wire == graph.BF16 && r.Loss == want.Loss {
			t.Error("sums in bf16 change nothing")
		}
	}
}

func TestRefuses(t *testing.T) {
	m, c, _, _ := open(t, "olmoe")
	for _, x := range []struct {
		ids    []int32
		window int
		want   string
	}{
		{[]int32{1}, 0, "evaluate: a text of 1 tokens, want at least 2"},
		{[]int32{1, 40}, 0, "token 1 of the text is 40, want one of 0 to 39"},
		{[]int32{1, -1}, 0, "token 1 of the text is -1"},
		{[]int32{1, 2}, 1, "windows of 1 tokens, want 2 to 96"},
		{[]int32{1, 2}, 97, "windows of 97 tokens, want 2 to 96"},
	} {
		_, err := Text(context.Background(), m, c, x.ids, Options{Window: x.window})
		require.ErrorContains(t, err, x.want)
	}
}
