package models

import (
	"fmt"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	pr "github.com/gomoe/gomoe/primitives"
)

// decoder is what most families have in common: layers of attention and of experts, with norms before them and
// sums around them.
type decoder struct {
	vocab, context, hidden, layers int
	epsilon                        float64
	tied                           bool // the head is the table of tokens
	attention                      nn.Attention
	// mlp applies what layer l has behind its attention.
	mlp func(s *nn.Scope, l int, x *graph.Value) *graph.Value
}

// readDecoder reads the settings that all families have, with the same names.
func readDecoder(r *reader, c *checkpoint.Checkpoint) decoder {
	d := decoder{
		vocab:   r.vocabulary(c),
		context: r.size(keys{"max_position_embeddings", ".context_length"}),
		hidden:  r.size(keys{"hidden_size", ".embedding_length"}),
		layers:  r.size(keys{"num_hidden_layers", ".block_count"}),
		epsilon: r.numberOr(keys{"rms_norm_eps", ".attention.layer_norm_rms_epsilon"}, 1e-6),
	}
	if c.Format == checkpoint.GGUF {
		_, err := c.Tensor("output.weight")
		d.tied = err != nil
	} else {
		d.tied = r.flagOr(keys{"tie_word_embeddings"}, false)
	}
	heads := r.size(keys{"num_attention_heads", ".attention.head_count"})
	a := nn.Attention{
		Heads:   heads,
		KVHeads: r.sizeOr(keys{"num_key_value_heads", ".attention.head_count_kv"}, heads),
		Epsilon: d.epsilon,
		RoPE:    pr.RoPEOp{Base: r.numberOr(keys{"rope_theta", ".rope.freq_base"}, 10000)},
	}
	if theta, ok, err := r.c.Float("rope_parameters.rope_theta"); ok && err == nil {
		a.RoPE.Base = theta // where transformers 5 writes it
	}
	for name, x := range map[string]float64{"rms_norm_eps": d.epsilon, "rope_theta": a.RoPE.Base} {
		if !(x > 0) {
			r.fail(fmt.Errorf("%s: %s is %g, want a number above 0", r.c.Path, name, x))
		}
	}
	r.say(keys{"rope_theta", ".rope.freq_base"}, a.RoPE.Base, false)
	r.say(keys{"tie_word_embeddings"}, d.tied, true)
	a.RoPE.Interleaved = c.Format == checkpoint.GGUF && neighbours(c.Config.Architecture)
	r.only("hidden_act", "silu")
	r.only("rope_scaling", "none")
	r.only("rope_parameters.rope_type", "default")
	if _, ok := r.c.Value(".rope.scaling.type"); ok && r.c.GGUF() {
		if s, _, _ := r.c.Text(".rope.scaling.type"); s != "none" {
			r.fail(fmt.Errorf("%s: rope.scaling.type is %q, want none", r.c.Path, s))
		}
	}
	if r.err == nil {
		if a.Width = r.sizeOr(keys{"head_dim", ".attention.key_length"}, d.hidden/heads); a.Width%2 != 0 {
			r.fail(fmt.Errorf("%s: heads of %d columns, want an even number", r.c.Path, a.Width))
		}
		if heads%a.KVHeads != 0 {
			r.fail(fmt.Errorf("%s: %d heads over %d heads of keys, want a multiple", r.c.Path, heads, a.KVHeads))
		}
	}
	r.say(keys{"", ".attention.value_length"}, a.Width, true)
	r.say(keys{"", ".rope.dimension_count"}, a.Width, true)
	d.attention = a
	return d
}

// vocabulary returns the number of tokens. GGUF files need not say it: it is the rows of the table of tokens.
func (r *reader) vocabulary(c *checkpoint.Checkpoint) int {
	if c.Format != checkpoint.GGUF {
		return r.size(keys{"vocab_size", ".vocab_size"})
	}
	t, err := c.Tensor("token_embd.weight")
	if err == nil && t.Type.Rank() != 2 {
		err = fmt.Errorf("%s: tensor %q has shape %v, want 2 dimensions", t.File, t.Name, t.Type.Shape)
	}
	if r.fail(err); err != nil {
		return 0
	}
	r.say(keys{"vocab_size", ".vocab_size"}, t.Type.Shape[0], true)
	return t.Type.Shape[0]
}

// model returns the model of a decoder with experts, or the first error of the reader.
func (d decoder) model(r *reader, experts, topK int) (*Model, error) {
	if r.err == nil && topK > experts {
		r.fail(fmt.Errorf("%s: a token uses %d of %d experts, want at most as many", r.c.Path, topK, experts))
	}
	return &Model{Vocab: d.vocab, Context: d.context, Layers: d.layers, Experts: experts, TopK: topK, CachePlace: d.attention.CachePlace(), HeadWidth: d.attention.Width, Settings: r.said, Forward: d.forward}, r.err
}

// forward returns the logits f32[B,S,V] of tokens i32[B,S].
func (d decoder) forward(s *nn.Scope, tokens *graph.Value, st *nn.Step) *graph.Value {
	in := s.In("model", "")
	embed := in.In("embed_tokens", "token_embd")
	x := nn.Embedding{Vocab: d.vocab, Width: d.hidden}.Apply(embed, tokens)
	for l := range d.layers {
		x = d.layer(in.In(fmt.Sprintf("layers.%d", l), fmt.Sprintf("blk.%d", l)), l, x, st)
	}
	if st.Last {
		x = pr.SliceInDim(x, 1, x.Dim(1)-1, x.Dim(1))
	}
	x = nn.RMSNorm{Epsilon: d.epsilon}.Apply(in.In("norm", "output_norm"), x)
	head := s.In("lm_head", "output")
	if d.tied {
		head = embed
	}
	return nn.Linear{Out: d.vocab, DType: graph.F32}.Apply(head, x)
}

func (d decoder) layer(s *nn.Scope, l int, x *graph.Value, st *nn.Step) *graph.Value {
	defer s.Enter()()
	norm := nn.RMSNorm{Epsilon: d.epsilon}
	x = pr.Add(x, d.attention.Apply(s.In("self_attn", ""), norm.Apply(s.In("input_layernorm", "attn_norm"), x), st))
	return pr.Add(x, d.mlp(s, l, norm.Apply(s.In("post_attention_layernorm", "ffn_norm"), x)))
}
