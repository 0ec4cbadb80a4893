package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxFile is the longest file that Open reads, in bytes. The largest published
// tokenizer.json has 35 MB.
const maxFile = 256 << 20

// FileName is the usual name of a tokenizer's file, in the folder of a model.
const FileName = "tokenizer.json"

// Open opens a tokenizer: a file tokenizer.json or tokenizer.model, or the folder
// of a model that has one of them; tokenizer.json is taken if there are both. A tokenizer_config.json beside it says which tokens begin and end a
// text. Every error names the file and what is wrong with it.
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

// configured reads what stands beside a tokenizer: tokenizer_config.json, and
// chat_template.jinja, which holds the template in newer folders.
func (t *Tokenizer) configured(dir string) error {
	for _, f := range []struct {
		name string
		use  func(data []byte) error
	}{
		{"tokenizer_config.json", t.configure},
		{"chat_template.jinja", func(data []byte) error {
			_ = t.setTemplate("default", string(data)) // is kept with the template
			return nil
		}},
	} {
		path := filepath.Join(dir, f.name)
		data, err := read(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := f.use(data); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, tmpl := range t.templates {
			if tmpl.err != nil && !tmpl.located {
				tmpl.err, tmpl.located = fmt.Errorf("%s: %w", path, tmpl.err), true
			}
		}
	}
	return nil
}

// read returns a file's bytes.
func read(path string) ([]byte, error) {
	// Opening a pipe would wait for somebody who writes to it.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("this is no regular file")}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: more than %d bytes, which no tokenizer needs", path, maxFile)
	}
	return data, nil
}

// configure reads a tokenizer_config.json.
func (t *Tokenizer) configure(data []byte) error {
	var c struct {
		BOS token `json:"bos_token"`
		EOS token `json:"eos_token"`
		Pad token `json:"pad_token"`
		Unk token `json:"unk_token"`
		// Which of them stand around a text. A tokenizer.json says that itself.
		Templates json.RawMessage `json:"chat_template"`
		AddBOS    *bool           `json:"add_bos_token"`
		AddEOS    *bool           `json:"add_eos_token"`
	}
	if err := json.Unmarshal(bytes.TrimPrefix(data, []byte("\ufeff")), &c); err != nil { // a byte order mark, which some editors write
		return err
	}
	for _, n := range []struct {
		field string
		text  token
		to    *int32
	}{{"bos_token", c.BOS, &t.named.BOS}, {"eos_token", c.EOS, &t.named.EOS}, {"pad_token", c.Pad, &t.named.Pad}, {"unk_token", c.Unk, &t.named.Unknown}} {
		if n.text == "" {
			continue
		}
		id, ok := t.ID(string(n.text))
		if !ok {
			return fmt.Errorf("%s %q is no token of the tokenizer", n.field, shorten(string(n.text)))
		}
		*n.to = id
		t.written = append(t.written, variable{n.field, string(n.text)})
	}
	t.setTemplates(c.Templates)
	if _, ok := t.normalize.(spaced); ok {
		for _, n := range []struct {
			add *bool
			id  int32
			to  *[]int32
		}{{c.AddBOS, t.named.BOS, &t.before}, {c.AddEOS, t.named.EOS, &t.after}} {
			if n.add == nil {
				continue
			}
			if *n.to = nil; *n.add && n.id >= 0 {
				*n.to = []int32{n.id}
			}
		}
	}
	return nil
}

// token is a token in a tokenizer_config.json: a string, an object with the
// string as its content, or null.
type token string

func (t *token) UnmarshalJSON(data []byte) error {
	var object struct{ Content string }
	if json.Unmarshal(data, &object) == nil {
		*t = token(object.Content)
		return nil
	}
	return json.Unmarshal(data, (*string)(t))
}
