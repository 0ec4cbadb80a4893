package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Tokenizer converts text to token ids and back. It is immutable, and so safe for concurrent use.
type Tokenizer struct {
	vocab     *vocabulary
	special   map[int32]bool
	tokens    []added        // matched in a text
	raw       *finderOfAdded // added tokens matched in the original text
	normal    *finderOfAdded // added tokens matched in the normalized text
	findable  *finderOfAdded // special tokens by their names
	normalize normalizer     // nil for none
	later     normalizer     // for parts not at the beginning of the text; nil for the same
	splits    []splitter
	model     model
	before    []int32 // ids added around the text by the post-processor
	after     []int32
	decoder   func() []step
	words     sync.Pool // of *word
	named     Special
	ends      []int32    // in addition to named.EOS
	written   []variable // special tokens for templates
	templates map[string]*chatTemplate
	sources   map[string]string // of templates
}

// Special holds the ids of special tokens; -1 for missing ones.
type Special struct {
	BOS, EOS, Pad, Unknown int32
}

// Options configures encoding.
type Options struct {
	// Bare omits the tokens added around a text, such as a token for its beginning. It is for texts rendered by chat
	// templates, which contain these tokens.
	Bare bool
	// Plain treats special tokens in the text as plain text. It is for untrusted text, which must not be able to end a
	// turn of a conversation.
	Plain bool
}

// Encode returns the ids of text. Invalid UTF-8 is replaced by U+FFFD first, as in Python. It is an error if a
// pattern of the tokenizer takes too many steps, if its normalizers make a text far too long, or if a character has
// no token and the tokenizer has no unknown token.
func (t *Tokenizer) Encode(text string, o Options) ([]int32, error) {
	text = lossy(text)
	w, _ := t.words.Get().(*word)
	if w == nil {
		w = &word{}
	}
	defer t.keep(w)
	limit := longest(text)
	normal, words := 0, 0 // bytes of normalized text, and of words passed to the model
	out := make([]int32, 0, len(text)/4+8)
	if !o.Bare {
		out = append(out, t.before...)
	}
	token := func(id int32) error {
		out = append(out, id)
		return nil
	}
	next := func(p piece) error {
		if words += len(p.text); words > limit {
			return errLong
		}
		var err error
		out, err = t.model.encode(w, p.text, out)
		return err
	}
	for _, s := range slices.Backward(t.splits) {
		following := next
		next = func(p piece) error {
			if p.text == "" {
				return nil
			}
			if len(p.text) > limit { // for example after converting bytes to characters repeatedly
				return errLong
			}
			return s.split(p, following)
		}
	}
	// The parts between tokens are normalized, and then searched again.
	part := func(p piece) error {
		if n := t.normalize; n != nil {
			if !p.first && t.later != nil {
				n = t.later
			}
			text, err := normalized(n, p.text, limit-normal)
			if normal += len(text); err != nil {
				return err
			}
			p.first = p.first && !beheads(n, p.text, text)
			p.text = text
		}
		return t.normal.split(p.text, o.Plain, func(q piece) error {
			q.first = q.first && p.first
			return next(q)
		}, token)
	}
	if err := t.raw.split(text, o.Plain, part, token); err != nil {
		return nil, fmt.Errorf("tokenizer: encode: %w", err)
	}
	if !o.Bare {
		out = append(out, t.after...)
	}
	return out, nil
}

// maxKept is the maximum number of elements in scratch memory kept for the next text.
const maxKept = 1 << 16

func (t *Tokenizer) keep(w *word) {
	if cap(w.symbols) <= maxKept && cap(w.queue) <= maxKept && cap(w.nodes) <= maxKept {
		t.words.Put(w)
	}
}

// Decode returns the text of ids. It omits special tokens and unknown ids. Invalid UTF-8 becomes U+FFFD.
func (t *Tokenizer) Decode(ids []int32) string {
	s := t.Stream()
	var out strings.Builder
	for _, id := range ids {
		out.WriteString(s.Push(id))
	}
	out.WriteString(s.Flush())
	return out.String()
}

// DecodeAll is Decode including special tokens.
func (t *Tokenizer) DecodeAll(ids []int32) string {
	s := t.Stream()
	s.all = true
	var out strings.Builder
	for _, id := range ids {
		out.WriteString(s.Push(id))
	}
	out.WriteString(s.Flush())
	return out.String()
}

// Bytes returns the bytes of a token in the middle of a text, nil for an unknown id. They may be a part of a
// character. They include the space before a word, which [Tokenizer.Decode] drops at the beginning of a text. For a
// special token they are its name.
func (t *Tokenizer) Bytes(id int32) []byte {
	text, ok := t.Text(id)
	if !ok {
		return nil
	}
	c := chain{steps: t.decoder()}
	return []byte(c.bytes(text))
}

// Size returns the number of ids, which is the largest id plus one.
func (t *Tokenizer) Size() int { return len(t.vocab.texts) }

// Text returns the token with the given id as written in the vocabulary, and whether there is one. Use
// [Tokenizer.Decode] for readable text.
func (t *Tokenizer) Text(id int32) (string, bool) {
	if id < 0 || int(id) >= len(t.vocab.texts) || !t.vocab.known[id] {
		return "", false
	}
	return t.vocab.texts[id], true
}

// ID returns the id of a token, given as written in the vocabulary, and whether there is one.
func (t *Tokenizer) ID(text string) (int32, bool) {
	return t.vocab.id(text)
}

// IsSpecial reports whether id is a special token, which is not part of the visible text.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.special[id] }

// Segment is a part of a text: a special token, or text between special tokens.
type Segment struct {
	Text string
	ID   int32 // of the special token; -1 for text
}

// Segments splits a text at its special tokens, regardless of their position.
func (t *Tokenizer) Segments(text string) []Segment {
	var all []Segment
	for text != "" {
		which, start, end := t.findable.find(text, 0)
		if which < 0 {
			return append(all, Segment{text, -1})
		}
		if start > 0 {
			all = append(all, Segment{text[:start], -1})
		}
		all = append(all, Segment{text[start:end], t.findable.of[which].id})
		text = text[end:]
	}
	return all
}

// Ends returns the ids of the tokens ending a text: the EOS token, and additional ones listed by a GGUF file.
func (t *Tokenizer) Ends() []int32 {
	all := slices.Clone(t.ends)
	if eos := t.named.EOS; eos >= 0 && !slices.Contains(all, eos) {
		all = slices.Insert(all, 0, eos)
	}
	return all
}

// Special returns the ids of the special tokens.
func (t *Tokenizer) Special() Special { return t.named }
