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
	t, err := opened(path, data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, nil
}

// opened returns the tokenizer of a file with the given content, and of the other files in its folder.
func opened(path string, data []byte) (*Tokenizer, error) {
	dir := filepath.Dir(path)
	files, c, err := settingsIn(dir)
	if err != nil {
		return nil, err
	}
	var t *Tokenizer
	if filepath.Ext(path) == ".model" {
		t, err = parsePieces(data)
	} else {
		var f *file
		if f, err = parseFile(data, c, files[modelName]); err == nil {
			t, err = f.build()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, t.configured(dir, c, files)
}

// read returns a file's bytes.
func read(path string) ([]byte, error) {
	return infile.Read(path, maxFile)
}
