package models

// llama is the family of Llama.
func llama() Family {
	return Family{
		Name: "llama", GGUF: "llama", Open: openLlama, Paired: true,
		New:      map[string]any{"attention_bias": false, "mlp_bias": false},
		LlamaCPP: Program{Limits: llamaCPP(noMscale(), none(partialRotary))}, // it reads a tensor of factors, for any scaling
		MLX:      Program{Limits: append(ropeUtils(), none(partialRotary)), Reads: "attention_bias rope_scaling"},
	}
}

// openLlama reads a Llama, which has a dense network in every layer. GGUF files also use llama for Mixtral, stating
// the number of experts. In GGUF files the pairs of rotary positions are adjacent rows.
func openLlama(r *Reader) (*Model, error) {
	if r.SizeOr(Keys{"", ".expert_count"}, 0) > 0 {
		return openMixtral(newReader(r.files, mixtral()))
	}
	d := ReadDecoder(r)
	a := ReadAttention(r, d)
	a.Bias = r.FlagOrTensor("attention_bias", false, "blk.0.attn_q.bias")
	a.OutBias = r.FlagOrTensor("attention_bias", false, "blk.0.attn_output.bias")
	r.Only(Keys{"mlp_bias"}, "false")
	r.Only(Keys{"", ".expert_used_count"}, "0")
	d.Attention = func(int) Mixer { return a }
	d.Dense(r.Size(Keys{"intermediate_size", ".feed_forward_length"}))
	return d.Model(r, 0, 0)
}
