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
	Family  string // the name in Hugging Face's files
	Vocab   int    // tokens
	Context int    // positions that the model was trained for
	Layers  int
	Experts int // of a layer; 0 if it has one network instead
	TopK    int // experts that a token uses
	// Settings is what the files say about the model, under the names of both kinds of files.
	Settings []Setting
	// RopeFactors divide the frequencies of positions, as GGUF files have them in their tensor RopeFactors; nil if there are none.
	RopeFactors []float32
	HeadWidth   int // columns of a head of queries and keys
	// Grows is the length of a text, in tokens, beyond which the rotation of all its positions depends on its length; 0 means that it never
	// does.
	Grows int
	Heads int // of keys and values that the axis tp splits, into equal parts; 0 if it splits no such heads
	// CachePlace has the mesh axes that split the caches of keys and values, as nn.Param.Place has them.
	CachePlace []string
	// Forward returns the logits f32[B,S,Vocab] of tokens i32[B,S], or f32[B,1,Vocab] if st asks for the last
	// token's alone, which the axis tp then splits by the vocabulary, if the head is a matrix of its own.
	Forward func(s *nn.Scope, tokens *graph.Value, st *nn.Step) *graph.Value
}

// family is a family of models: its names in Hugging Face's and in GGUF files, and what reads a model of it. The first
// one of several with the same name reads the files of all of them, and says which family it is.
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

// familyOf returns the name of the first family that reads files of an architecture, as Hugging Face's files have it.
func familyOf(c checkpoint.Config) string {
	for _, f := range families() {
		if f.name == c.Architecture && !c.GGUF() || f.gguf == c.Architecture && c.GGUF() {
			return f.name
		}
	}
	return ""
}

// Names returns the names of the families, as Hugging Face's files have them.
func Names() []string {
	var names []string
	for _, f := range families() {
		names = append(names, f.name)
	}
	return names
}

// Open reads what the model of a checkpoint is. It reads no weights. Errors name the file and what it lacks.
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
