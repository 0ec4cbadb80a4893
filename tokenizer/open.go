package tokenizer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gomoe/gomoe/internal/infile"
)

// maxFile is the maximum size of a file read by Open, in bytes. The largest published tokenizer.json has 35 MB.
const maxFile = 256 << 20

// FileName is the usual name of a tokenizer's file, in the folder of a model.
const FileName = "tokenizer.json"

// Open opens a tokenizer: a file tokenizer.json or tokenizer.model, or a model's folder containing one of them,
// preferring tokenizer.json. The files tokenizer_config.json, special_tokens_map.json and added_tokens.json in the
// same folder define the tokens beginning and ending a text, and additional tokens. Every error names the file and
// the mistake in it.
func Open(path string) (*Tokenizer, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		dir := path
		path = filepath.Join(dir, FileName)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Stat(filepath.Join(dir, "tokenizer.model")); err == nil {
				path = filepath.Join(dir, "tokenizer.model")
			}
		}
	}
	data, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	parse := Parse
	if filepath.Ext(path) == ".model" {
		parse = ParseSentencePiece
	}
	t, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", path, err)
	}
	if err := t.configured(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, nil
}

// read returns a file's bytes.
func read(path string) ([]byte, error) {
	return infile.Read(path, maxFile)
}
