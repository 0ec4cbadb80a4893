package models

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/near"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/nn"
)

// Model is a published model.
type Model struct {
	Family  string // name in Hugging Face files
	Vocab   int    // number of tokens
	Context int    // number of positions the model was trained for
	Layers  int
	Experts int // per layer; 0 if layers have dense networks only
	TopK    int // experts per token
	// Settings lists the settings found in the files, under their names in both formats.
	Settings []Setting
	// RopeFactors divide the position frequencies, as in the GGUF tensor RopeFactors; nil if there are none.
	RopeFactors []float32
	HeadWidth   int // columns per head of queries and keys
	// Grows is the text length, in tokens, beyond which the rotation of all positions depends on the length; 0 means
	// that it never does.
	Grows int
	Heads int // key/value heads that the axis tp can split evenly; 0 if it splits none
	// CachePlace lists the mesh axes splitting the caches of keys and values, in the form of nn.Param.Place.
	CachePlace []string
	// Forward returns the logits f32[B,S,Vocab] of tokens i32[B,S]. If st requests only the last token's logits, they
	// are f32[B,1,Vocab], and the axis tp shards the vocabulary unless the head shares the embedding table.
	Forward func(s *nn.Scope, tokens *graph.Value, st *nn.Step) *graph.Value
}

// family is a family of models: its names in Hugging Face and in GGUF files, and the function opening a model. If
// several have the same name, the first one reads the files of all of them and determines the family.
type family struct {
	name, gguf string
	open       func(*checkpoint.Checkpoint) (*Model, error)
}

func families() []family {
	return []family{
		{"deepseek_v2", "deepseek2", openDeepSeekV2},
		{"deepseek_v3", "deepseek2", openDeepSeekV3},
		{"glm4_moe", "glm4moe", openGLM4MoE},
		{"gpt_oss", "gpt-oss", openGPTOSS},
		{"llama", "llama", openLlama},
		{"mixtral", "llama", openMixtral},
		{"olmoe", "olmoe", openOLMoE},
		{"qwen2_moe", "qwen2moe", openQwen2MoE},
		{"qwen3", "qwen3", openQwen3},
		{"qwen3_moe", "qwen3moe", openQwen3MoE},
	}
}

// familyOf returns the Hugging Face name of the first family that reads files of an architecture.
func familyOf(c checkpoint.Config) string {
	for _, f := range families() {
		if f.name == c.Architecture && !c.GGUF() || f.gguf == c.Architecture && c.GGUF() {
			return f.name
		}
	}
	return ""
}

// Names returns the Hugging Face names of the families.
func Names() []string {
	var names []string
	for _, f := range families() {
		names = append(names, f.name)
	}
	return names
}

// Open identifies the model of a checkpoint, without reading weights. Errors name the file and the offending
// setting.
func Open(c *checkpoint.Checkpoint) (*Model, error) {
	a := c.Config.Architecture
	var known []string
	for _, f := range families() {
		name := f.name
		if c.Format == checkpoint.GGUF {
			name = f.gguf
		}
		if name == a {
			m, err := f.open(c)
			if err != nil {
				return nil, fmt.Errorf("models: %w", err)
			}
			if m.Family == "" {
				m.Family = f.name
			}
			return m, nil
		}
		if !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	if _, err := os.Stat(filepath.Join(c.Path, peft.ConfigName)); a == "" && err == nil {
		return nil, fmt.Errorf("models: %s: this is an adapter; give the model that it was trained on, and -adapter %s", c.Path, c.Path)
	}
	if a == "" {
		return nil, fmt.Errorf("models: %s: nothing says what the model's architecture is: want %s beside it", c.Path, checkpoint.ConfigName)
	}
	return nil, fmt.Errorf("models: %s: architecture %s, want one of %s%s", c.Config.Path, quoted.Name(a), strings.Join(known, " "), near.Names(a, slices.Values(known)))
}
