package models

import (
	"fmt"
	"maps"
	"math"

	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// deepSeekV2 is the family of DeepSeek-V2.
func deepSeekV2() Family {
	return Family{
		Name: "deepseek_v2", GGUF: "deepseek2", Open: openDeepSeekV2, Experts: "n_routed_experts",
		Defaults: map[string]any{"q_lora_rank": 1536, "n_shared_experts": 2},
		New:      newLatent(map[string]any{"topk_method": "greedy", "norm_topk_prob": false, "n_group": nil, "topk_group": nil}),
		Adapters: peft.Layout{Experts: true},
		// llama.cpp adds the two best scores of a group, as DeepSeek-V3 does.
		LlamaCPP: Program{Limits: append(latentOfLlamaCPP(), Limit{"n_group", func(s map[string]any) bool { return integer(s, "n_group") <= 1 }, "1"})},
		MLX: Program{Reads: readsDeepSeek + " topk_method", RouterAlone: true, Limits: append(ropeUtils(), none(partialRotary), only("tie_word_embeddings", false), only("rope_interleave", true),
			Limit{scaling + "rope_type", func(s map[string]any) bool { return s[scaling+"rope_type"] == "yarn" }, "yarn"})},
	}
}

// deepSeekV3 is the family of DeepSeek-V3 and R1.
func deepSeekV3() Family {
	return Family{
		Name: "deepseek_v3", GGUF: "deepseek2", Open: openDeepSeekV3, Experts: "n_routed_experts",
		Defaults: map[string]any{
			"q_lora_rank": 1536, "n_shared_experts": 1, "n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5, "first_k_dense_replace": 3,
			"num_nextn_predict_layers": 1,
		},
		New:      newLatent(nil),
		Adapters: peft.Layout{Experts: true},
		LlamaCPP: Program{Limits: latentOfLlamaCPP()},
		MLX: Program{Reads: readsDeepSeek + " norm_topk_prob", RouterAlone: true, Limits: append(ropeUtils(), none(partialRotary), only("tie_word_embeddings", false), only("rope_interleave", true),
			most("num_hidden_layers", 61), severalExperts())},
	}
}

// newGrouped returns the entries of config.json for a new model with DeepSeek's experts, and more entries.
func newGrouped(more map[string]any) map[string]any {
	entries := map[string]any{
		"attention_bias": false, "n_routed_experts": 8.0, "num_experts_per_tok": 2.0, "moe_intermediate_size": 256.0, "n_shared_experts": 1.0, "first_k_dense_replace": 1.0,
		"n_group": 1.0, "topk_group": 1.0, "routed_scaling_factor": 1.0, "norm_topk_prob": true,
	}
	maps.Copy(entries, more)
	return entries
}

// newLatent is newGrouped with latent attention.
func newLatent(more map[string]any) map[string]any {
	entries := newGrouped(map[string]any{"q_lora_rank": nil, "kv_lora_rank": 32.0, "qk_nope_head_dim": 16.0, "qk_rope_head_dim": 16.0, "v_head_dim": 32.0})
	maps.Copy(entries, more)
	return entries
}

const readsDeepSeek = `n_routed_experts moe_intermediate_size n_shared_experts n_group topk_group routed_scaling_factor first_k_dense_replace attention_bias rope_scaling
	q_lora_rank kv_lora_rank qk_rope_head_dim qk_nope_head_dim v_head_dim`

// groupsOfLlamaCPP returns llama.cpp's limits for DeepSeek's experts.
func groupsOfLlamaCPP() []Limit {
	return []Limit{
		most("n_routed_experts", 1024),
		{"n_shared_experts", func(s map[string]any) bool { return integer(s, "n_shared_experts") > 0 }, "at least 1"},
		{"topk_group", func(s map[string]any) bool {
			return integer(s, "n_group") <= 1 || integer(s, "topk_group") < integer(s, "n_group")
		}, "less than n_group"},
		{"n_group", func(s map[string]any) bool { return integer(s, "n_group") < integer(s, "n_routed_experts") }, "less than n_routed_experts"},
	}
}

// latentOfLlamaCPP returns llama.cpp's limits for models with latent attention.
func latentOfLlamaCPP() []Limit {
	return llamaCPP(append(groupsOfLlamaCPP(), positions("yarn"), only("attention_bias", false),
		Limit{scaling + "mscale_all_dim", func(s map[string]any) bool {
			return s[scaling+"rope_type"] != "yarn" || !Absent(s[scaling+"mscale_all_dim"]) && !Absent(s[scaling+"mscale"])
		}, "a number above 0 that mscale is equal to"},
		Limit{"q_lora_rank", func(s map[string]any) bool { // llama.cpp recognises models without it by their number of layers
			layers := integer(s, "num_hidden_layers")
			lite := layers == 26 || layers == 27 || layers == 48 && integer(s, "vocab_size") == 128256
			return lite == (integer(s, "q_lora_rank") == 0)
		}, "0 in models of 26 or 27 layers, and above 0 in others"},
		Limit{"rms_norm_eps", func(s map[string]any) bool {
			// transformers uses 1e-6 in the norms of latents, llama.cpp uses the setting. With the published 1e-5, the
			// logits of a small model differ by 4e-6 of the largest one, no more than from rounding; with 1e-4, by 5e-5.
			x, _ := s["rms_norm_eps"].(float64)
			return float32(x) <= 1e-5
		}, "1e-05 at most, because its norms of latents use the setting in place of 1e-06,"})...)
}

// severalExperts is for mlx-lm, which normalises the weights of several experts only.
func severalExperts() Limit {
	return Limit{"norm_topk_prob", func(s map[string]any) bool {
		return integer(s, "num_experts_per_tok") > 1 || s["norm_topk_prob"] != true
	}, "false where a token uses one expert"}
}

// openDeepSeekV2 reads a DeepSeek-V2: latent attention, dense networks in the first layers, then experts along with
// shared experts. Experts are chosen by softmax scores over all of them, restricted to the best groups if there are
// groups. GGUF files also use deepseek2 for DeepSeek-V3, marking its scores as sigmoids.
func openDeepSeekV2(r *Reader) (*Model, error) {
	gating := Keys{"", ".expert_gating_func"}
	if r.SizeOr(gating, ggufSoftmax) == ggufSigmoid {
		return openDeepSeekV3(newReader(r.files, deepSeekV3()))
	}
	dense, _, _ := r.c.Int(".leading_dense_block_count")
	if _, err := r.files.Tensor(fmt.Sprintf("blk.%d.exp_probs_b.bias", dense)); r.c.GGUF() && err == nil {
		r.Fail(fmt.Errorf("%s: %s is %d, which llama.cpp takes without the key, too, and the experts have biases; want %d, with which DeepSeek-V3 is trained", r.c.Path, r.named(gating[1]), ggufSoftmax, ggufSigmoid))
	}
	r.Only(gating, fmt.Sprint(ggufSoftmax))
	r.Only(Keys{"scoring_func"}, "softmax")
	moe := readDeepSeekExperts(r)
	r.Only(Keys{"norm_topk_prob", ".expert_weights_norm"}, "false")
	method := r.TextOr(Keys{"topk_method"}, "greedy")
	switch {
	case method == "group_limited_greedy" && moe.Route.Groups > 0, r.c.GGUF() && moe.Route.Groups > 0:
		moe.Route.GroupScore = "max"
	case method == "greedy", method == "group_limited_greedy":
		moe.Route.Groups, moe.Route.TopGroups = 0, 0
		r.Say(Keys{"n_group", ".expert_group_count"}, nil, true)
		r.Say(Keys{"topk_group", ".expert_group_used_count"}, nil, true)
	default:
		r.Fail(fmt.Errorf("%s: topk_method is %s, want greedy or group_limited_greedy", r.c.Path, quoted.Name(method)))
	}
	if method = "greedy"; moe.Route.Groups > 0 {
		method = "group_limited_greedy"
	}
	r.Say(Keys{"topk_method"}, method, true)
	return openDeepSeek(r, moe)
}

// openDeepSeekV3 reads a DeepSeek-V3 or R1, which is V2 with experts chosen by sigmoid scores plus a bias per
// expert.
func openDeepSeekV3(r *Reader) (*Model, error) {
	return openDeepSeek(r, readSigmoidExperts(r))
}

// apart reports whether the files have separate matrices for keys and values of latents, as mlx-lm's do and GGUF
// files may.
func (r *Reader) apart() bool {
	name := "model.layers.0.self_attn.embed_q.weight"
	if r.c.GGUF() {
		name = "blk.0.attn_k_b.weight"
	}
	_, err := r.files.Tensor(name)
	return err == nil
}

// openDeepSeek reads the parts common to V2 and V3.
func openDeepSeek(r *Reader, moe nn.MoE) (*Model, error) {
	d := ReadDecoder(r)
	a := nn.MLA{
		Heads:   r.Size(Keys{"num_attention_heads", ".attention.head_count"}),
		Rotary:  r.Size(Keys{"qk_rope_head_dim", ".rope.dimension_count"}),
		Query:   r.SizeOr(Keys{"q_lora_rank", ".attention.q_lora_rank"}, 0),
		Latent:  r.Size(Keys{"kv_lora_rank", ".attention.kv_lora_rank"}),
		Bias:    r.FlagOr(Keys{"attention_bias"}, false),
		Epsilon: 1e-6, // regardless of rms_norm_eps
		Split:   r.apart(),
	}
	if a.Split && r.c.GGUF() { // the file's keys and values are then latents
		a.Plain = r.Size(Keys{"", ".attention.key_length_mla"}) - a.Rotary
		a.Value = r.Size(Keys{"", ".attention.value_length_mla"})
		r.Only(Keys{"", ".attention.key_length"}, fmt.Sprint(a.Latent+a.Rotary))
		r.Only(Keys{"", ".attention.value_length"}, fmt.Sprint(a.Latent))
		r.Only(Keys{"", ".attention.head_count_kv"}, "1")
	} else if r.c.GGUF() {
		usual := d.Hidden / max(1, a.Heads) // llama.cpp's default for missing keys
		a.Plain = r.SizeOr(Keys{"", ".attention.key_length"}, usual) - a.Rotary
		a.Value = r.SizeOr(Keys{"v_head_dim", ".attention.value_length"}, usual)
		r.Only(Keys{"", ".attention.head_count_kv"}, fmt.Sprint(a.Heads))
	} else {
		values := Keys{"v_head_dim", ".attention.value_length"}
		if a.Split {
			values[1] += "_mla"
		}
		a.Plain, a.Value = r.Size(Keys{"qk_nope_head_dim"}), r.Size(values)
		r.Only(Keys{"num_key_value_heads"}, fmt.Sprint(a.Heads))
		r.Only(Keys{"head_dim"}, fmt.Sprint(a.Rotary))
		r.Only(Keys{"qk_head_dim"}, fmt.Sprint(a.Plain+a.Rotary))
	}
	r.Say(Keys{"qk_nope_head_dim"}, a.Plain, true)
	if length, values := (Keys{"", ".attention.key_length"}), ".attention.value_length"; a.Split {
		r.Say(Keys{"", "attn_k_b"}, "apart from attn_v_b", false)
		r.Say(length, a.Latent+a.Rotary, true)
		r.Say(Keys{"", values}, a.Latent, true)
		r.Say(Keys{"", ".attention.key_length_mla"}, a.Plain+a.Rotary, true)
		r.Say(Keys{"v_head_dim", ".attention.value_length_mla"}, a.Value, true)
		r.Say(Keys{"num_key_value_heads"}, a.Heads, true)
		r.Say(Keys{"", ".attention.head_count_kv"}, 1, true)
	} else {
		r.Say(length, a.Plain+a.Rotary, true)
		r.Say(Keys{"v_head_dim", values}, a.Value, true)
		r.Say(Keys{"num_key_value_heads", ".attention.head_count_kv"}, a.Heads, true)
	}
	if r.err == nil && a.Plain < 1 {
		r.Fail(fmt.Errorf("%s: heads of %d columns, of which %d are rotated, want fewer", r.c.Path, a.Plain+a.Rotary, a.Rotary))
	}
	a.RoPE = r.RoPE(a.Rotary)
	a.RoPE.Interleaved = r.FlagOr(Keys{"rope_interleave"}, true)
	a.Scale = r.scoreScale() / math.Sqrt(float64(a.Plain+a.Rotary))
	d.Attention = func(int) Mixer { return a }
	r.Only(Keys{"mlp_bias"}, "false")
	r.Only(Keys{"moe_layer_freq"}, "1")
	return d.AfterDense(r, moe)
}

// AfterDense returns a model with dense networks in its first layers and experts in the others.
func (d Decoder) AfterDense(r *Reader, moe nn.MoE) (*Model, error) {
	first := or(r, Keys{"first_k_dense_replace", ".leading_dense_block_count"}, r.c.Int, 0)
	wide, width := Keys{"intermediate_size", ".feed_forward_length"}, 0
	if r.key(wide); first > 0 {
		width = r.Size(wide)
	}
	d.Experts("mlp", moe, width, func(l int) bool { return l >= first })
	return d.Model(r, moe.Experts, moe.Route.TopK)
}

// Values of the GGUF key expert_gating_func.
const (
	ggufSoftmax = 1
	ggufSigmoid = 2

	ggufSoftmaxOfChosen = 3
)

// readDeepSeekExperts reads grouped experts and shared experts.
func readDeepSeekExperts(r *Reader) nn.MoE {
	m := nn.MoE{
		Experts: r.Experts(),
		Width:   r.Size(Keys{"moe_intermediate_size", ".expert_feed_forward_length"}),
		Route: primitives.RouteOp{
			TopK:      r.Size(Keys{"num_experts_per_tok", ".expert_used_count"}),
			Groups:    r.SizeOr(Keys{"n_group", ".expert_group_count"}, 0),
			TopGroups: r.SizeOr(Keys{"topk_group", ".expert_group_used_count"}, 0),
			Scale:     r.NumberOr(Keys{"routed_scaling_factor", ".expert_weights_scale"}, 1),
		},
		SharedName: "shared_experts",
	}
	m.Shared = m.Width * r.SizeOr(Keys{"n_shared_experts", ".expert_shared_count"}, 0)
	if m.Route.Groups <= 1 {
		m.Route.Groups, m.Route.TopGroups = 0, 0
	}
	return m
}

// readSigmoidExperts reads experts chosen by sigmoid scores plus a bias per expert. Their weights are the sigmoids
// without the bias.
func readSigmoidExperts(r *Reader) nn.MoE {
	m := readDeepSeekExperts(r)
	m.Bias = "e_score_correction_bias"
	if m.Route.Groups == 0 { // a single group, which files state in two ways
		r.Say(Keys{"n_group", ".expert_group_count"}, 1, true)
		r.Say(Keys{"topk_group", ".expert_group_used_count"}, 1, true)
	}
	m.Route.Score, m.Route.Epsilon = primitives.SigmoidScore, 1e-20
	m.Route.Renormalize = r.FlagOr(Keys{"norm_topk_prob", ".expert_weights_norm"}, !r.c.GGUF()) // llama.cpp's default is false
	r.Only(Keys{"", ".expert_gating_func"}, fmt.Sprint(ggufSigmoid))
	r.Say(Keys{"", ".expert_gating_func"}, ggufSigmoid, true)
	r.Only(Keys{"scoring_func"}, "sigmoid")
	r.Only(Keys{"topk_method"}, "noaux_tc")
	return m
}
