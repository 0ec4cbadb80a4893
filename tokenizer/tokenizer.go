package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Tokenizer makes token ids of text, and text of ids. It does not change after
// it is opened, so many goroutines may use it at once.
type Tokenizer struct {
	vocab     *vocabulary
	special   map[int32]bool
	tokens    []added        // that are found in a text
	raw       *finderOfAdded // added tokens that are found in the text as it is
	normal    *finderOfAdded // those found in the normalized text
	findable  *finderOfAdded // special tokens, as they are written
	normalize normalizer     // nil: none
	later     normalizer     // of parts that do not begin the text; nil: the same
	splits    []splitter
	model     model
	before    []int32 // ids around the text, of the post-processor
	after     []int32
	decoder   func() []step
	words     sync.Pool // of *word
	named     Special
	ends      []int32    // next to named.EOS
	written   []variable // special tokens, for templates
	templates map[string]*chatTemplate
	sources   map[string]string // of templates
}

// Special is the ids of tokens that have a part of their own; -1 for those that
// the tokenizer does not have.
type Special struct {
	BOS, EOS, Pad, Unknown int32
}

// Options change how a text is encoded.
type Options struct {
	// Bare leaves out the tokens that the tokenizer puts around a text, such as a
	// token for its beginning. It is for the text of chat templates, which write
	// these tokens themselves.
	Bare bool
	// Plain takes special tokens in the text as text. It is for text from people
	// who are not to end a turn of a conversation with it.
	Plain bool
}

// Encode returns the ids of text. Bytes that are no UTF-8 become U+FFFD first, as
// in Python. An error says that a pattern of the tokenizer took too many steps,
// that its normalizers make a text far too long, or that a character has no token and the tokenizer none for unknown ones.
func (t *Tokenizer) Encode(text string, o Options) ([]int32, error) {
	text = lossy(text)
	w, _ := t.words.Get().(*word)
	if w == nil {
		w = &word{}
	}
	defer t.keep(w)
	limit := longest(text)
	normal, words := 0, 0 // bytes of normalized text, and of the words that the model gets
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
			if len(p.text) > limit { // such as characters of the bytes of characters of bytes
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

// maxKept is how many symbols and places the memory may have that is kept for the next text.
const maxKept = 1 << 16

func (t *Tokenizer) keep(w *word) {
	if cap(w.symbols) <= maxKept && cap(w.queue) <= maxKept && cap(w.nodes) <= maxKept {
		t.words.Put(w)
	}
}

// Decode returns the text of ids. Special tokens are left out, and so are ids
// that no token has. Bytes that are no UTF-8 become U+FFFD.
func (t *Tokenizer) Decode(ids []int32) string {
	s := t.Stream()
	var out strings.Builder
	for _, id := range ids {
		out.WriteString(s.Push(id))
	}
	out.WriteString(s.Flush())
	return out.String()
}

// DecodeAll is Decode with the special tokens.
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

// Bytes returns the bytes that a token stands for within a text, nil for an id that no token has. They may be a part of
// a character. The space before a word is among them, though [Tokenizer.Decode] leaves it out at the beginning of a
// text. A special token has the bytes of its name.
func (t *Tokenizer) Bytes(id int32) []byte {
	text, ok := t.Text(id)
	if !ok {
		return nil
	}
	c := chain{steps: t.decoder()}
	return []byte(c.bytes(text))
}

// Size returns the number of ids: one more than the largest id of a token.
func (t *Tokenizer) Size() int { return len(t.vocab.texts) }

// Text returns the token with an id as the vocabulary writes it, and whether
// there is one. [Tokenizer.Decode] makes text of it for people.
func (t *Tokenizer) Text(id int32) (string, bool) {
	if id < 0 || int(id) >= len(t.vocab.texts) || !t.vocab.known[id] {
		return "", false
	}
	return t.vocab.texts[id], true
}

// ID returns the id of a token that is written as in the vocabulary, and whether
// there is one.
func (t *Tokenizer) ID(text string) (int32, bool) {
	return t.vocab.id(text)
}

// IsSpecial reports whether id is a special token, which is no part of what a
// reader sees.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.special[id] }

// Segment is a part of a text: a special token, or what is between them.
type Segment struct {
	Text string
	ID   int32 // of the special token; -1 for text
}

// Segments cuts a text at the special tokens in it, wherever they stand.
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

// Ends returns the ids of the tokens that end a text: the one of Special, and those that a GGUF file has next to it.
func (t *Tokenizer) Ends() []int32 {
	all := slices.Clone(t.ends)
	if eos := t.named.EOS; eos >= 0 && !slices.Contains(all, eos) {
		all = slices.Insert(all, 0, eos)
	}
	return all
}

// Special returns the ids of the tokens with a part of their own.
func (t *Tokenizer) Special() Special { return t.named }
