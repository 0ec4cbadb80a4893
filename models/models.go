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
	Family Family
	Vocab  int // number of tokens
	// Context is the maximum length of a text in tokens: the number of positions the model was trained for, which
	// dynamic position scaling multiplies by its factor.
	Context int
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
	// Forward returns the logits f32[B,S,Vocab] of tokens i32[B,S]. If st requests only the last token's logits, they
	// are f32[B,1,Vocab], and the axis tp shards the vocabulary unless the head shares the embedding table.
	Forward func(s *nn.Scope, tokens *graph.Value, st *nn.Step) *graph.Value
}

// Families returns the families of the package. If several have the same name, the first one reads the files of all
// of them and determines the family.
func Families() []Family {
	return []Family{deepSeekV2(), deepSeekV3(), glm4MoE(), gptOSS(), llama(), mixtral(), olmoe(), qwen2MoE(), qwen3(), qwen3MoE()}
}

// familyOf returns the first family that reads files of an architecture, or false and the names of all families.
func familyOf(c checkpoint.Config, families []Family) (_ Family, known []string, ok bool) {
	for _, f := range slices.Concat(families, Families()) {
		name := f.Name
		if c.GGUF() {
			name = f.GGUF
		}
		if name != "" && name == c.Architecture {
			return f, nil, true
		}
		if name != "" && !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	return Family{}, known, false
}

// Open identifies the model of a checkpoint, without reading weights. The given families are tried before those of
// the package. Errors name the file and the offending setting.
func Open(c *checkpoint.Checkpoint, families ...Family) (*Model, error) {
	a := c.Config.Architecture
	f, known, ok := familyOf(c.Config, families)
	if ok {
		m, err := f.Open(newReader(c, f))
		if err != nil {
			return nil, fmt.Errorf("models: %w", err)
		}
		return m, nil
	}
	if _, err := os.Stat(filepath.Join(c.Path, peft.ConfigName)); a == "" && err == nil {
		return nil, fmt.Errorf("models: %s: this is an adapter; give the model that it was trained on, and -adapter %s", c.Path, c.Path)
	}
	if a == "" {
		return nil, fmt.Errorf("models: %s: nothing says what the model's architecture is: want %s beside it", c.Path, checkpoint.ConfigName)
	}
	return nil, fmt.Errorf("models: %s: architecture %s, want one of %s%s", c.Config.Path, quoted.Name(a), strings.Join(known, " "), near.Names(a, slices.Values(known)))
}
