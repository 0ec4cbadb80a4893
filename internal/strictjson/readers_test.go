package strictjson_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/data"
	"github.com/gomoe/gomoe/pretrain"
	"github.com/gomoe/gomoe/tokenizer"
)

// A member that a file has twice is an error of every reader if its values differ, and none of most readers if they are equal.
func TestReaders(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600))
	}
	const vocabulary = `{"model":{"type":"BPE","merges":[],"vocab":{"a":0,"b":1}}}`
	write("tokenizer.json", vocabulary)
	tok, err := tokenizer.Open(dir)
	require.NoError(t, err)
	tokens := func(string) error {
		_, err := tokenizer.Open(dir)
		return err
	}
	config := func(path string) error {
		_, err := checkpoint.ReadConfig(path)
		return err
	}
	for name, r := range map[string]struct {
		text   string // has what is to be there twice between bars, and its other value after the second one
		member string
		read   func(path string) error
		never  bool // equal values are an error, too
	}{
		"config.json":                  {`{"x": 1, |"rope_theta": |1e4|1e6|}`, "rope_theta", config, false},
		"generation_config.json":       {`{"x": {|"top_k": |1|2|}}`, "top_k", config, false},
		"model.safetensors.index.json": {`{"weight_map": {|"a": |"x.safetensors"|"y.safetensors"|}}`, "a", func(path string) error { _, err := safetensors.OpenSet(path); return err }, false},
		"adapter_config.json":          {`{"peft_type": "LORA", "target_modules": [], |"r": |8|16|}`, "r", func(string) error { _, err := peft.Open(dir, peft.Layout{}); return err }, false},
		"tokenizer.json":               {strings.Replace(vocabulary, `"a":0`, `|"a":|0|2|`, 1), "a", tokens, false},
		"tokenizer_config.json":        {`{"add_bos_token": false, |"eos_token": |"a"|"b"|}`, "eos_token", tokens, false},
		"special_tokens_map.json":      {`{|"eos_token": |"a"|"b"|}`, "eos_token", tokens, false},
		"added_tokens.json":            {`{|"c": |2|3|}`, "c", tokens, false},
		"lines.jsonl": {`{|"text": |"a"|"b"|}`, "text", func(path string) error {
			_, err := data.Build(context.Background(), at("data.safetensors"), []string{path}, data.Options{Tokenizer: tok})
			return err
		}, false},
		"settings.json": {`{|"steps": |3|4|}`, "steps", func(path string) error { _, err := pretrain.Read(path); return err }, true},
	} {
		p := strings.Split(r.text, "|")
		for _, c := range []struct {
			text string
			want bool
		}{
			{p[0] + p[1] + p[2] + p[4], false},
			{p[0] + p[1] + p[2] + "," + p[1] + " " + p[2] + p[4], r.never},
			{p[0] + p[1] + p[2] + "," + p[1] + p[3] + p[4], true},
		} {
			write(name, c.text)
			err := r.read(at(name))
			if got := err != nil && strings.Contains(err.Error(), "there twice") && strings.Contains(err.Error(), `"`+r.member+`"`) && strings.Contains(err.Error(), name); got != c.want {
				t.Errorf("%s with %s: %v; is the error of a member that is there twice: %t, want %t", name, c.text, err, got, c.want)
			}
		}
		if name == "tokenizer.json" {
			write(name, vocabulary)
		} else {
			require.NoError(t, os.Remove(at(name)))
		}
	}
}
