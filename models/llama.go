package models

import "github.com/gomoe/gomoe/checkpoint"

// openLlama reads a Llama, which has a dense network in every layer. GGUF files also use llama for Mixtral, stating
// the number of experts. In GGUF files the pairs of rotary positions are adjacent rows.
func openLlama(c *checkpoint.Checkpoint) (*Model, error) {
	r := newReader(c)
	if r.sizeOr(keys{"", ".expert_count"}, 0) > 0 {
		m, err := openMixtral(c)
		if err == nil {
			m.Family = "mixtral"
		}
		return m, err
	}
	d := readDecoder(r)
	a := readAttention(r, d)
	a.Bias = r.flagOrTensor("attention_bias", false, "blk.0.attn_q.bias")
	a.OutBias = r.flagOrTensor("attention_bias", false, "blk.0.attn_output.bias")
	r.only(keys{"mlp_bias"}, "false")
	r.only(keys{"", ".expert_used_count"}, "0")
	d.attention = func(int) mixer { return a }
	d.dense(r.size(keys{"intermediate_size", ".feed_forward_length"}))
	return d.model(r, 0, 0)
}
