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

// maxLine is how long a line of JSON may be.
const maxLine = 64 << 20

// maxText is how long a file may be that is one document, whose tokens take 50 times its bytes while they are made.
const maxText = 1 << 30

// mark is the byte order mark with which some editors begin a file. It is no part of the text.
const mark = "\ufeff"

// part is some text of a source that is one document.
type part struct {
	line int // its number in the file; 0 is the whole file
	text []byte
}

// source is a file of texts.
type source struct {
	path  string
	lines bool // each line is JSON, and a document; otherwise the file is one
}

// newSource tells from a file's name what it holds.
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

// read gives the parts of the file to `each`, in order. Empty lines are no documents.
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

// readLine returns the next line with its end, in memory of its own.
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
