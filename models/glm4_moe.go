package models

import (
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/nn"
)

// openGLM4MoE reads a GLM-4-MoE: the experts of DeepSeek-V3 behind attention with heads of keys and values, of which a
// part of the columns is rotated.
func openGLM4MoE(c *checkpoint.Checkpoint) (*Model, error) {
	r := newReader(c)
	d := readDecoder(r)
	d.norm = "post_attention_norm"
	a := readAttention(r, d)
	a.Bias = r.flagOrTensor("attention_bias", false, "blk.0.attn_q.bias")
	if r.flagOrTensor("use_qk_norm", false, "blk.0.attn_q_norm.weight") {
		a.Norm = nn.PerHead
	}
	d.attention = func(int) mixer { return a }
	return d.afterDense(r, readSigmoidExperts(r))
}
