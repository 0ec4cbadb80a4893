package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/tokenizer/internal/pattern"
)

// added is a token that is found in the text itself, before the text is cut
// into words: special tokens such as <|im_end|>, and others that were added to
// a vocabulary.
type added struct {
	id           int32
	text         string
	special      bool // not part of what a reader sees
	word         bool // only where it does not touch letters and digits
	left, right  bool // it takes the white space before or behind it
	afterNormals bool // it is found in the normalized text
}

// maxAdded is the longest added token in bytes. A search looks at so many bytes
// for each byte of a text at the most.
const maxAdded = 1 << 10

// finderOfAdded finds added tokens: the leftmost one, and of those the longest.
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

// find returns the first token at or behind from, and where it ends; -1 if there is none.
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

// split calls plain with the parts of text without added tokens, and token with
// the ids of the tokens between them.
func (f *finderOfAdded) split(text string, withoutSpecial bool, plain func(piece) error, token func(id int32) error) error {
	last := 0
	spaces := 0 // where white space ends that a token has taken
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
		// A token of white space that another one has taken is none.
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
