package generate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/gguf"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/tokenizer"
)

// writeGGUF writes a random OLMoE of one layer with 64 tokens, which are characters, to a GGUF file. Its matrices
// have the element type d, or with numbers what blocks of type d stand for.
func writeGGUF(t *testing.T, d graph.DType, numbers bool, change func([]gguf.Meta) []gguf.Meta) string {
	t.Helper()
	return writeGGUFOf(t, 64, 32, 4, d, numbers, change)
}

// writeGGUFOf is writeGGUF with other sizes.
func writeGGUFOf(t *testing.T, hidden, width, experts int, d graph.DType, numbers bool, change func([]gguf.Meta) []gguf.Meta) string {
	t.Helper()
	const vocab = 64
	rng := rand.New(rand.NewPCG(1, 1))
	var ts []tensor.Source
	add := func(name string, shape ...int) {
		a := array.New(graph.T(graph.F32, shape...))
		for i := range array.Data[float32](a) {
			array.Data[float32](a)[i] = float32(rng.NormFloat64()) * 0.3
			if len(shape) == 1 {
				array.Data[float32](a)[i] += 1
			}
		}
		if len(shape) > 1 && !strings.Contains(name, "inp") {
			if a = a.As(d); numbers {
				a = a.As(graph.F32)
			}
		}
		ts = append(ts, tensor.Of(name, a))
	}
	add("token_embd.weight", vocab, hidden)
	for _, name := range []string{"attn_norm", "ffn_norm", "attn_q_norm", "attn_k_norm"} {
		add("blk.0."+name+".weight", hidden)
	}
	for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
		add("blk.0."+name+".weight", hidden, hidden)
	}
	add("blk.0.ffn_gate_inp.weight", experts, hidden)
	add("blk.0.ffn_gate_exps.weight", experts, width, hidden)
	add("blk.0.ffn_up_exps.weight", experts, width, hidden)
	add("blk.0.ffn_down_exps.weight", experts, hidden, width)
	add("output_norm.weight", hidden)
	add("output.weight", vocab, hidden)
	var tokens []string
	for i := range vocab {
		tokens = append(tokens, string(rune('!'+i)))
	}
	meta := []gguf.Meta{
		{Key: "general.architecture", Value: "olmoe"}, {Key: "olmoe.context_length", Value: uint32(64)}, {Key: "olmoe.embedding_length", Value: uint32(hidden)},
		{Key: "olmoe.block_count", Value: uint32(1)}, {Key: "olmoe.attention.head_count", Value: uint32(4)}, {Key: "olmoe.expert_count", Value: uint32(experts)},
		{Key: "olmoe.feed_forward_length", Value: uint32(width)}, {Key: "olmoe.expert_used_count", Value: uint32(2)},
		{Key: "tokenizer.ggml.model", Value: "gpt2"}, {Key: "tokenizer.ggml.pre", Value: "olmo"}, {Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.merges", Value: []string{}}, {Key: "tokenizer.ggml.eos_token_id", Value: uint32(63)},
		{Key: "olmoe.attention.layer_norm_rms_epsilon", Value: float32(1e-5)},
	}
	if change != nil {
		meta = change(meta)
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, gguf.Write(path, meta, ts))
	return path
}

// logits returns the logits after a prompt, and its tokens.
func logits(t *testing.T, path, prompt string) ([]float32, []int32) {
	t.Helper()
	c, err := checkpoint.Open(path)
	require.NoError(t, err)
	defer c.Close()
	tok, err := Tokenizer(c)
	require.NoError(t, err)
	require.Equal(t, int32(63), tok.Special().EOS)
	ids, err := tok.Encode(prompt, tokenizer.Options{})
	require.NoError(t, err)
	m, err := models.Open(c)
	require.NoError(t, err)
	g, err := Open(t.Context(), m, c, Options{})
	require.NoError(t, err)
	defer g.Close()
	return logitsOf(t, g, ids, 1, 1, 1, 1), ids
}

// A GGUF file has the model and the tokenizer. Weights in blocks, the table of tokens too, come close to the numbers
// that they stand for; products round the other argument to int8.
func TestGGUF(t *testing.T) {
	for _, d := range []graph.DType{graph.Q8_0, graph.Q4_0, graph.Q5_1, graph.MXFP4} {
		got, ids := logits(t, writeGGUF(t, d, false, nil), "#%A$")
		require.Equal(t, "[2 4 32 3]", fmt.Sprint(ids))
		want, _ := logits(t, writeGGUF(t, d, true, nil), "#%A$")
		largest, worst := 0.0, 0.0
		for i := range want {
			largest = math.Max(largest, math.Abs(float64(want[i])))
			worst = math.Max(worst, math.Abs(float64(want[i]-got[i])))
		}
		if !(worst <= 0.03*largest) || worst == 0 {
			t.Errorf("%s: logits are off by %g of the largest, %g", d, worst/largest, largest)
		}
	}
}

func TestGGUFRefuses(t *testing.T) {
	for want, change := range map[string]func([]gguf.Meta) []gguf.Meta{
		`key "tokenizer.ggml.tokens" has a value of Go type []uint32, want []string`: func(m []gguf.Meta) []gguf.Meta {
			m[10].Value = []uint32{1}
			return m
		},
		`key "tokenizer.ggml.eos_token_id" has a value of Go type string, want uint32`: func(m []gguf.Meta) []gguf.Meta {
			m[12].Value = "x"
			return m
		},
		`tokenizer.ggml.model: "bert", want gpt2, llama or t5`: func(m []gguf.Meta) []gguf.Meta {
			m[8].Value = "bert"
			return m
		},
		`a folder without a tokenizer, want tokenizer.json`: func(m []gguf.Meta) []gguf.Meta { return m[:8] },
	} {
		path := writeGGUF(t, graph.Q8_0, false, change)
		c, err := checkpoint.Open(path)
		require.NoError(t, err)
		if _, err := Tokenizer(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v\nwant %s", err, want)
		}
		require.NoError(t, c.Close())
	}
}
