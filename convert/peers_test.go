//go:build peers

package convert

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/evaluate"
	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/models"
)

// llama.cpp and mlx-lm give the losses and the tokens of the model whose files were converted for them, or the conversion is refused.
// Their Pythons are in GOMOE_TEST_LLAMA, with llama_cpp, and GOMOE_TEST_MLX, with mlx_lm.
func TestPrograms(t *testing.T) {
	type m = map[string]any
	yarn := func(more m) m { return rope("yarn", more)["rope_parameters"].(m) }
	plain := rope("default", nil)["rope_parameters"]
	deepseek := yarn(m{"mscale": 0.7, "mscale_all_dim": 0.7})
	ids := make([]int32, 40)
	for k := range ids {
		ids[k] = int32((k*k*7 + 3*k) % 40)
	}
	all, compared := map[Layout][]converted{}, map[Layout]map[string]bool{GGUF: {}, MLX: {}}
	for name, configurations := range map[string][]m{
		"llama":              {{"rope_parameters": plain}, {"rope_parameters": yarn(nil)}, {"rope_parameters": yarn(m{"beta_fast": 8})}, rope("linear", nil), {}, rope("dynamic", nil), {"tie_word_embeddings": true, "rope_parameters": plain}, {"attention_bias": false}},
		"mixtral":            {{}, {"sliding_window": 5}, {"sliding_window": 96}, {"head_dim": 8}, rope("linear", nil), {"tie_word_embeddings": true}, {"num_experts_per_tok": 1}},
		"olmoe":              {{}, {"clip_qkv": nil}, {"clip_qkv": nil, "norm_topk_prob": true}, {"clip_qkv": nil, "num_key_value_heads": 2}, {"clip_qkv": nil, "tie_word_embeddings": true}, {"clip_qkv": nil, "rope_parameters": yarn(nil)}},
		"qwen2_moe":          {{}, {"norm_topk_prob": true}, {"decoder_sparse_step": 2}, {"tie_word_embeddings": true}, {"qkv_bias": false}, {"rope_parameters": yarn(nil)}},
		"qwen3":              {{}, {"attention_bias": true}, {"rope_parameters": yarn(nil)}, {"tie_word_embeddings": false}, rope("linear", nil), {"use_sliding_window": true, "sliding_window": 5, "layer_types": nil, "max_window_layers": 0}},
		"qwen3_moe":          {{}, {"mlp_only_layers": nil}, {"mlp_only_layers": nil, "norm_topk_prob": false}, {"mlp_only_layers": nil, "rope_parameters": yarn(nil)}, {"mlp_only_layers": nil, "tie_word_embeddings": true}},
		"glm4_moe":           {{"num_nextn_predict_layers": 0}, {"num_nextn_predict_layers": 0, "first_k_dense_replace": 0}, {"num_nextn_predict_layers": 0, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2}, {"num_nextn_predict_layers": 0, "use_qk_norm": false, "attention_bias": false}},
		"gpt_oss":            {{}, {"swiglu_limit": 7, "rope_parameters": plain}, {"swiglu_limit": 7, "rope_parameters": yarn(nil)}, {"swiglu_limit": 7, "rope_parameters": yarn(m{"truncate": false})}, {"swiglu_limit": 2, "rope_parameters": plain}},
		"deepseek_v2":        {{}, {"q_lora_rank": 7, "rope_parameters": deepseek}, {"q_lora_rank": 7, "rope_parameters": plain}},
		"deepseek_v2_groups": {{}, {"rope_parameters": deepseek}},
		"deepseek_v3": {{"num_nextn_predict_layers": 0}, {"rms_norm_eps": 1e-6, "num_nextn_predict_layers": 0, "rope_parameters": deepseek, "first_k_dense_replace": 0}, {"rms_norm_eps": 1e-6, "num_nextn_predict_layers": 0, "rope_parameters": plain, "n_group": 1, "topk_group": 1, "tie_word_embeddings": true},
			{"rms_norm_eps": 1e-6, "num_nextn_predict_layers": 0, "rope_parameters": deepseek, "n_group": 1, "topk_group": 1}, {"rms_norm_eps": 1e-6, "num_nextn_predict_layers": 0, "rope_parameters": plain, "rope_interleave": false}},
	} {
		for i, settings := range configurations {
			seed := uint64(i + 1)
			src := made(t, name, settings, func(param string, x []float32) { random(&seed, param, x) })
			c, model, _ := open(t, src)
			r, err := evaluate.Text(context.Background(), model, c, ids, evaluate.Options{})
			require.NoError(t, err)
			var tokens []int32
			g, err := generate.Open(t.Context(), model, c, generate.Options{Room: 64})
			require.NoError(t, err)
			_, err = g.Generate(context.Background(), generate.Request{Prompt: ids[:12], N: 12}, func(x generate.Token) bool {
				tokens = append(tokens, x.ID)
				return true
			})
			require.NoError(t, err)
			require.NoError(t, g.Close())
			for _, layout := range []Layout{GGUF, MLX} {
				x := converted{what: fmt.Sprint(name, " ", settings, " ", layout), path: filepath.Join(t.TempDir(), "m.gguf"), loss: r.Loss, tokens: tokens}
				if err := Model(context.Background(), x.path, src, Options{Layout: layout}); err != nil {
					text, _, _ := strings.Cut(err.Error(), "; ")
					t.Logf("%s: refused: %s", x.what, text)
					require.Regexp(t, "whatever the file says|have no key for it|does not read for|negative biases", text)
					continue
				}
				all[layout] = append(all[layout], x)
				compared[layout][model.Family.Name] = true
			}
		}
	}
	for _, f := range models.Families() {
		require.True(t, compared[GGUF][f.Name] && compared[MLX][f.Name], "%s: want a model for each program", f.Name)
	}
	for layout, python := range map[Layout]string{GGUF: "GOMOE_TEST_LLAMA", MLX: "GOMOE_TEST_MLX"} {
		for i, answer := range asked(t, os.Getenv(python), layout, all[layout], ids) {
			x := all[layout][i]
			t.Logf("%s: loss %.6f, and %.6f here", x.what, answer.Loss, x.loss)
			if math.Abs(answer.Loss-x.loss) > 2e-5 {
				t.Errorf("%s: loss %.6f, and %.6f here", x.what, answer.Loss, x.loss)
			}
			require.Equal(t, x.tokens, answer.Tokens, x.what)
		}
	}
}

// converted is a model in a program's files, with the mean loss of the text and the tokens that follow its beginning here.
type converted struct {
	what, path string
	loss       float64
	tokens     []int32
}

// random sets numbers with which every setting matters: products keep their size, and norms are near 1.
func random(seed *uint64, param string, x []float32) {
	scale, middle := 0.5, 0.0
	if strings.Contains(param, "norm") {
		scale, middle = 0.3, 1
	}
	for i := range x {
		sum := -6.0
		for range 12 {
			*seed = *seed*6364136223846793005 + 1442695040888963407
			sum += float64(*seed>>11) / (1 << 53)
		}
		x[i] = float32(middle + scale*sum)
	}
}

type answer struct {
	Loss   float64
	Tokens []int32
}

// asked returns, for each model, the mean loss of ids and the 12 tokens that follow the first 12 of them, as a program computes them.
func asked(t *testing.T, python string, layout Layout, models []converted, ids []int32) (all []answer) {
	t.Helper()
	require.NotEmpty(t, python, "want a python in GOMOE_TEST_LLAMA and in GOMOE_TEST_MLX")
	text, err := json.Marshal(ids)
	require.NoError(t, err)
	args := []string{"-c", map[Layout]string{GGUF: askLlama, MLX: askMLX}[layout] + asking, string(text)}
	for _, x := range models {
		args = append(args, x.path)
	}
	out, err := exec.Command(python, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &all))
	require.Len(t, all, len(models))
	return all
}

const (
	askLlama = `
import sys, json, numpy as np, llama_cpp
def opened(path):
    model = llama_cpp.Llama(model_path=path, n_ctx=128, n_threads=1, type_k=0, type_v=0, yarn_beta_fast=-1.0, yarn_beta_slow=-1.0, yarn_attn_factor=-1.0, logits_all=True, verbose=False)
    def logits(ids):
        model.reset()
        model.eval(ids)
        return np.array(model.scores[:len(ids)], np.float64)
    return logits
`
	askMLX = `
import sys, json, numpy as np, mlx.core as mx
from pathlib import Path
from mlx_lm.utils import load_model
def opened(path):
    model, _ = load_model(Path(path))
    return lambda ids: np.array(model(mx.array([ids]))[0].astype(mx.float32), np.float64)
`
	asking = `
ids = json.loads(sys.argv[1])
answers = []
for path in sys.argv[2:]:
    logits = opened(path)
    x = logits(ids)[:-1]
    x = x - x.max(-1, keepdims=True)
    loss = np.mean(np.log(np.exp(x).sum(-1)) - x[np.arange(len(x)), ids[1:]])
    text = ids[:12]
    for _ in range(12):
        text.append(int(logits(text)[-1].argmax()))
    answers.append({"Loss": float(loss), "Tokens": text[12:]})
print()
print(json.dumps(answers))
`
)
