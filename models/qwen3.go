package models

import (
	"github.com/gomoe/gomoe/nn"
)

// qwen3 is the family of Qwen3 without experts.
func qwen3() Family {
	return Family{
		Name: "qwen3", GGUF: "qwen3", Open: openQwen3, LayerKinds: true,
		Defaults: map[string]any{"num_key_value_heads": 32, "head_dim": 128, "sliding_window": 4096, "max_window_layers": 28},
		New:      map[string]any{"attention_bias": false, "use_sliding_window": false},
		LlamaCPP: Program{Limits: llamaCPP(noMscale(), linearOrYaRN(), none(partialRotary), only("attention_bias", false))},
		MLX:      Program{Limits: append(ropeUtils(), none(partialRotary), only("attention_bias", false)), Reads: "layer_types rope_scaling"},
	}
}

// openQwen3 reads a Qwen3, which has a dense network in every layer; queries and keys are normalised per head.
func openQwen3(r *Reader) (*Model, error) {
	d := ReadDecoder(r)
	a := ReadAttention(r, d)
	a.Norm = nn.PerHead
	r.Only(Keys{"use_qk_norm"}, "true")
	a.Bias = r.FlagOrTensor("attention_bias", false, "blk.0.attn_q.bias")
	a.OutBias = r.FlagOrTensor("attention_bias", false, "blk.0.attn_output.bias")
	d.Attention = Windowed(a, r.qwenWindows(d.Layers, func(l, first int) bool { return l >= first }))
	d.Dense(r.Size(Keys{"intermediate_size", ".feed_forward_length"}))
	return d.Model(r, 0, 0)
}
