package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// model converts the words split by the pre-tokenizer to ids.
type model interface {
	// encode appends the ids of a word to out.
	encode(w *word, text string, out []int32) ([]int32, error)
}

// bpe is byte pair encoding: a word starts as its characters, and adjacent pairs are merged, lowest rank first,
// until no merge applies.
type bpe struct {
	vocab   *vocabulary
	merges  *merges
	single  [0x180]int32 // ids of characters; -1 for none
	bytes   [256]int32   // ids of <0x00> to <0xFF>; -1 for none
	prefix  string       // precedes all characters of a word except the first
	suffix  string       // follows the last character
	unk     int32        // -1 drops characters without a token
	fuse    bool         // a run of unknown characters is one token
	byBytes bool         // encode a character without a token as bytes
	whole   bool         // keep a word that is itself a token
	user    *trie        // tokens matched before merging, or nil
	// spaced holds the characters preceding ▁ within a token. After any other character a word may be split before ▁,
	// because no merge crosses the split; this keeps words short even without a pre-tokenizer. nil disables splitting.
	spaced map[rune]bool
}

const metaspace = '▁'

// finish computes the fields derived from the vocabulary.
func (m *bpe) finish() {
	for r := range m.single {
		id, ok := m.vocab.ids[string(rune(r))]
		if !ok {
			id = -1
		}
		m.single[r] = id
	}
	m.bytes = m.vocab.byteTokens()
	if _, ok := m.vocab.ids[string(metaspace)]; !ok || m.prefix != "" || m.suffix != "" || m.whole {
		return
	}
	m.spaced = map[rune]bool{}
	for text := range m.vocab.ids {
		last := rune(-1)
		for _, r := range text {
			if r == metaspace && last >= 0 {
				m.spaced[last] = true
			}
			last = r
		}
	}
	m.spaced['>'] = true // the end of <0xE2>, which may be part of a merge
}

// cut returns the end of the first part of text that no merge crosses.
func (m *bpe) cut(text string) int {
	if m.spaced == nil {
		return len(text)
	}
	last, at := rune(-1), 0
	for i, r := range text {
		if r == metaspace && last >= 0 && !m.spaced[last] {
			if _, ok := m.vocab.ids[text[at:i]]; ok {
				return i
			}
		}
		last, at = r, i
	}
	return len(text)
}

func (m *bpe) encode(w *word, text string, out []int32) ([]int32, error) {
	for text != "" {
		n := m.cut(text)
		var err error
		if out, err = m.part(w, text[:n], out); err != nil {
			return nil, err
		}
		text = text[n:]
	}
	return out, nil
}

// maxWord is the maximum length of a word in bytes: positions in it are 32-bit numbers.
const maxWord = 1 << 30

func (m *bpe) part(w *word, text string, out []int32) ([]int32, error) {
	if m.whole {
		if id, ok := m.vocab.ids[text]; ok {
			return append(out, id), nil
		}
	}
	if len(text) > maxWord {
		return nil, fmt.Errorf("a word of %d bytes, want at most %d", len(text), maxWord)
	}
	w.symbols = w.symbols[:0]
	m.symbols(w, text)
	w.merge(m.merges)
	for i := int32(0); i >= 0 && len(w.symbols) > 0; i = w.symbols[i].next {
		out = append(out, w.symbols[i].id)
	}
	return out, nil
}

// symbols initialises a word with the characters of text.
func (m *bpe) symbols(w *word, text string) {
	unknown := false // the preceding characters have no token yet
	skip := 0        // end of a user token
	for i, r := range text {
		if i < skip {
			continue
		}
		if m.user != nil {
			if id, n := m.user.longest(text[i:]); id >= 0 {
				if unknown {
					w.add(m.unk, false)
					unknown = false
				}
				w.add(id, true)
				skip = i + n
				continue
			}
		}
		n := utf8.RuneLen(r)
		id := int32(-1)
		switch {
		case m.prefix != "" && i > 0, m.suffix != "" && i+n == len(text):
			s := text[i : i+n]
			if i > 0 {
				s = m.prefix + s
			}
			if i+n == len(text) {
				s += m.suffix
			}
			if to, ok := m.vocab.ids[s]; ok {
				id = to
			}
		case int(r) < len(m.single):
			id = m.single[r]
		default:
			if to, ok := m.vocab.ids[text[i:i+n]]; ok {
				id = to
			}
		}
		if id < 0 && m.byBytes && m.fallback(w, text[i:i+n]) {
			continue
		}
		if id >= 0 {
			if unknown {
				w.add(m.unk, false)
				unknown = false
			}
			w.add(id, false)
		} else if m.unk >= 0 {
			if unknown && !m.fuse {
				w.add(m.unk, false)
			}
			unknown = true
		}
	}
	if unknown {
		w.add(m.unk, false)
	}
}

// fallback adds the byte tokens of char, if all of them exist.
func (m *bpe) fallback(w *word, char string) bool {
	for i := range len(char) {
		if m.bytes[char[i]] < 0 {
			return false
		}
	}
	for i := range len(char) {
		w.add(m.bytes[char[i]], false)
	}
	return true
}
