package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/tokenizer"
)

// maxLine is the maximum length of a JSON line.
const maxLine = 64 << 20

// maxText is the maximum length of a file that is a single document. Tokenizing it takes 50 times its size in
// memory.
const maxText = 1 << 30

// mark is the byte order mark written by some editors. It is not part of the text.
const mark = "\ufeff"

// part is the text of one document in a source.
type part struct {
	line int // line number in the file; 0 means the whole file
	text []byte
}

// source is a file of texts.
type source struct {
	path  string
	lines bool // each line is JSON and a document; otherwise the file is one document
}

// newSource determines the kind of a file by its name.
func newSource(path string) (source, error) {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".jsonl", ".ndjson":
		return source{path, true}, nil
	case ".json":
		return source{}, fmt.Errorf("data: %s: want a file with a JSON object in each line, named .jsonl", path)
	case ".parquet", ".arrow", ".gz", ".zst", ".xz", ".zip":
		return source{}, fmt.Errorf("data: %s: files of kind %s are not read, want text, or a file with a JSON object in each line, named .jsonl", path, ext)
	}
	return source{path, false}, nil
}

// document returns the document of a part.
func (s source) document(t *tokenizer.Tokenizer, p part) (document, error) {
	if s.lines {
		return parse(t, p.text)
	}
	if !utf8.Valid(p.text) {
		n := 1
		for l := range bytes.Lines(p.text) {
			if !utf8.Valid(l) {
				break
			}
			n++
		}
		return document{}, fmt.Errorf("line %d is not UTF-8", n)
	}
	return text(string(p.text)), nil
}

// read calls each with the parts of the file, in order. It skips empty lines.
func (s source) read(each func(part) error) error {
	f, _, err := infile.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if !s.lines {
		all, err := infile.All(s.path, f, maxText)
		if err != nil {
			return err
		}
		return each(part{text: bytes.TrimPrefix(all, []byte(mark))})
	}
	r := bufio.NewReaderSize(f, 1<<20)
	if first, _ := r.Peek(len(mark)); string(first) == mark {
		r.Discard(len(mark))
	}
	for n := 1; ; n++ {
		l, err := readLine(r)
		if err != nil && err != io.EOF {
			return fmt.Errorf("%s:%d: %w", s.path, n, err)
		}
		if len(bytes.TrimSpace(l)) > 0 {
			if err := each(part{n, l}); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

// readLine returns the next line, including its end, in newly allocated memory.
func readLine(r *bufio.Reader) ([]byte, error) {
	var l []byte
	for {
		s, err := r.ReadSlice('\n')
		if l = append(l, s...); len(l) > maxLine {
			return nil, fmt.Errorf("a line of more than %d MiB", maxLine>>20)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l, err
		}
	}
}
