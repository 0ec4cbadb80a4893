package models

import (
	"fmt"
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// Decoder is the structure shared by all families: layers of attention followed by experts or a dense network, with
// a preceding norm and a residual connection around each.
type Decoder struct {
	Vocab, Context, Hidden, Layers int
	Epsilon                        float64 // of the norms
	Tied                           bool    // the head shares the embedding table
	Norm                           string  // GGUF name of the norm after attention; "" means ffn_norm
	// Attention returns the attention of layer l.
	Attention func(l int) Mixer
	// MLP applies the part of layer l following attention; Dense and Experts set it.
	MLP func(s *nn.Scope, l int, x *graph.Value) *graph.Value
}

// deepest is the maximum number of layers, because families loop over them before any tensor is checked.
const deepest = 1 << 16

// Mixer is a layer that combines the tokens of a sequence, such as attention.
type Mixer interface {
	Apply(s *nn.Scope, x *graph.Value, st *nn.Step) *graph.Value
}

// ReadDecoder reads the settings common to all families.
func ReadDecoder(r *Reader) Decoder {
	d := Decoder{
		Vocab:   r.vocabulary(),
		Context: r.Size(Keys{"max_position_embeddings", ".context_length"}),
		Hidden:  r.Size(Keys{"hidden_size", ".embedding_length"}),
		Layers:  r.Size(Keys{"num_hidden_layers", ".block_count"}),
	}
	if epsilon := (Keys{"rms_norm_eps", ".attention.layer_norm_rms_epsilon"}); r.c.GGUF() {
		d.Epsilon = r.Positive(epsilon)
	} else {
		d.Epsilon = r.NumberOr(epsilon, 1e-6)
	}
	if predicts := r.SizeOr(r.nextLayers(), 0); r.c.GGUF() {
		if d.Layers -= predicts; r.err == nil && d.Layers < 1 { // block_count includes both
			r.Fail(fmt.Errorf("%s: all %d blocks predict further tokens, want one at least that does not", r.c.Path, predicts))
		}
	}
	r.Say(Keys{"num_hidden_layers", ".block_count"}, d.Layers, false)
	r.Say(r.nextLayers(), 0, true) // they are not opened
	if d.Layers > deepest {
		r.Fail(fmt.Errorf("%s: %d layers, want at most %d", r.c.Path, d.Layers, deepest))
	}
	if d.Tied = r.FlagOr(Keys{"tie_word_embeddings"}, false); r.c.GGUF() {
		d.Tied = !r.FlagOrTensor("", false, "output.weight")
	}
	r.Say(Keys{"tie_word_embeddings"}, d.Tied, true)
	if !(d.Epsilon > 0) {
		r.Fail(fmt.Errorf("%s: rms_norm_eps is %s, want a number above 0", r.c.Path, quoted.Value(d.Epsilon)))
	}
	r.Only(Keys{"hidden_act", ""}, "silu", "swish")
	return d
}

// ReadAttention reads the settings of multi-head attention.
func ReadAttention(r *Reader, d Decoder) nn.Attention {
	a := nn.Attention{Heads: r.Size(Keys{"num_attention_heads", ".attention.head_count"}), Epsilon: d.Epsilon}
	a.KVHeads = r.SizeOr(Keys{"num_key_value_heads", ".attention.head_count_kv"}, a.Heads)
	if r.err != nil {
		return a
	}
	if a.Width = r.SizeOr(Keys{"head_dim", ".attention.key_length"}, d.Hidden/a.Heads); a.Width%2 != 0 {
		r.Fail(fmt.Errorf("%s: heads of %d columns, want an even number", r.c.Path, a.Width))
	}
	r.Only(Keys{"", ".attention.value_length"}, fmt.Sprint(a.Width))
	r.Say(Keys{"", ".attention.value_length"}, a.Width, true)
	if a.Heads%a.KVHeads != 0 {
		r.Fail(fmt.Errorf("%s: %d heads over %d heads of Keys want a multiple", r.c.Path, a.Heads, a.KVHeads))
	}
	a.RoPE = r.RoPE(a.Width)
	a.RoPE.Interleaved = r.GGUF() && r.family.Paired
	return a
}

// vocabulary returns the number of tokens. GGUF files may omit it, so for them it is the number of rows of the
// embedding table.
func (r *Reader) vocabulary() int {
	if !r.c.GGUF() {
		return r.Size(Keys{"vocab_size", ".vocab_size"})
	}
	t, err := r.files.Tensor("token_embd.weight")
	if err == nil && t.Type.Rank() != 2 {
		err = fmt.Errorf("%s: tensor %s has shape %v, want 2 dimensions", t.File, quoted.Name(t.Name), t.Type.Shape)
	}
	if r.Fail(err); err != nil {
		return 0
	}
	r.Say(Keys{"vocab_size", ".vocab_size"}, t.Type.Shape[0], true)
	return t.Type.Shape[0]
}

// Dense gives every layer a dense network.
func (d *Decoder) Dense(width int) {
	d.MLP = func(s *nn.Scope, _ int, x *graph.Value) *graph.Value {
		return nn.MLP{Width: width}.Apply(s.In("mlp", ""), x)
	}
}

// Experts gives experts to the layers for which sparse returns true, under a name, and a dense network of the given
// width to the others. nil means that all layers have experts.
func (d *Decoder) Experts(name string, m nn.MoE, width int, sparse func(l int) bool) {
	d.MLP = func(s *nn.Scope, l int, x *graph.Value) *graph.Value {
		s = s.In(name, "")
		if sparse != nil && !sparse(l) {
			return nn.MLP{Width: width}.Apply(s, x)
		}
		y, _ := m.Apply(s, x)
		return y
	}
}

// Model returns the model of a decoder using topK experts per token, or the first error of the reader. It is an
// error if the model has unread settings.
func (d Decoder) Model(r *Reader, experts, topK int) (*Model, error) {
	if r.err == nil && topK > experts {
		r.Fail(fmt.Errorf("%s: a token uses %d of %d experts, want at most as many", r.c.Path, topK, experts))
	}
	if err := r.done(); err != nil {
		return nil, err
	}
	heads, _ := d.Attention(0).(nn.Attention)
	split := heads.KVHeads
	if heads.Norm == nn.Together {
		split = 0
	}
	grows, context := 0, math.MaxInt32
	for l := range d.Layers {
		var p nn.RoPE
		switch a := d.Attention(l).(type) {
		case nn.Attention:
			p = a.RoPE
		case nn.MLA:
			p = a.RoPE
		}
		if p.Original > 0 && (grows == 0 || p.Original < grows) {
			grows = p.Original
		}
		context = min(context, max(d.Context, int(min(float64(p.Original)*p.Factor, math.MaxInt32))))
	}
	return &Model{Family: r.family, Grows: grows, Heads: split, Settings: r.said, RopeFactors: r.factors, HeadWidth: heads.Width, Vocab: d.Vocab, Context: context, Layers: d.Layers, Experts: experts, TopK: topK, Forward: d.forward}, nil
}

// forward returns the logits f32[B,S,V] of tokens i32[B,S].
func (d Decoder) forward(s *nn.Scope, tokens *graph.Value, st *nn.Step) *graph.Value {
	in := s.In("model", "")
	embed := in.In("embed_tokens", "token_embd")
	x := nn.Embedding{Vocab: d.Vocab, Width: d.Hidden}.Apply(embed, tokens)
	for l := range d.Layers {
		if st.Last && st.Room > 0 && l == d.Layers-1 {
			st.Queries = 1 // the last layer's output is needed for one token only
		}
		x = s.Remat(fmt.Sprintf("layer%d", l), x, func(x *graph.Value) *graph.Value {
			return d.layer(in.In(fmt.Sprintf("layers.%d", l), fmt.Sprintf("blk.%d", l)), l, x, st)
		})
	}
	if st.Last {
		x = primitives.SliceInDim(x, 1, x.Dim(1)-1, x.Dim(1))
	}
	x = nn.RMSNorm{Epsilon: d.Epsilon}.Apply(in.In("norm", "output_norm"), x)
	head := s.In("lm_head", "output")
	if d.Tied {
		head = embed
	}
	l := nn.Linear{Out: d.Vocab, DType: graph.F32}
	if st.Room > 0 && !d.Tied { // few logits, which are gathered; a loss needs all logits of a token on one rank
		l.Split = nn.Columns
	}
	return l.Apply(head, x)
}

func (d Decoder) layer(s *nn.Scope, l int, x *graph.Value, st *nn.Step) *graph.Value {
	defer s.Enter()()
	norm, second := nn.RMSNorm{Epsilon: d.Epsilon}, "ffn_norm"
	if d.Norm != "" {
		second = d.Norm
	}
	x = primitives.Add(st.Tail(x), d.Attention(l).Apply(s.In("self_attn", ""), norm.Apply(s.In("input_layernorm", "attn_norm"), x), st))
	return primitives.Add(x, d.MLP(s, l, norm.Apply(s.In("post_attention_layernorm", second), x)))
}
