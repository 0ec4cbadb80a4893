package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train/lm"
)

// The saved model has every weight once, under the names that a Mixtral has and transposed as torch has the
// weights of linear layers. It is the same file whatever the mesh.
func TestSave(t *testing.T) {
	args, _ := tiny(t, "-width", "32", "-ffn", "64")
	c, o, _ := setup(t, args...)
	var files [][]byte
	for _, mesh := range []string{"", "dp=2,ep=2"} {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		tr := started(t, c, o, m, o.Seed, runtime.Options{}, false)
		defer tr.Close()
		weights, err := tr.Weights(context.Background())
		require.NoError(t, err)
		dir := t.TempDir()
		o.Out = dir
		_, err = lm.Command{Model: c}.Save(o, tr.p.Params, weights)
		require.NoError(t, err)
		saved, err := checkpoint.Open(dir)
		require.NoError(t, err)
		defer saved.Close()
		var all []byte
		for _, x := range saved.Tensors {
			all = append(append(all, x.Name...), x.Mem...)
		}
		files = append(files, all)
		if mesh != "" {
			continue
		}
		s, err := saved.Summary()
		require.NoError(t, err)
		n, expert := int(c.Size().Weights), 3*c.Width*c.FFN
		active := n - c.Layers*(c.Experts-c.TopK)*expert
		if saved.Config.Architecture != "mixtral" || s.Layers != c.Layers || s.Experts != c.Experts || s.TopK != c.TopK || s.Parameters != int64(n) || s.Active != int64(active) {
			t.Errorf("%s: %+v, want %d parameters of which %d are active", saved.Config.Architecture, s, n, active)
		}
		equal := func(name string, want []float32, rows, cols int) {
			t.Helper()
			x, err := saved.Tensor(name)
			require.NoError(t, err)
			a, err := x.Array()
			require.NoError(t, err)
			if !slices.Equal(a.Type.Shape, []int{cols, rows}) {
				t.Fatalf("%s is %s, want [%d,%d]", name, a.Type, cols, rows)
			}
			got := array.Data[float32](a)
			for i := range rows {
				for j := range cols {
					if got[j*rows+i] != want[i*cols+j] {
						t.Fatalf("%s at %d,%d is %g, want %g", name, j, i, got[j*rows+i], want[i*cols+j])
					}
				}
			}
		}
		d, f := c.Width, c.FFN
		for hf, own := range map[string]string{"q": "wq", "k": "wk", "v": "wv", "o": "wo"} {
			equal("model.layers.1.self_attn."+hf+"_proj.weight", array.Data[float32](weights["l1_"+own]), d, d)
		}
		equal("model.layers.1.block_sparse_moe.gate.weight", array.Data[float32](weights["l1_router"]), d, c.Experts)
		equal("lm_head.weight", array.Data[float32](weights["head"]), d, lm.Vocab)
		for e := range c.Experts {
			at := fmt.Sprintf("model.layers.1.block_sparse_moe.experts.%d.", e)
			equal(at+"w1.weight", array.Data[float32](weights["l1_gate"])[e*d*f:], d, f)
			equal(at+"w3.weight", array.Data[float32](weights["l1_up"])[e*d*f:], d, f)
			equal(at+"w2.weight", array.Data[float32](weights["l1_down"])[e*d*f:], f, d)
		}
		for hf, own := range map[string]string{"model.embed_tokens.weight": "embed", "model.norm.weight": "norm", "model.layers.1.input_layernorm.weight": "l1_norm1", "model.layers.1.post_attention_layernorm.weight": "l1_norm2"} {
			x, err := saved.Tensor(hf)
			require.NoError(t, err)
			require.Equal(t, weights[own].Bytes(), x.Mem, hf)
		}
	}
	require.Equal(t, files[0], files[1])
}

// A run ends with the model on the disk, or says that it has none.
func TestRunSaves(t *testing.T) {
	args, _ := tiny(t, "-steps", "2", "-sample", "0")
	out := t.TempDir()
	var stdout strings.Builder
	require.NoError(t, program().Run(context.Background(), context.Background(), append(args, "-out", out), &stdout))
	require.Contains(t, stdout.String(), "written: metrics.csv, training.png, model.safetensors, config.json, tokenizer.json in "+out)
	m, err := checkpoint.Open(out)
	require.NoError(t, err)
	defer m.Close()
	require.Equal(t, filepath.Join(out, "config.json"), m.Config.Path)
	heads, ok, err := m.Config.Int("num_attention_heads")
	if c, _, _ := setup(t, args...); err != nil || !ok || heads != c.Heads {
		t.Errorf("%d heads, %v", heads, err)
	}
}

// A model that cannot be written is found out before the training.
func TestNoPlaceForTheModel(t *testing.T) {
	for _, name := range []string{"model.safetensors", "config.json", "tokenizer.json"} {
		args, _ := tiny(t, "-steps", "2", "-sample", "0")
		out := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(out, name), 0o777))
		var stdout strings.Builder
		err := program().Run(context.Background(), context.Background(), append(args, "-out", out), &stdout)
		require.ErrorContains(t, err, "-out: create "+filepath.Join(out, name)+": this is a folder")
		require.NotContains(t, stdout.String(), "loss")
	}
}
