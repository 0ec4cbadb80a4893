package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
)

// Limit is a setting for which a program supports only some values. Sources: llama.cpp, src/llama-model.cpp and
// src/models (August 2026, as in llama-cpp-python 0.3.36), and mlx-lm 0.32.2, mlx_lm/models.
type Limit struct {
	Name string // of the setting, for errors
	// Heeds reports whether the program supports the values of a model's settings, by their names in config.json as
	// spelled by Family.Spelled.
	Heeds func(settings map[string]any) bool
	Want  string // the supported values
}

// Absent reports whether a setting's value stands for its absence: nil, 0, an empty list or the text default.
func Absent(v any) bool {
	switch v := v.(type) {
	case int:
		return v == 0
	case float64:
		return v == 0
	case []int:
		return len(v) == 0
	case []string:
		return len(v) == 0
	case string:
		return v == "default"
	}
	return v == nil
}

// only is a setting with a single supported value. An absent setting is accepted.
func only(name string, value any) Limit {
	want := quoted.Value(value)
	return Limit{name, func(s map[string]any) bool { return Absent(s[name]) || quoted.Value(s[name]) == want }, want}
}

// none is a setting unknown to a program.
func none(name string) Limit {
	return Limit{name, func(s map[string]any) bool { return Absent(s[name]) }, "none"}
}

// positions lists the kinds of position scaling supported for a family.
func positions(kinds ...string) Limit {
	const name = scaling + "rope_type"
	return Limit{name, func(s map[string]any) bool { return Absent(s[name]) || slices.Contains(kinds, s[name].(string)) }, strings.Join(append([]string{"default"}, kinds...), " or ")}
}

const (
	scaling       = "rope_scaling."
	partialRotary = "partial_rotary_factor"
)

func integer(s map[string]any, name string) int {
	n, _ := s[name].(int)
	return n
}

// wholeHeads is for programs that do not read the width of a head.
func wholeHeads() Limit {
	return Limit{"head_dim", func(s map[string]any) bool {
		width := integer(s, "head_dim")
		return width == 0 || width*integer(s, "num_attention_heads") == integer(s, "hidden_size")
	}, "hidden_size/num_attention_heads"}
}

// noWindow is for programs without sliding windows, where a query attends to all preceding keys.
func noWindow() Limit {
	return Limit{"sliding_window", func(s map[string]any) bool {
		window := integer(s, "sliding_window")
		return window == 0 || window >= integer(s, "max_position_embeddings")
	}, "none"}
}

// everyLayerSparse is for programs with experts in all layers.
func everyLayerSparse() []Limit {
	return []Limit{only("decoder_sparse_step", 1), none("mlp_only_layers")}
}

// most is a limit on the number of layers or experts.
func most(name string, n int) Limit {
	return Limit{name, func(s map[string]any) bool { return integer(s, name) <= n }, fmt.Sprintf("at most %d", n)}
}

// llamaCPP returns llama.cpp's limits for all families, followed by those of one.
func llamaCPP(of ...Limit) []Limit {
	return append([]Limit{
		most("num_hidden_layers", 512),
		only(scaling+"beta_fast", 32.0), only(scaling+"beta_slow", 1.0), only(scaling+"truncate", true),
	}, of...)
}

// noMscale is for families without mscale_all_dim and attention_factor in llama.cpp.
func noMscale() Limit { return none(scaling + "mscale") }

// linearOrYaRN is for families for which llama.cpp reads no tensor of factors: all but llama.
func linearOrYaRN() Limit { return positions("linear", "yarn") }

// ropeUtils returns the limits of mlx_lm/models/rope_utils.py.
func ropeUtils() []Limit {
	return []Limit{positions("linear", "llama3", "yarn"), none(scaling + "attention_factor"), only(scaling+"truncate", true),
		{scaling + "mscale", func(s map[string]any) bool { return Absent(s[scaling+"mscale"]) == Absent(s[scaling+"mscale_all_dim"]) }, "mscale and mscale_all_dim, or neither"}}
}
