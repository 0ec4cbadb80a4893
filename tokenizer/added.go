package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/tokenizer/internal/pattern"
)

// added is a token found in the text itself, before splitting the text into words: special tokens such as
// <|im_end|>, and other tokens added to a vocabulary.
type added struct {
	id           int32
	text         string
	special      bool // not part of the visible text
	word         bool // matches only between characters other than letters and digits
	left, right  bool // absorbs preceding or following white space
	afterNormals bool // matched in the normalized text
}

// maxAdded is the maximum length of an added token in bytes, which bounds the work of a search per byte of text.
const maxAdded = 1 << 10

// finderOfAdded finds added tokens: the leftmost one, and the longest of those.
type finderOfAdded struct {
	*trie
	of []added
}

func newFinderOfAdded(tokens []added, texts []string) (*finderOfAdded, error) {
	f := &finderOfAdded{newTrie(), tokens}
	for i, text := range texts {
		if len(text) > maxAdded {
			return nil, fmt.Errorf("added token %s: %d bytes, want at most %d", quoted.Text(text), len(text), maxAdded)
		}
		if text != "" {
			f.add(text, int32(i))
		}
	}
	return f, nil
}

// find returns the first token starting at or after from, and its end; -1 if there is none.
func (f *finderOfAdded) find(text string, from int) (which, start, end int) {
	for start = from; start < len(text); start++ {
		if f.root[text[start]] == 0 {
			continue
		}
		if i, n := f.longest(text[start:]); i >= 0 {
			return int(i), start, start + n
		}
	}
	return -1, 0, 0
}

// split calls plain with the parts of text between added tokens, and token with the ids of the added tokens.
func (f *finderOfAdded) split(text string, withoutSpecial bool, plain func(piece) error, token func(id int32) error) error {
	last := 0
	spaces := 0 // end of white space absorbed by a token
	for at := 0; ; {
		which, start, end := f.find(text, at)
		if which < 0 {
			break
		}
		at = end
		t := &f.of[which]
		if withoutSpecial && t.special || t.word && (endsWord(text[:start]) || beginsWord(text[end:])) {
			continue
		}
		if t.left {
			start = max(start, last)
			start = last + len(strings.TrimRightFunc(text[last:start], unicode.IsSpace))
		}
		if t.right {
			if end >= spaces {
				spaces = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
			}
			end = spaces
		}
		if last < start {
			if err := plain(piece{text[last:start], last == 0}); err != nil {
				return err
			}
		}
		// A white space token absorbed by another one is dropped.
		if !t.left || start < end {
			if err := token(t.id); err != nil {
				return err
			}
		}
		last = end
	}
	if last < len(text) {
		return plain(piece{text[last:], last == 0})
	}
	return nil
}

func endsWord(text string) bool {
	r, n := utf8.DecodeLastRuneInString(text)
	return n > 0 && pattern.Word(r)
}

func beginsWord(text string) bool {
	r, n := utf8.DecodeRuneInString(text)
	return n > 0 && pattern.Word(r)
}
