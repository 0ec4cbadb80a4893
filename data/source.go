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
	line int // line number in the file, of its beginning; 0 means the whole file
	text []byte
}

// source is a file of texts.
type source struct {
	path  string
	lines bool // each line, or each element of a list, is JSON and a document; otherwise the file is one document
}

// newSource determines the kind of a file by its name.
func newSource(path string) (source, error) {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".jsonl", ".ndjson", ".json":
		return source{path, true}, nil
	case ".parquet", ".arrow", ".gz", ".zst", ".xz", ".zip":
		return source{}, fmt.Errorf("data: %s: files of kind %s are not read, want text, or a file with a JSON object in each line, named .jsonl", path, ext)
	}
	return source{path, false}, nil
}

// document returns the document of a part.
func (s source) document(o Options, p part) (document, error) {
	if s.lines {
		return parse(o, p.text)
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

// read calls each with the parts of the file, in order. A file of JSON that begins with [ is one list. In other files each
// line is a part, and empty lines are skipped.
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
	list := list{path: s.path, r: r, line: 1}
	if c, err := list.next(); err == nil && c == '[' {
		return list.read(each)
	} else if err == nil {
		r.UnreadByte()
	}
	for n := list.line; ; n++ {
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

// list reads the elements of a JSON list, one at a time.
type list struct {
	path string
	r    *bufio.Reader
	line int // of the next byte
}

// next returns the next byte that is no white space.
func (l *list) next() (byte, error) {
	for {
		c, err := l.r.ReadByte()
		if c == '\n' {
			l.line++
		}
		if err != nil || !bytes.ContainsRune([]byte(" \t\r\n"), rune(c)) {
			return c, err
		}
	}
}

// read calls each with the elements following [. It finds their ends by strings and brackets alone.
func (l *list) read(each func(part) error) error {
	for n := 0; ; n++ {
		c, err := l.next()
		p, depth, quoted, escaped := part{line: l.line}, 0, false, false
		for err == nil && (quoted || depth > 0 || c != ',' && c != ']') {
			switch p.text = append(p.text, c); {
			case len(p.text) > maxLine:
				return l.wrong(fmt.Errorf("an element of more than %d MiB", maxLine>>20))
			case quoted && (escaped || c == '\\'):
				escaped = !escaped
			case c == '"':
				quoted = !quoted
			case quoted:
			case c == '{' || c == '[':
				depth++
			case c == '}' || c == ']':
				depth--
			}
			if c, err = l.r.ReadByte(); err == nil && c == '\n' {
				l.line++
			}
		}
		if err == io.EOF {
			err = errors.New("the list ends in the middle; is it complete?")
		}
		if err != nil {
			return l.wrong(err)
		}
		if n == 0 && c == ']' && len(p.text) == 0 {
			break
		}
		if err := each(p); err != nil {
			return err
		}
		if c == ']' {
			break
		}
	}
	_, err := l.next()
	if err == io.EOF {
		return nil
	} else if err == nil {
		err = errors.New("there is more after the end of the list")
	}
	return l.wrong(err)
}

func (l *list) wrong(err error) error { return fmt.Errorf("%s:%d: %w", l.path, l.line, err) }
