package generate

import (
	"maps"
	"path/filepath"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/tokenizer"
)

// Ends returns the tokens ending a text, as listed in config.json, generation_config.json or the GGUF file, and by
// the tokenizer.
func Ends(c *checkpoint.Checkpoint, t *tokenizer.Tokenizer) (map[int32]bool, error) {
	ends, err := c.Config.IDs("eos_token_id")
	if err != nil {
		return nil, err
	}
	for _, id := range t.Ends() {
		ends[id] = true
	}
	more, err := checkpoint.ReadConfig(filepath.Join(filepath.Dir(c.Files[0]), "generation_config.json"))
	if err != nil {
		return nil, err
	}
	others, err := more.IDs("eos_token_id")
	maps.Copy(ends, others)
	return ends, err
}
