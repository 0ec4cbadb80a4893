package models

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/nn"
	pr "github.com/gomoe/gomoe/primitives"
)

// decoder is the structure shared by all families: layers of attention followed by experts or a dense network, with
// a preceding norm and a residual connection around each.
type decoder struct {
	vocab, context, hidden, layers int
	epsilon                        float64
	tied                           bool   // the head shares the embedding table
	norm                           string // GGUF name of the norm after attention; "" means ffn_norm
	// attention returns the attention of layer l.
	attention func(l int) mixer
	// mlp applies the part of layer l following attention.
	mlp func(s *nn.Scope, l int, x *graph.Value) *graph.Value
}

// deepest is the maximum number of layers, because families loop over them before any tensor is checked.
const deepest = 1 << 16

// mixer is a kind of attention.
type mixer interface {
	Apply(s *nn.Scope, x *graph.Value, st *nn.Step) *graph.Value
	CachePlace() []string
}

// readDecoder reads the settings common to all families.
func readDecoder(r *reader) decoder {
	d := decoder{
		vocab:   r.vocabulary(),
		context: r.size(keys{"max_position_embeddings", ".context_length"}),
		hidden:  r.size(keys{"hidden_size", ".embedding_length"}),
		layers:  r.size(keys{"num_hidden_layers", ".block_count"}),
	}
	if epsilon := (keys{"rms_norm_eps", ".attention.layer_norm_rms_epsilon"}); r.c.GGUF() {
		d.epsilon = r.positive(epsilon)
	} else {
		d.epsilon = r.numberOr(epsilon, 1e-6)
	}
	if predicts := r.sizeOr(r.nextLayers(), 0); r.c.GGUF() {
		if d.layers -= predicts; r.err == nil && d.layers < 1 { // block_count includes both
			r.fail(fmt.Errorf("%s: all %d blocks predict further tokens, want one at least that does not", r.c.Path, predicts))
		}
	}
	r.say(keys{"num_hidden_layers", ".block_count"}, d.layers, false)
	r.say(r.nextLayers(), 0, true) // they are not opened
	if d.layers > deepest {
		r.fail(fmt.Errorf("%s: %d layers, want at most %d", r.c.Path, d.layers, deepest))
	}
	if d.tied = r.flagOr(keys{"tie_word_embeddings"}, false); r.c.GGUF() {
		d.tied = !r.flagOrTensor("", false, "output.weight")
	}
	r.say(keys{"tie_word_embeddings"}, d.tied, true)
	if !(d.epsilon > 0) {
		r.fail(fmt.Errorf("%s: rms_norm_eps is %g, want a number above 0", r.c.Path, d.epsilon))
	}
	r.only(keys{"hidden_act", ""}, "silu", "swish")
	return d
}

// readAttention reads the settings of multi-head attention.
func readAttention(r *reader, d decoder) nn.Attention {
	a := nn.Attention{Heads: r.size(keys{"num_attention_heads", ".attention.head_count"}), Epsilon: d.epsilon}
	a.KVHeads = r.sizeOr(keys{"num_key_value_heads", ".attention.head_count_kv"}, a.Heads)
	if r.err != nil {
		return a
	}
	if a.Width = r.sizeOr(keys{"head_dim", ".attention.key_length"}, d.hidden/a.Heads); a.Width%2 != 0 {
		r.fail(fmt.Errorf("%s: heads of %d columns, want an even number", r.c.Path, a.Width))
	}
	r.only(keys{"", ".attention.value_length"}, fmt.Sprint(a.Width))
	r.say(keys{"", ".attention.value_length"}, a.Width, true)
	if a.Heads%a.KVHeads != 0 {
		r.fail(fmt.Errorf("%s: %d heads over %d heads of keys, want a multiple", r.c.Path, a.Heads, a.KVHeads))
	}
	a.RoPE = r.rope(a.Width)
	a.RoPE.Interleaved = r.c.GGUF() && pairedInGGUF(r.c.Architecture)
	return a
}

// vocabulary returns the number of tokens. GGUF files may omit it, so for them it is the number of rows of the
// embedding table.
func (r *reader) vocabulary() int {
	if !r.c.GGUF() {
		return r.size(keys{"vocab_size", ".vocab_size"})
	}
	t, err := r.files.Tensor("token_embd.weight")
	if err == nil && t.Type.Rank() != 2 {
		err = fmt.Errorf("%s: tensor %s has shape %v, want 2 dimensions", t.File, quoted.Name(t.Name), t.Type.Shape)
	}
	if r.fail(err); err != nil {
		return 0
	}
	r.say(keys{"vocab_size", ".vocab_size"}, t.Type.Shape[0], true)
	return t.Type.Shape[0]
}

// dense gives every layer a dense network.
func (d *decoder) dense(width int) {
	d.mlp = func(s *nn.Scope, _ int, x *graph.Value) *graph.Value {
		return nn.MLP{Width: width}.Apply(s.In("mlp", ""), x)
	}
}

// experts gives experts to the layers for which sparse returns true, under a name, and a dense network to the
// others.
func (d *decoder) experts(name string, m nn.MoE, width int, sparse func(l int) bool) {
	d.mlp = func(s *nn.Scope, l int, x *graph.Value) *graph.Value {
		s = s.In(name, "")
		if !sparse(l) {
			return nn.MLP{Width: width}.Apply(s, x)
		}
		y, _ := m.Apply(s, x)
		return y
	}
}

// everyLayer is for models with experts in every layer.
func everyLayer(int) bool { return true }

// model returns the model of a decoder using topK experts per token, or the first error of the reader. It is an
// error if the model has unread settings.
func (d decoder) model(r *reader, experts, topK int) (*Model, error) {
	if r.err == nil && topK > experts {
		r.fail(fmt.Errorf("%s: a token uses %d of %d experts, want at most as many", r.c.Path, topK, experts))
	}
	if err := r.done(); err != nil {
		return nil, err
	}
	heads, _ := d.attention(0).(nn.Attention)
	split := heads.KVHeads
	if heads.CachePlace() == nil {
		split = 0
	}
	grows := 0
	for l := range d.layers {
		var original int
		switch a := d.attention(l).(type) {
		case nn.Attention:
			original = a.RoPE.Original
		case nn.MLA:
			original = a.RoPE.Original
		}
		if original > 0 && (grows == 0 || original < grows) {
			grows = original
		}
	}
	return &Model{Grows: grows, Heads: split, Settings: r.said, RopeFactors: r.factors, HeadWidth: heads.Width, Vocab: d.vocab, Context: d.context, Layers: d.layers, Experts: experts, TopK: topK, CachePlace: d.attention(0).CachePlace(), Forward: d.forward}, nil
}

// forward returns the logits f32[B,S,V] of tokens i32[B,S].
func (d decoder) forward(s *nn.Scope, tokens *graph.Value, st *nn.Step) *graph.Value {
	in := s.In("model", "")
	embed := in.In("embed_tokens", "token_embd")
	x := nn.Embedding{Vocab: d.vocab, Width: d.hidden}.Apply(embed, tokens)
	for l := range d.layers {
		if st.Last && st.Room > 0 && l == d.layers-1 {
			st.Queries = 1 // the last layer's output is needed for one token only
		}
		x = s.Remat(fmt.Sprintf("layer%d", l), x, func(x *graph.Value) *graph.Value {
			return d.layer(in.In(fmt.Sprintf("layers.%d", l), fmt.Sprintf("blk.%d", l)), l, x, st)
		})
	}
	if st.Last {
		x = pr.SliceInDim(x, 1, x.Dim(1)-1, x.Dim(1))
	}
	x = nn.RMSNorm{Epsilon: d.epsilon}.Apply(in.In("norm", "output_norm"), x)
	head := s.In("lm_head", "output")
	if d.tied {
		head = embed
	}
	l := nn.Linear{Out: d.vocab, DType: graph.F32}
	if st.Last && !d.tied { // few logits, which are gathered; a loss needs all logits of a token on one rank
		l.Split = nn.Columns
	}
	return l.Apply(head, x)
}

func (d decoder) layer(s *nn.Scope, l int, x *graph.Value, st *nn.Step) *graph.Value {
	defer s.Enter()()
	norm, second := nn.RMSNorm{Epsilon: d.epsilon}, "ffn_norm"
	if d.norm != "" {
		second = d.norm
	}
	x = pr.Add(st.Tail(x), d.attention(l).Apply(s.In("self_attn", ""), norm.Apply(s.In("input_layernorm", "attn_norm"), x), st))
	return pr.Add(x, d.mlp(s, l, norm.Apply(s.In("post_attention_layernorm", second), x)))
}
