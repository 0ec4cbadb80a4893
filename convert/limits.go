package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/checkpoint"
)

// settings holds the values of a model's settings by their names in config.json, as spelled by function spelled.
type settings map[string]any

// a limit is a setting for which the program that opens the written files supports only some values. llama.cpp and
// mlx-lm ignore settings unknown to them and use a constant instead. Sources: llama.cpp, src/llama-model.cpp and
// src/models (August 2026, as in llama-cpp-python 0.3.36), and mlx-lm 0.32.2, mlx_lm/models.
type limit struct {
	name string // of the setting, for errors
	// heeds reports whether the program supports the settings' values.
	heeds func(s settings) bool
	want  string // the supported values
}

// only is a setting with a single supported value. An absent setting is accepted.
func only(name string, value any) limit {
	want := fmt.Sprint(value)
	return limit{name, func(s settings) bool { return nothing(s[name]) || fmt.Sprint(s[name]) == want }, want}
}

// none is a setting unknown to a program.
func none(name string) limit {
	return limit{name, func(s settings) bool { return nothing(s[name]) }, "none"}
}

// positions lists the kinds of position scaling supported for a family.
func positions(kinds ...string) limit {
	const name = scaling + "rope_type"
	return limit{name, func(s settings) bool { return nothing(s[name]) || slices.Contains(kinds, s[name].(string)) }, strings.Join(append([]string{"default"}, kinds...), " or ")}
}

const scaling = "rope_scaling."

func (s settings) int(name string) int {
	n, _ := s[name].(int)
	return n
}

// wholeHeads is for programs that do not read the width of a head.
func wholeHeads() limit {
	return limit{"head_dim", func(s settings) bool {
		return s.int("head_dim") == 0 || s.int("head_dim")*s.int("num_attention_heads") == s.int("hidden_size")
	}, "hidden_size/num_attention_heads"}
}

// noWindow is for programs without sliding windows, where a query attends to all preceding keys.
func noWindow() limit {
	return limit{"sliding_window", func(s settings) bool {
		return s.int("sliding_window") == 0 || s.int("sliding_window") >= s.int("max_position_embeddings")
	}, "none"}
}

// everyLayerSparse is for programs with experts in all layers.
func everyLayerSparse() []limit {
	return []limit{only("decoder_sparse_step", 1), none("mlp_only_layers")}
}

// limits returns the limits of the program that opens files of a layout, for a family.
func limits(layout Layout, family string) []limit {
	switch layout {
	case GGUF:
		return ggufLimits(family)
	case MLX:
		return mlxLimits(family)
	}
	return nil
}

// most is a limit of llama.cpp on the number of layers or experts.
func most(name string, n int) limit {
	return limit{name, func(s settings) bool { return s.int(name) <= n }, fmt.Sprintf("at most %d", n)}
}

func ggufLimits(family string) []limit {
	all := []limit{
		most("num_hidden_layers", 512),
		only(scaling+"beta_fast", 32.0), only(scaling+"beta_slow", 1.0), only(scaling+"truncate", true),
	}
	deepseek := strings.HasPrefix(family, "deepseek")
	if !deepseek { // mscale_all_dim and attention_factor have no key
		all = append(all, none(scaling+"mscale"))
	}
	if family != "llama" { // llama.cpp reads the tensor of factors only for llama
		all = append(all, positions("linear", "yarn"))
	}
	if !deepseek && family != "glm4_moe" {
		all = append(all, none("partial_rotary_factor"))
	}
	switch family {
	case "mixtral":
		return append(all, most("num_local_experts", 1024), noWindow())
	case "olmoe":
		return append(all, most("num_experts", 1024), wholeHeads(), only("norm_topk_prob", false), only("tie_word_embeddings", false), none("clip_qkv"), only("attention_bias", false),
			limit{"num_key_value_heads", func(s settings) bool { return s.int("num_key_value_heads") == s.int("num_attention_heads") }, "num_attention_heads"})
	case "qwen2_moe":
		return slices.Concat(all, everyLayerSparse(), []limit{most("num_experts", 1024), wholeHeads(), only("norm_topk_prob", false), only("tie_word_embeddings", false)})
	case "qwen3":
		return append(all, only("attention_bias", false))
	case "qwen3_moe":
		return slices.Concat(all, everyLayerSparse(), []limit{most("num_experts", 1024), only("norm_topk_prob", true), only("attention_bias", false)})
	case "gpt_oss":
		return append(all, most("num_local_experts", 1024), only("attention_bias", true), only("tie_word_embeddings", false), only("swiglu_limit", 7.0), only("swiglu_alpha", 1.702))
	case "deepseek_v2", "deepseek_v3", "glm4_moe":
		all = append(all, most("n_routed_experts", 1024),
			limit{"n_shared_experts", func(s settings) bool { return s.int("n_shared_experts") > 0 }, "at least 1"},
			limit{"topk_group", func(s settings) bool { return s.int("n_group") <= 1 || s.int("topk_group") < s.int("n_group") }, "less than n_group"},
			limit{"n_group", func(s settings) bool { return s.int("n_group") < s.int("n_routed_experts") }, "less than n_routed_experts"})
	}
	if !deepseek {
		return all
	}
	all = append(all, positions("yarn"), only("attention_bias", false),
		limit{scaling + "mscale_all_dim", func(s settings) bool {
			return s[scaling+"rope_type"] != "yarn" || !nothing(s[scaling+"mscale_all_dim"])
		}, "a number above 0 that mscale is equal to"},
		limit{"q_lora_rank", func(s settings) bool { // llama.cpp recognises models without it by their number of layers
			lite := slices.Contains([]int{26, 27}, s.int("num_hidden_layers")) || s.int("num_hidden_layers") == 48 && s.int("vocab_size") == 128256
			return lite == (s.int("q_lora_rank") == 0)
		}, "0 in models of 26 or 27 layers, and above 0 in others"},
		limit{"rms_norm_eps", func(s settings) bool {
			// transformers uses 1e-6 in the norms of latents, llama.cpp uses the setting. With the published 1e-5, the
			// logits of a small model differ by 4e-6 of the largest one, no more than from rounding; with 1e-4, by 5e-5.
			x, _ := s["rms_norm_eps"].(float64)
			return float32(x) <= 1e-5
		}, "1e-05 at most, because its norms of latents use the setting in place of 1e-06,"})
	if family == "deepseek_v2" { // llama.cpp adds the two best scores of a group, as DeepSeek-V3 does
		all = append(all, limit{"n_group", func(s settings) bool { return s.int("n_group") <= 1 }, "1"})
	}
	return all
}

func mlxLimits(family string) []limit {
	var all []limit
	switch family { // mlx_lm/models/rope_utils.py
	case "llama", "qwen3", "olmoe", "gpt_oss", "deepseek_v2", "deepseek_v3":
		all = []limit{positions("linear", "llama3", "yarn"), none(scaling + "attention_factor"), only(scaling+"truncate", true),
			limit{scaling + "mscale", func(s settings) bool { return nothing(s[scaling+"mscale"]) == nothing(s[scaling+"mscale_all_dim"]) }, "mscale and mscale_all_dim, or neither"}}
	default:
		all = []limit{positions()}
	}
	if family != "glm4_moe" {
		all = append(all, none("partial_rotary_factor"))
	}
	switch family {
	case "qwen3", "qwen3_moe":
		return append(all, only("attention_bias", false))
	case "mixtral":
		return append(all, wholeHeads(), noWindow())
	case "olmoe":
		return append(all, none("clip_qkv"))
	case "qwen2_moe":
		return slices.Concat(all, everyLayerSparse(), []limit{wholeHeads(), only("norm_topk_prob", false), only("qkv_bias", true), only("tie_word_embeddings", false)})
	case "gpt_oss":
		return append(all, only("attention_bias", true), only("tie_word_embeddings", false), only("swiglu_limit", 7.0), only("swiglu_alpha", 1.702),
			limit{"layer_types", func(s settings) bool {
				kinds, _ := s["layer_types"].([]string)
				return slices.Contains(kinds, "sliding_attention") && slices.Contains(kinds, "full_attention")
			}, "layers of both kinds"})
	case "deepseek_v2", "deepseek_v3", "glm4_moe":
		all = append(all, only("tie_word_embeddings", false))
	}
	switch family {
	case "deepseek_v2":
		return append(all, only("rope_interleave", true), limit{scaling + "rope_type", func(s settings) bool { return s[scaling+"rope_type"] == "yarn" }, "yarn"})
	case "deepseek_v3":
		all = append(all, only("rope_interleave", true), limit{"num_hidden_layers", func(s settings) bool { return s.int("num_hidden_layers") <= 61 }, "at most 61"})
		fallthrough
	case "glm4_moe":
		all = append(all, limit{"norm_topk_prob", func(s settings) bool { return s.int("num_experts_per_tok") > 1 || s["norm_topk_prob"] != true }, "false where a token uses one expert"})
	}
	return all
}

// unlimited returns the settings for which mlx-lm supports every value, apart from those restricted by limits. Any
// other setting has no counterpart in mlx-lm.
func unlimited(family string) []string {
	all := strings.Fields(`vocab_size hidden_size num_hidden_layers num_attention_heads num_key_value_heads rms_norm_eps rope_theta max_position_embeddings
		tie_word_embeddings intermediate_size head_dim num_experts_per_tok num_nextn_predict_layers`)
	return append(all, strings.Fields(map[string]string{
		"llama":       "attention_bias rope_scaling",
		"qwen3":       "layer_types rope_scaling",
		"mixtral":     "num_local_experts",
		"olmoe":       "num_experts norm_topk_prob attention_bias rope_scaling",
		"qwen2_moe":   "num_experts moe_intermediate_size shared_expert_intermediate_size layer_types",
		"qwen3_moe":   "num_experts moe_intermediate_size norm_topk_prob decoder_sparse_step mlp_only_layers layer_types",
		"gpt_oss":     "num_local_experts sliding_window layer_types rope_scaling",
		"glm4_moe":    "n_routed_experts moe_intermediate_size n_shared_experts n_group topk_group routed_scaling_factor norm_topk_prob first_k_dense_replace use_qk_norm attention_bias partial_rotary_factor",
		"deepseek_v2": deepSeek + " topk_method",
		"deepseek_v3": deepSeek + " norm_topk_prob",
	}[family])...)
}

const deepSeek = `n_routed_experts moe_intermediate_size n_shared_experts n_group topk_group routed_scaling_factor first_k_dense_replace attention_bias rope_scaling
	q_lora_rank kv_lora_rank qk_rope_head_dim qk_nope_head_dim v_head_dim`

// spelled returns a setting's name as spelled by transformers 4, llama.cpp and mlx-lm. transformers 5 renamed the
// settings of positions and the number of experts.
func spelled(family, name string) string {
	if rest, ok := strings.CutPrefix(name, "rope_parameters."); ok {
		_, member, kinds := strings.Cut(rest, "full_attention.") // transformers 5 may have an object for each kind of attention
		if name = scaling + rest; kinds {
			name = scaling + member
		}
	}
	if name == scaling+"type" {
		return scaling + "rope_type"
	}
	if slices.Contains(countsOfExperts(), name) {
		switch family {
		case "olmoe", "qwen2_moe", "qwen3_moe":
			return "num_experts"
		case "deepseek_v2", "deepseek_v3", "glm4_moe":
			return "n_routed_experts"
		}
	}
	return name
}

// countsOfExperts lists the names of the number of experts.
func countsOfExperts() []string {
	return []string{"num_experts", "num_local_experts", "n_routed_experts"}
}

// heeded returns an error if the program that opens files of the layout would ignore a setting's value.
func (j *conversion) heeded() error {
	program := map[Layout]string{GGUF: "llama.cpp", MLX: "mlx-lm"}[j.o.Layout]
	if program == "" || j.o.Layout == GGUF && j.c.Format == checkpoint.GGUF {
		return nil
	}
	family := j.m.Family
	all := settings{}
	for _, s := range j.m.Settings {
		if s.Name != "" && (s.Value != nil || all[spelled(family, s.Name)] == nil) {
			all[spelled(family, s.Name)] = s.Value
		}
	}
	known := unlimited(family)
	for _, l := range limits(j.o.Layout, family) {
		known = append(known, l.name)
		if !l.heeds(all) {
			return fmt.Errorf("%s: %s is %v, and %s takes %s for %s whatever the file says; write a folder of Hugging Face's layout, or change the setting", j.c.Config.Path, l.name, j.stated(l.name, all[l.name]), program, l.want, family)
		}
	}
	for _, s := range j.m.Settings {
		name := spelled(family, s.Name)
		object, _, _ := strings.Cut(name, ".")
		if j.o.Layout == MLX && name != "" && object != "quantization_config" && !s.Usual && !slices.Contains(known, name) && !slices.Contains(known, object) {
			return fmt.Errorf("%s: %s is %v, which %s does not read for %s; write a folder of Hugging Face's layout, or change the setting", j.c.Config.Path, name, s.Value, program, family)
		}
	}
	return nil
}

// grouped returns an error if mlx-lm may choose an expert outside the best groups. mlx-lm gives such experts the
// score 0, while transformers and llama.cpp use -∞, so scores made negative by an expert's bias may lose to them.
// No negative score is among the best if any choice of groups has enough experts with a bias of at least 0.
func (j *conversion) grouped() error {
	all := map[string]int{}
	for _, s := range j.m.Settings {
		if n, ok := s.Value.(int); ok {
			all[spelled(j.m.Family, s.Name)] = n
		}
	}
	groups, best, chosen := all["n_group"], all["topk_group"], all["num_experts_per_tok"]
	if j.o.Layout != MLX || groups <= 1 || best >= groups || j.m.Family == "deepseek_v2" { // deepseek_v2 has positive scores only
		return nil
	}
	for _, p := range j.params {
		if !strings.HasSuffix(p.Name, ".e_score_correction_bias") {
			continue
		}
		x, err := p.w.Array()
		if err != nil {
			return err
		}
		biases := x.Float64s()
		safe := make([]int, groups)
		for e, b := range biases {
			if b >= 0 {
				safe[e*groups/len(biases)]++
			}
		}
		slices.Sort(safe)
		sum := 0
		for _, n := range safe[:best] {
			sum += n
		}
		if sum < chosen {
			return fmt.Errorf("%s: %s has negative biases, with which mlx-lm may choose experts outside of the %d best groups of %d: %d of their experts are sure to have a score above 0, want %d; write a folder of Hugging Face's layout",
				j.c.Path, p.Name, best, groups, sum, chosen)
		}
	}
	return nil
}

// stated returns a setting's value for an error's text. A value of 0 may come from the file or stand for absence.
func (j *conversion) stated(name string, v any) any {
	if _, ok := j.c.Config.Value(name); nothing(v) && (v == nil || !ok) {
		return "absent"
	}
	return v
}
