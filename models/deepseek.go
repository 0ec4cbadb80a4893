package models

import (
	"fmt"
	"math"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/nn"
	pr "github.com/gomoe/gomoe/primitives"
)

// openDeepSeekV2 reads a DeepSeek-V2: latent attention, dense networks in the first layers, then experts along with
// shared experts. Experts are chosen by softmax scores over all of them, restricted to the best groups if there are
// groups. GGUF files also use deepseek2 for DeepSeek-V3, marking its scores as sigmoids.
func openDeepSeekV2(c *checkpoint.Checkpoint) (*Model, error) {
	r := newReader(c)
	gating := keys{"", ".expert_gating_func"}
	if r.sizeOr(gating, ggufSoftmax) == ggufSigmoid {
		m, err := openDeepSeekV3(c)
		if err == nil {
			m.Family = "deepseek_v3"
		}
		return m, err
	}
	dense, _, _ := r.c.Int(".leading_dense_block_count")
	if _, err := r.files.Tensor(fmt.Sprintf("blk.%d.exp_probs_b.bias", dense)); r.c.GGUF() && err == nil {
		r.fail(fmt.Errorf("%s: %s is %d, which llama.cpp takes without the key, too, and the experts have biases; want %d, with which DeepSeek-V3 is trained", r.c.Path, r.named(gating[1]), ggufSoftmax, ggufSigmoid))
	}
	r.only(gating, fmt.Sprint(ggufSoftmax))
	r.only(keys{"scoring_func"}, "softmax")
	moe := readDeepSeekExperts(r)
	r.only(keys{"norm_topk_prob", ".expert_weights_norm"}, "false")
	method := r.textOr(keys{"topk_method"}, "greedy")
	switch {
	case method == "group_limited_greedy" && moe.Route.Groups > 0, r.c.GGUF() && moe.Route.Groups > 0:
		moe.Route.GroupScore = "max"
	case method == "greedy", method == "group_limited_greedy":
		moe.Route.Groups, moe.Route.TopGroups = 0, 0
		r.say(keys{"n_group", ".expert_group_count"}, nil, true)
		r.say(keys{"topk_group", ".expert_group_used_count"}, nil, true)
	default:
		r.fail(fmt.Errorf("%s: topk_method is %s, want greedy or group_limited_greedy", r.c.Path, quoted.Name(method)))
	}
	if method = "greedy"; moe.Route.Groups > 0 {
		method = "group_limited_greedy"
	}
	r.say(keys{"topk_method"}, method, true)
	return openDeepSeek(r, moe)
}

// openDeepSeekV3 reads a DeepSeek-V3 or R1, which is V2 with experts chosen by sigmoid scores plus a bias per
// expert.
func openDeepSeekV3(c *checkpoint.Checkpoint) (*Model, error) {
	r := newReader(c)
	return openDeepSeek(r, readSigmoidExperts(r))
}

// apart reports whether the files have separate matrices for keys and values of latents, as mlx-lm's do and GGUF
// files may.
func (r *reader) apart() bool {
	name := "model.layers.0.self_attn.embed_q.weight"
	if r.c.GGUF() {
		name = "blk.0.attn_k_b.weight"
	}
	_, err := r.files.Tensor(name)
	return err == nil
}

// openDeepSeek reads the parts common to V2 and V3.
func openDeepSeek(r *reader, moe nn.MoE) (*Model, error) {
	d := readDecoder(r)
	a := nn.MLA{
		Heads:   r.size(keys{"num_attention_heads", ".attention.head_count"}),
		Rotary:  r.size(keys{"qk_rope_head_dim", ".rope.dimension_count"}),
		Query:   r.sizeOr(keys{"q_lora_rank", ".attention.q_lora_rank"}, 0),
		Latent:  r.size(keys{"kv_lora_rank", ".attention.kv_lora_rank"}),
		Bias:    r.flagOr(keys{"attention_bias"}, false),
		Epsilon: 1e-6, // regardless of rms_norm_eps
		Split:   r.apart(),
	}
	if a.Split && r.c.GGUF() { // the file's keys and values are then latents
		a.Plain = r.size(keys{"", ".attention.key_length_mla"}) - a.Rotary
		a.Value = r.size(keys{"", ".attention.value_length_mla"})
		r.only(keys{"", ".attention.key_length"}, fmt.Sprint(a.Latent+a.Rotary))
		r.only(keys{"", ".attention.value_length"}, fmt.Sprint(a.Latent))
		r.only(keys{"", ".attention.head_count_kv"}, "1")
	} else if r.c.GGUF() {
		usual := d.hidden / max(1, a.Heads) // llama.cpp's default for missing keys
		a.Plain = r.sizeOr(keys{"", ".attention.key_length"}, usual) - a.Rotary
		a.Value = r.sizeOr(keys{"v_head_dim", ".attention.value_length"}, usual)
		r.only(keys{"", ".attention.head_count_kv"}, fmt.Sprint(a.Heads))
	} else {
		values := keys{"v_head_dim", ".attention.value_length"}
		if a.Split {
			values[1] += "_mla"
		}
		a.Plain, a.Value = r.size(keys{"qk_nope_head_dim"}), r.size(values)
		r.only(keys{"num_key_value_heads"}, fmt.Sprint(a.Heads))
		r.only(keys{"head_dim"}, fmt.Sprint(a.Rotary))
		r.only(keys{"qk_head_dim"}, fmt.Sprint(a.Plain+a.Rotary))
	}
	r.say(keys{"qk_nope_head_dim"}, a.Plain, true)
	if length, values := (keys{"", ".attention.key_length"}), ".attention.value_length"; a.Split {
		r.say(keys{"", "attn_k_b"}, "apart from attn_v_b", false)
		r.say(length, a.Latent+a.Rotary, true)
		r.say(keys{"", values}, a.Latent, true)
		r.say(keys{"", ".attention.key_length_mla"}, a.Plain+a.Rotary, true)
		r.say(keys{"v_head_dim", ".attention.value_length_mla"}, a.Value, true)
		r.say(keys{"num_key_value_heads"}, a.Heads, true)
		r.say(keys{"", ".attention.head_count_kv"}, 1, true)
	} else {
		r.say(length, a.Plain+a.Rotary, true)
		r.say(keys{"v_head_dim", values}, a.Value, true)
		r.say(keys{"num_key_value_heads", ".attention.head_count_kv"}, a.Heads, true)
	}
	if r.err == nil && a.Plain < 1 {
		r.fail(fmt.Errorf("%s: heads of %d columns, of which %d are rotated, want fewer", r.c.Path, a.Plain+a.Rotary, a.Rotary))
	}
	a.RoPE = r.rope(a.Rotary)
	a.RoPE.Interleaved = r.flagOr(keys{"rope_interleave"}, true)
	a.Scale = r.scoreScale() / math.Sqrt(float64(a.Plain+a.Rotary))
	d.attention = func(int) mixer { return a }
	r.only(keys{"mlp_bias"}, "false")
	r.only(keys{"moe_layer_freq"}, "1")
	return d.afterDense(r, moe)
}

// afterDense is a model with dense networks in its first layers and experts in the others.
func (d decoder) afterDense(r *reader, moe nn.MoE) (*Model, error) {
	first := or(r, keys{"first_k_dense_replace", ".leading_dense_block_count"}, r.c.Int, 0)
	wide, width := keys{"intermediate_size", ".feed_forward_length"}, 0
	if r.key(wide); first > 0 {
		width = r.size(wide)
	}
	d.experts("mlp", moe, width, func(l int) bool { return l >= first })
	return d.model(r, moe.Experts, moe.Route.TopK)
}

// Values of the GGUF key expert_gating_func.
const (
	ggufSoftmax = 1
	ggufSigmoid = 2

	ggufSoftmaxOfChosen = 3
)

// readDeepSeekExperts reads grouped experts and shared experts.
func readDeepSeekExperts(r *reader) nn.MoE {
	m := nn.MoE{
		Experts: r.size(r.experts("n_routed_experts")),
		Width:   r.size(keys{"moe_intermediate_size", ".expert_feed_forward_length"}),
		Route: pr.RouteOp{
			TopK:      r.size(keys{"num_experts_per_tok", ".expert_used_count"}),
			Groups:    r.sizeOr(keys{"n_group", ".expert_group_count"}, 0),
			TopGroups: r.sizeOr(keys{"topk_group", ".expert_group_used_count"}, 0),
			Scale:     r.numberOr(keys{"routed_scaling_factor", ".expert_weights_scale"}, 1),
		},
		SharedName: "shared_experts",
	}
	m.Shared = m.Width * r.sizeOr(keys{"n_shared_experts", ".expert_shared_count"}, 0)
	if m.Route.Groups <= 1 {
		m.Route.Groups, m.Route.TopGroups = 0, 0
	}
	return m
}

// readSigmoidExperts reads experts chosen by sigmoid scores plus a bias per expert. Their weights are the sigmoids
// without the bias.
func readSigmoidExperts(r *reader) nn.MoE {
	m := readDeepSeekExperts(r)
	m.Bias = "e_score_correction_bias"
	if m.Route.Groups == 0 { // a single group, which files state in two ways
		r.say(keys{"n_group", ".expert_group_count"}, 1, true)
		r.say(keys{"topk_group", ".expert_group_used_count"}, 1, true)
	}
	m.Route.Score, m.Route.Epsilon = pr.SigmoidScore, 1e-20
	m.Route.Renormalize = r.flagOr(keys{"norm_topk_prob", ".expert_weights_norm"}, !r.c.GGUF()) // llama.cpp's default is false
	r.only(keys{"", ".expert_gating_func"}, fmt.Sprint(ggufSigmoid))
	r.say(keys{"", ".expert_gating_func"}, ggufSigmoid, true)
	r.only(keys{"scoring_func"}, "sigmoid")
	r.only(keys{"topk_method"}, "noaux_tc")
	return m
}
