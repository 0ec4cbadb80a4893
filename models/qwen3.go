package models

import (
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/nn"
)

// openQwen3 reads a Qwen3, which has a dense network in every layer; queries and keys are normalised per head.
func openQwen3(c *checkpoint.Checkpoint) (*Model, error) {
	r := newReader(c)
	d := readDecoder(r)
	a := readAttention(r, d)
	a.Norm = nn.PerHead
	r.only(keys{"use_qk_norm"}, "true")
	a.Bias = r.flagOrTensor("attention_bias", false, "blk.0.attn_q.bias")
	a.OutBias = r.flagOrTensor("attention_bias", false, "blk.0.attn_output.bias")
	d.attention = windowed(a, r.qwenWindows(d.layers, func(l, first int) bool { return l >= first }))
	d.dense(r.size(keys{"intermediate_size", ".feed_forward_length"}))
	return d.model(r, 0, 0)
}
