package generate

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/tokenizer"
)

// Tokenizer opens the tokenizer of a model: the one in a GGUF file, or the tokenizer.json or tokenizer.model in the
// folder of the model's files.
func Tokenizer(c *checkpoint.Checkpoint) (*tokenizer.Tokenizer, error) {
	if c.Config.GGUF() {
		if _, ok := c.Config.Value("tokenizer.ggml.model"); ok {
			t, err := ofGGUF(c.Config)
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

// ofGGUF makes a tokenizer of a file's keys.
func ofGGUF(c checkpoint.Config) (*tokenizer.Tokenizer, error) {
	g := tokenizer.GGUF{BOS: -1, EOS: -1, Unknown: -1, Pad: -1}
	k := keys{c: c}
	k.text("model", &g.Model)
	k.text("pre", &g.Pre)
	value(&k, "tokenizer.ggml.tokens", &g.Tokens)
	value(&k, "tokenizer.ggml.merges", &g.Merges)
	value(&k, "tokenizer.ggml.scores", &g.Scores)
	value(&k, "tokenizer.ggml.token_type", &g.Types)
	k.id("bos_token_id", &g.BOS)
	k.id("eos_token_id", &g.EOS)
	k.id("unknown_token_id", &g.Unknown)
	k.id("padding_token_id", &g.Pad)
	g.AddSpace = g.Model == "llama" // what a file that does not say it means
	g.AddBOS = g.Model == "llama"
	value(&k, "tokenizer.ggml.add_bos_token", &g.AddBOS)
	value(&k, "tokenizer.ggml.add_eos_token", &g.AddEOS)
	value(&k, "tokenizer.ggml.add_space_prefix", &g.AddSpace)
	value(&k, "tokenizer.chat_template", &g.Template)
	if k.err != nil {
		return nil, k.err
	}
	return tokenizer.FromGGUF(g)
}

// keys reads the keys of a file. After an error all further reads do nothing.
type keys struct {
	c   checkpoint.Config
	err error
}

// value sets dst to the value of a key, and leaves it if there is no such key.
func value[T any](k *keys, key string, dst *T) {
	v, ok := k.c.Value(key)
	if !ok || k.err != nil {
		return
	}
	x, ok := v.(T)
	if !ok {
		k.err = fmt.Errorf("key %q has a value of Go type %T, want %T", key, v, *dst)
		return
	}
	*dst = x
}

func (k *keys) text(key string, dst *string) { value(k, "tokenizer.ggml."+key, dst) }

func (k *keys) id(key string, dst *int32) {
	n, ok, err := k.c.Int("tokenizer.ggml." + key)
	if k.err == nil {
		k.err = err
	}
	if ok && err == nil {
		*dst = int32(n)
	}
}
