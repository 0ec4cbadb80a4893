package models

import (
	"slices"
	"strings"

	"github.com/gomoe/gomoe/checkpoint/peft"
)

// Family is a family of published models: how its files are read, and what training, conversion and adapters need to
// know of it. A family may live in any module; Open and convert.Options take it.
type Family struct {
	Name string // model_type in config.json
	GGUF string // general.architecture in GGUF files; "" if the family has none
	// Open reads a model's settings and returns the model, usually as a Decoder. It returns the reader's error, or an
	// error for a setting that the family does not support.
	Open func(r *Reader) (*Model, error)
	// Defaults holds the values of settings missing from config.json, following the family's configuration class in
	// transformers. A null setting counts as present and gets no default. Sizes of a model have no defaults:
	// transformers would use the sizes of a published model, but Open requires them.
	Defaults map[string]any
	// New holds entries of config.json for a small model trained from nothing, in addition to those of all families,
	// numbers as float64. Without it the family cannot be trained from nothing.
	New map[string]any
	// Experts is the name of the number of experts in config.json; "" if there are none.
	Experts string
	// Paired is set if GGUF files store the pairs of rotary positions as adjacent rows. In Hugging Face files, and in
	// GGUF files of all other architectures, they are half a head apart.
	Paired bool
	// LayerKinds is set if the class in transformers has layer_types, which name the objects in rope_parameters.
	LayerKinds bool
	// Adapters is how PEFT names and stores the matrices.
	Adapters peft.Layout
	// LlamaCPP and MLX are the programs opening converted files: llama.cpp and mlx-lm.
	LlamaCPP, MLX Program
}

// Program describes a program that opens files of a family.
type Program struct {
	// Limits lists the settings for which the program supports some values only. Programs ignore settings unknown to
	// them and use a constant instead.
	Limits []Limit
	// Reads lists the settings, separated by spaces, for which mlx-lm supports every value, apart from those
	// restricted by Limits and those of all families. Any other setting has no counterpart in mlx-lm.
	Reads string
	// Experts is the name in mlx-lm of the module with the experts' matrices; "" means switch_mlp.
	Experts string
	// RouterAlone is set if the router is no linear layer in mlx-lm, and therefore has no adapter.
	RouterAlone bool
}

// Known returns the settings that the program reads: those of Reads and those of all families.
func (p Program) Known() []string {
	return strings.Fields(`vocab_size hidden_size num_hidden_layers num_attention_heads num_key_value_heads rms_norm_eps rope_theta max_position_embeddings
		tie_word_embeddings intermediate_size head_dim num_experts_per_tok num_nextn_predict_layers ` + p.Reads)
}

// CountsOfExperts lists the names of the number of experts.
func CountsOfExperts() []string {
	return []string{"num_experts", "num_local_experts", "n_routed_experts"}
}

// Spelled returns a setting's name as spelled by transformers 4, llama.cpp and mlx-lm. transformers 5 renamed the
// settings of positions and the number of experts.
func (f Family) Spelled(name string) string {
	if rest, ok := strings.CutPrefix(name, "rope_parameters."); ok {
		_, member, kinds := strings.Cut(rest, "full_attention.") // transformers 5 may have an object for each kind of attention
		if name = scaling + rest; kinds {
			name = scaling + member
		}
	}
	if name == scaling+"type" {
		return scaling + "rope_type"
	}
	if f.Experts != "" && slices.Contains(CountsOfExperts(), name) {
		return f.Experts
	}
	return name
}
