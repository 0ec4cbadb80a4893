package models_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// acme is a family of another module: OLMoE under another name, with another default.
func acme() models.Family {
	return models.Family{
		Name: "acme_moe", Experts: "num_experts", Defaults: map[string]any{"rms_norm_eps": 1e-5},
		Open: func(r *models.Reader) (*models.Model, error) {
			d := models.ReadDecoder(r)
			a := models.ReadAttention(r, d)
			a.Norm = nn.Together
			a.Bias = r.FlagOrTensor("attention_bias", false, "")
			a.Clip = r.NumberOr(models.Keys{"clip_qkv"}, 0)
			d.Attention = func(int) models.Mixer { return a }
			moe := nn.MoE{
				Experts: r.Experts(),
				Width:   r.Size(models.Keys{"intermediate_size"}),
				Route:   primitives.RouteOp{TopK: r.Size(models.Keys{"num_experts_per_tok"}), Renormalize: r.FlagOr(models.Keys{"norm_topk_prob"}, false)},
			}
			d.Experts("mlp", moe, 0, nil)
			return d.Model(r, moe.Experts, moe.Route.TopK)
		},
	}
}

// A family of another module opens its files, and families given to Open come before those of the package.
func TestFamilyOfAnotherModule(t *testing.T) {
	traced := func(c *checkpoint.Checkpoint, families ...models.Family) (string, *models.Model) {
		m, err := models.Open(c, families...)
		require.NoError(t, err)
		p, err := graph.Trace("model", func(tr *graph.Tracer) []*graph.Value {
			return []*graph.Value{m.Forward(nn.New(tr, nn.Options{}), tr.Input("tokens", graph.I32, 1, 8), &nn.Step{})}
		})
		require.NoError(t, err)
		return p.String(), m
	}
	c, err := checkpoint.Open("testdata/olmoe")
	require.NoError(t, err)
	defer c.Close()
	want, _ := traced(c)
	text, err := os.ReadFile("testdata/olmoe/config.json")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(strings.Replace(string(text), `"olmoe"`, `"acme_moe"`, 1)), 0o666))
	weights, err := filepath.Abs(c.Files[0])
	require.NoError(t, err)
	require.NoError(t, os.Symlink(weights, filepath.Join(dir, "model.safetensors")))
	other, err := checkpoint.Open(dir)
	require.NoError(t, err)
	defer other.Close()
	got, m := traced(other, acme())
	require.Equal(t, want, got)
	require.Equal(t, "acme_moe", m.Family.Name)
	_, err = models.Open(other)
	require.ErrorContains(t, err, `architecture "acme_moe", want one of deepseek_v2`)
	own := acme()
	own.Name = "olmoe"
	_, m = traced(c, own)
	require.Nil(t, m.Family.New, "the given family is the first")
}
