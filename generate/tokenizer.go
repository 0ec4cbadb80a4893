package generate

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/tokenizer"
)

// Tokenizer opens the tokenizer of a model: from a GGUF file, or from tokenizer.json or tokenizer.model in the
// folder of the model's files.
func Tokenizer(c *checkpoint.Checkpoint) (*tokenizer.Tokenizer, error) {
	if c.Config.GGUF() {
		if _, ok := c.Config.Value("tokenizer.ggml.model"); ok {
			g, err := tokenizer.GGUFOf(c.Config.Value)
			if err != nil {
				return nil, fmt.Errorf("generate: %s: %w", c.Config.Path, err)
			}
			t, err := tokenizer.FromGGUF(g)
			if err != nil {
				return nil, fmt.Errorf("generate: %s: %w", c.Config.Path, err)
			}
			return t, nil
		}
	}
	folder := c.Path
	if info, err := os.Stat(folder); err == nil && !info.IsDir() {
		folder = filepath.Dir(folder)
	}
	return tokenizer.Open(folder)
}
