package models

import (
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/nn"
)

// openGLM4MoE reads a GLM-4-MoE: multi-head attention rotating a part of each head's columns, followed by the
// experts of DeepSeek-V3.
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
