package tokenizer

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/rangetable"

	"github.com/gomoe/gomoe/internal/quoted"
)

// piece is a part of a text being split.
type piece struct {
	text  string
	first bool // starts at the beginning of the whole text
}

// splitter is one step of a pre-tokenizer.
type splitter interface {
	// split calls next with the non-empty parts of p, in order.
	split(p piece, next func(piece) error) error
}

// behaviour is the treatment of matches of a pattern splitting a text.
type behaviour int

const (
	removed behaviour = iota
	isolated
	withPrevious // merged with the preceding part
	withNext
	contiguous // adjacent matches are one part
)

func behaviourNamed(name string) (behaviour, error) {
	for i, n := range []string{"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"} {
		if n == name {
			return behaviour(i), nil
		}
	}
	return 0, fmt.Errorf("behavior %s, want Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous", quoted.Text(name))
}

// cut splits a text at the matches of a pattern.
type cut struct {
	find   finder
	what   behaviour
	invert bool // swaps matches and the text between them
}

func (c cut) split(p piece, next func(piece) error) error {
	if c.what == isolated && !c.invert {
		return c.isolate(p, next)
	}
	emit := func(start, end int) error {
		if start == end {
			return nil
		}
		return next(piece{p.text[start:end], p.first && start == 0})
	}
	// start and end hold a part until it is known whether it continues.
	start, end, waits := 0, 0, false
	before := false // the previous part was a match
	add := func(a, b int, match bool) error {
		if c.invert {
			match = !match
		}
		joins := false
		switch c.what {
		case removed:
			if match {
				return nil
			}
			return emit(a, b)
		case withPrevious:
			joins = waits && match && !before
		case withNext:
			joins = waits && !match && before
		case contiguous:
			joins = waits && match == before
		}
		before = match
		if joins {
			end = b
			return nil
		}
		if err := emit(start, end); err != nil {
			return err
		}
		start, end, waits = a, b, true
		return nil
	}
	last := 0
	err := c.find.each(p.text, func(a, b int) error {
		if last < a {
			if err := add(last, a, false); err != nil {
				return err
			}
		}
		last = b
		return add(a, b, true)
	})
	if err == nil && last < len(p.text) {
		err = add(last, len(p.text), false)
	}
	if err == nil {
		err = emit(start, end)
	}
	return err
}

// isolate is split for the usual behaviour: matches and the text between them are parts.
func (c cut) isolate(p piece, next func(piece) error) error {
	last := 0
	err := c.find.each(p.text, func(a, b int) error {
		if last < a {
			if err := next(piece{p.text[last:a], p.first && last == 0}); err != nil {
				return err
			}
		}
		at := last
		last = b
		if a == b {
			return nil
		}
		return next(piece{p.text[a:b], p.first && at == 0 && a == 0})
	})
	if err == nil && last < len(p.text) {
		err = next(piece{p.text[last:], p.first && last == 0})
	}
	return err
}

// spaces is the step Metaspace, replacing spaces by a character of the vocabulary.
type spaces struct {
	with   string // replacement of a space
	always bool   // add it before every part
	first  bool   // add it before the part beginning the text
	cut    bool   // split before each of them
}

func (s spaces) split(p piece, next func(piece) error) error {
	p.text = strings.ReplaceAll(p.text, " ", s.with)
	if (s.always || s.first && p.first) && !strings.HasPrefix(p.text, s.with) {
		p.text = s.with + p.text
	}
	if !s.cut {
		return next(p)
	}
	return cut{find: literal(s.with), what: withNext}.split(p, next)
}

// spaceFirst adds a space to a part that does not begin with one.
type spaceFirst struct{}

func (spaceFirst) split(p piece, next func(piece) error) error {
	if !strings.HasPrefix(p.text, " ") {
		p.text = " " + p.text
	}
	return next(p)
}

// alphabetised converts a part's bytes to the alphabet of ByteLevel.
type alphabetised struct{ *alphabet }

func (a alphabetised) split(p piece, next func(piece) error) error {
	var few [64]byte
	p.text = string(a.encode(few[:0], p.text))
	return next(p)
}

// punctuation returns a function that reports whether the step Punctuation splits at a rune: the punctuation of Unicode
// 8, as in the package tokenizers, and other marks of ASCII.
func punctuation() func(rune) bool {
	known := rangetable.Assigned("8.0.0")
	return func(r rune) bool {
		if r < 0x80 {
			return unicode.IsPunct(r) || strings.ContainsRune("$+<=>^`|~", r)
		}
		return unicode.IsPunct(r) && unicode.Is(known, r) || r == 0x166d || r == 0x111c9 // these two were punctuation then
	}
}
