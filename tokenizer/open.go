package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/internal/infile"
)

// maxFile is the maximum size of a file read by Open, in bytes. The largest published tokenizer.json has 35 MB.
const maxFile = 256 << 20

// FileName is the usual name of a tokenizer's file, in the folder of a model.
const FileName = "tokenizer.json"

// Open opens a tokenizer: a file tokenizer.json or tokenizer.model, or a model's folder containing one of them, or
// vocab.json and merges.txt, preferring the first. The files tokenizer_config.json, special_tokens_map.json and
// added_tokens.json in the same folder define the tokens beginning and ending a text, and additional tokens. Every
// error names the file and the mistake in it.
func Open(path string) (*Tokenizer, error) {
	t, _, _, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, nil
}

// open opens a tokenizer. It also returns the tokenizer.json that the tokenizer was built from, or the bytes of its
// tokenizer.model.
func open(path string) (t *Tokenizer, f *file, pieces []byte, err error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if path, err = source(path); err != nil {
			return nil, nil, nil, err
		}
	}
	data, err := readSource(path)
	if err != nil {
		return nil, nil, nil, err
	}
	dir := filepath.Dir(path)
	files, c, err := settingsIn(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	if filepath.Ext(path) == ".model" {
		pieces = data
		t, err = parsePieces(data)
	} else if f, err = parseFile(data, c, files[modelName]); err == nil {
		if _, ok := byteClasses()[f.class]; !ok && filepath.Base(path) == vocabName {
			err = fmt.Errorf("tokenizer_class %s, and no tokenizer.json that says how to cut words; want tokenizer.json, or one of the classes %s", f.class, strings.Join(slices.Sorted(maps.Keys(byteClasses())), ", "))
		} else if t, err = f.build(); err == nil {
			err = f.nameDefaults(t, c)
		}
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, f, pieces, t.configured(dir, c, files)
}

// Names of the files of a tokenizer of byte pairs in older folders.
const vocabName, mergesName = "vocab.json", "merges.txt"

// source returns the path of the file in a folder that a tokenizer is made of.
func source(dir string) (string, error) {
	for _, name := range []string{FileName, "tokenizer.model", vocabName} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
	}
	for _, other := range []string{"tekken.json", "tiktoken.model", "vocab.txt"} {
		if _, err := os.Stat(filepath.Join(dir, other)); err == nil {
			return "", fmt.Errorf("%s: a folder with %s, want tokenizer.json, tokenizer.model, or vocab.json and merges.txt: add the tokenizer.json that the model's publisher or transformers' save_pretrained makes of it", dir, other)
		}
	}
	return "", fmt.Errorf("%s: a folder without a tokenizer, want tokenizer.json, tokenizer.model, or vocab.json and merges.txt", dir)
}

// readSource returns the bytes of such a file. vocab.json and merges.txt become a tokenizer.json with a model alone.
func readSource(path string) ([]byte, error) {
	data, err := read(path)
	if err != nil || filepath.Base(path) != vocabName {
		return data, err
	}
	lines, err := read(filepath.Join(filepath.Dir(path), mergesName))
	if err != nil {
		return nil, err
	}
	merges := []string{}
	for line := range strings.Lines(string(lines)) {
		if line = strings.TrimSpace(line); line != "" && (len(merges) > 0 || !strings.HasPrefix(line, "#version")) {
			merges = append(merges, line)
		}
	}
	return json.Marshal(map[string]any{"model": map[string]any{"type": "BPE", "vocab": json.RawMessage(data), "merges": merges}})
}

// read returns a file's bytes.
func read(path string) ([]byte, error) {
	return infile.Read(path, maxFile)
}
