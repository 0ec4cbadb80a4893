package models

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
)

// withNumbers writes a model of testdata again, with a tensor of numbers for each expert, and opens it.
func withNumbers(t *testing.T, name string) (*checkpoint.Checkpoint, *Model) {
	t.Helper()
	c, m, _ := openTest(t, name)
	var ts []tensor.Source
	for _, p := range paramsOf(t, c, m) {
		w, err := Find(c, p)
		require.NoError(t, err)
		if p.Scales {
			continue
		}
		a, err := w.Numbers().Array()
		require.NoError(t, err)
		a = a.As(graph.F32)
		if !strings.Contains(p.Name, "*") {
			ts = append(ts, tensor.Of(MLXName(p), a))
			continue
		}
		for e := range p.Type.Shape[0] {
			ts = append(ts, tensor.Of(strings.Replace(p.Name, "*", string(rune('0'+e)), 1), a.Rows(e, e+1).Reshape(a.Type.Shape[1:]...)))
		}
	}
	dir := t.TempDir()
	require.NoError(t, safetensors.Write(filepath.Join(dir, safetensors.FileName), nil, ts))
	text, err := os.ReadFile(filepath.Join("testdata", name, checkpoint.ConfigName))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, checkpoint.ConfigName), text, 0o666))
	c, err = checkpoint.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	m, err = Open(c)
	require.NoError(t, err)
	return c, m
}

// The numbers that blocks of MXFP4 stand for give transformers' logits, and the blocks themselves nearly, as products with
// them round rows to int8. Ranks that read their own experts get the same blocks.
func TestMXFP4(t *testing.T) {
	c, m, want := openTest(t, "gpt_oss_mxfp4")
	for _, p := range paramsOf(t, c, m) {
		if strings.HasSuffix(p.Name, "*.up_proj.weight") && p.Type.DType != graph.MXFP4 {
			t.Errorf("%s is %s, want blocks of MXFP4", p.Name, p.Type)
		}
	}
	numbers, n := withNumbers(t, "gpt_oss_mxfp4")
	isNear(t, "numbers of gpt_oss_mxfp4", n.Vocab, logitsOf(t, numbers, n, "", want.Tokens), want)

	largest, sum, count := 0.0, 0.0, 0.0
	got := logitsOf(t, c, m, "", want.Tokens)
	for i, x := range array.Data[float32](got) {
		y := float64(want.Logits[i/(12*m.Vocab)][i/m.Vocab%12][i%m.Vocab])
		largest, sum, count = math.Max(largest, math.Abs(y)), sum+(float64(x)-y)*(float64(x)-y), count+1
	}
	if off := math.Sqrt(sum / count); !(off < 0.03*largest) {
		t.Errorf("blocks: logits are off by %g of the largest, %g", off/largest, largest)
	}
	for _, mesh := range []string{"ep=3", "dp=2"} {
		if !array.Equal(got, logitsOf(t, c, m, mesh, want.Tokens)) {
			t.Errorf("on mesh %q the bits are not those of one rank", mesh)
		}
	}
}

// Experts of all families may lie in one tensor with the rows of gate before those of up, and a tensor for each gives the same.
func TestFused(t *testing.T) {
	_, m, want := openTest(t, "olmoe")
	one, err := checkpoint.Open(fusedModel(t))
	require.NoError(t, err)
	defer one.Close()
	for _, mesh := range []string{"", "ep=4", "ep=2,tp=2"} {
		isNear(t, "one tensor for gate and up", m.Vocab, logitsOf(t, one, m, mesh, want.Tokens), want)
	}
}

// Mixtral's experts have other names in folders that transformers 5 saves in the layout of its memory.
func TestFusedMixtral(t *testing.T) {
	c, m, want := openTest(t, "mixtral")
	var ts []tensor.Source
	parts := map[string]array.Array{}
	for _, p := range paramsOf(t, c, m) {
		w, err := Find(c, p)
		require.NoError(t, err)
		a, err := w.Array()
		require.NoError(t, err)
		before, part, experts := strings.Cut(strings.Replace(p.Name, "block_sparse_moe", "mlp", 1), "experts.*.")
		switch {
		case !experts:
			ts = append(ts, tensor.Of(before, a))
		case part == "w2.weight":
			ts = append(ts, tensor.Of(before+"experts.down_proj", a))
		default:
			parts[before+part] = a
		}
	}
	for name, gate := range parts {
		before, ok := strings.CutSuffix(name, "w1.weight")
		if !ok {
			continue
		}
		up, shape, both := parts[before+"w3.weight"], gate.Type.Shape, []byte{}
		for e := range shape[0] {
			both = append(append(both, gate.Rows(e, e+1).Bytes()...), up.Rows(e, e+1).Bytes()...)
		}
		ts = append(ts, tensor.Of(before+"experts.gate_up_proj", array.Over(graph.T(graph.F32, shape[0], 2*shape[1], shape[2]), both)))
	}
	other, err := checkpoint.Open(changed(t, "mixtral", func([]tensor.Source) []tensor.Source { return ts }, nil))
	require.NoError(t, err)
	defer other.Close()
	for _, mesh := range []string{"", "ep=3"} {
		isNear(t, "mixtral with transformers 5's names", m.Vocab, logitsOf(t, other, m, mesh, want.Tokens), want)
	}
}

// fusedModel writes the model olmoe of testdata with the rows of gate and up in one tensor.
func fusedModel(t *testing.T) string {
	t.Helper()
	c, m, _ := openTest(t, "olmoe")
	var ts []tensor.Source
	parts := map[string]array.Array{}
	for _, p := range paramsOf(t, c, m) {
		w, err := Find(c, p)
		require.NoError(t, err)
		a, err := w.Array()
		require.NoError(t, err)
		before, part, ok := strings.Cut(p.Name, "experts.*.")
		switch part, _, _ = strings.Cut(part, "."); {
		case !ok:
			ts = append(ts, tensor.Of(p.Name, a))
		case part == "gate_proj":
			parts[before] = a
		case part == "down_proj":
			ts = append(ts, tensor.Of(before+"experts.down_proj", a))
		default:
			both, shape := []byte{}, a.Type.Shape
			for e := range shape[0] {
				both = append(append(both, parts[before].Rows(e, e+1).Bytes()...), a.Rows(e, e+1).Bytes()...)
			}
			ts = append(ts, tensor.Of(before+"experts.gate_up_proj", array.Over(graph.T(graph.F32, shape[0], 2*shape[1], shape[2]), both)))
		}
	}
	return changed(t, "olmoe", func([]tensor.Source) []tensor.Source { return ts }, nil)
}
