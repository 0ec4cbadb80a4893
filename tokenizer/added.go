package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

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
// It is a trie of their bytes.
type finderOfAdded struct {
	root [256]int32 // node by first byte; 0 for none
	next map[uint64]int32
	ends []int32 // by node, which of tokens ends there; -1 for none
	of   []added
}

func newFinderOfAdded(tokens []added, texts []string) (*finderOfAdded, error) {
	f := &finderOfAdded{next: map[uint64]int32{}, ends: []int32{-1}, of: tokens}
	for i, text := range texts {
		if text == "" {
			continue
		}
		if len(text) > maxAdded {
			return nil, fmt.Errorf("added token %q: %d bytes, want at most %d", shorten(text), len(text), maxAdded)
		}
		node := int32(0)
		for at := range len(text) {
			to := f.step(node, text[at], at == 0)
			if to == 0 {
				to = int32(len(f.ends))
				f.ends = append(f.ends, -1)
				if at == 0 {
					f.root[text[at]] = to
				} else {
					f.next[uint64(node)<<8|uint64(text[at])] = to
				}
			}
			node = to
		}
		if f.ends[node] < 0 {
			f.ends[node] = int32(i)
		}
	}
	return f, nil
}

func (f *finderOfAdded) step(node int32, b byte, first bool) int32 {
	if first {
		return f.root[b]
	}
	return f.next[uint64(node)<<8|uint64(b)]
}

// find returns the first token at or behind from, and where it ends; -1 if there is none.
func (f *finderOfAdded) find(text string, from int) (which, start, end int) {
	for start = from; start < len(text); start++ {
		node := f.root[text[start]]
		if node == 0 {
			continue
		}
		which = -1
		for at := start; node != 0; {
			if at++; f.ends[node] >= 0 {
				which, end = int(f.ends[node]), at
			}
			if at == len(text) {
				break
			}
			node = f.next[uint64(node)<<8|uint64(text[at])]
		}
		if which >= 0 {
			return which, start, end
		}
	}
	return -1, 0, 0
}

// split calls plain with the parts of text without added tokens, and token with
// the ids of the tokens between them.
func (f *finderOfAdded) split(text string, withoutSpecial bool, plain func(piece) error, token func(id int32) error) error {
	last := 0
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
			start = max(last, len(strings.TrimRightFunc(text[:start], unicode.IsSpace)))
		}
		if t.right {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		if last < start {
			if err := plain(piece{text[last:start], last == 0}); err != nil {
				return err
			}
		}
		if err := token(t.id); err != nil {
			return err
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
