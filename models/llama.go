package models

import "github.com/gomoe/gomoe/checkpoint"

// openLlama reads a Llama, which has one network in every layer. GGUF files call Mixtral llama, too, and say how many
// experts it has. In GGUF files pairs of rotary positions are neighbours.
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
