package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
)

// file is the content of a tokenizer.json. The field truncation is ignored, because transformers truncates a text
// only if its caller asks for it.
type file struct {
	Added     []addedJSON `json:"added_tokens"`
	Normalize *component  `json:"normalizer"`
	Split     *component  `json:"pre_tokenizer"`
	Model     *modelJSON  `json:"model"`
	Post      *component  `json:"post_processor"`
	Decode    *component  `json:"decoder"`
	Padding   *struct {
		Token json.RawMessage `json:"pad_token"`
	} `json:"padding"`

	class string // in transformers
	named object // special tokens of the class, if no file names them
}

type addedJSON struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// component is a normalizer, pre-tokenizer, post-processor or decoder, with the fields of all types.
type component struct {
	Type string `json:"type"`

	Normalizers   []*component `json:"normalizers"`
	Pretokenizers []*component `json:"pretokenizers"`
	Processors    []*component `json:"processors"`
	Decoders      []*component `json:"decoders"`

	Pattern   *patternJSON    `json:"pattern"`
	Content   string          `json:"content"`
	Prepend   string          `json:"prepend"`
	Behavior  string          `json:"behavior"`
	Invert    bool            `json:"invert"`
	Delimiter string          `json:"delimiter"`
	Digits    bool            `json:"individual_digits"`
	Charsmap  []byte          `json:"precompiled_charsmap"`
	Single    json.RawMessage `json:"single"`
	Specials  map[string]struct {
		IDs []int32 `json:"ids"`
	} `json:"special_tokens"`
	CLS  json.RawMessage `json:"cls"`
	SEP  json.RawMessage `json:"sep"`
	Left *bool           `json:"strip_left"`
	Rght *bool           `json:"strip_right"`

	Start  int    `json:"start"`
	Stop   int    `json:"stop"`
	Suffix string `json:"suffix"`

	Replacement string  `json:"replacement"`
	PrefixSpace *bool   `json:"add_prefix_space"`
	Scheme      *string `json:"prepend_scheme"`
	Cut         *bool   `json:"split"`
	Regex       *bool   `json:"use_regex"`

	Clean    *bool `json:"clean_text"`
	Chinese  *bool `json:"handle_chinese_chars"`
	Accents  *bool `json:"strip_accents"`
	LowerAll *bool `json:"lowercase"`
}

type patternJSON struct {
	String *string
	Regex  *string
}

type modelJSON struct {
	Type     string          `json:"type"`
	Vocab    json.RawMessage `json:"vocab"`
	Merges   []mergeJSON     `json:"merges"`
	Unk      *string         `json:"unk_token"`
	UnkID    *int32          `json:"unk_id"`
	Prefix   string          `json:"continuing_subword_prefix"`
	Suffix   string          `json:"end_of_word_suffix"`
	FuseUnk  bool            `json:"fuse_unk"`
	Fallback bool            `json:"byte_fallback"`
	Ignore   bool            `json:"ignore_merges"`
	Dropout  *float64        `json:"dropout"`
}

// mergeJSON is a pair of tokens to merge, written as "a b" or ["a", "b"].
type mergeJSON [2]string

func (m *mergeJSON) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte("[")) {
		var all []string
		if err := strictjson.UnmarshalOnce(data, &all); err != nil {
			return err
		}
		if len(all) != 2 {
			return fmt.Errorf("a merge of %d tokens, want 2", len(all))
		}
		*m = mergeJSON(all)
		return nil
	}
	var s string
	if err := strictjson.UnmarshalOnce(data, &s); err != nil {
		return err
	}
	return m.parse(s)
}

// parse parses the form "a b".
func (m *mergeJSON) parse(s string) error {
	a, b, ok := strings.Cut(s, " ")
	if !ok || strings.Contains(b, " ") {
		return fmt.Errorf("merge %s, want two tokens with a space between them", quoted.Text(s))
	}
	*m = mergeJSON{a, b}
	return nil
}

// Parse returns the tokenizer described by a tokenizer.json. Errors name the invalid part of the file and its valid
// values.
func Parse(data []byte) (*Tokenizer, error) {
	var f file
	if err := strictjson.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t, err := f.build()
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, nil
}

func (f *file) build() (*Tokenizer, error) {
	if f.Model == nil {
		return nil, fmt.Errorf("no model, want the file tokenizer.json of a model")
	}
	t := &Tokenizer{special: map[int32]bool{}, named: Special{-1, -1, -1, -1}}
	var err error
	if t.model, t.vocab, err = f.Model.build(); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if f.Model.Unk != nil {
		t.named.Unknown = t.vocab.ids[*f.Model.Unk] // it exists, because building the model has checked it
	} else if f.Model.UnkID != nil {
		t.named.Unknown = *f.Model.UnkID
	}
	if f.Normalize != nil {
		if t.normalize, err = f.Normalize.normalizer(0); err != nil {
			return nil, fmt.Errorf("normalizer: %w", err)
		}
	}
	if f.Split != nil {
		if t.splits, err = f.Split.splitters(0); err != nil {
			return nil, fmt.Errorf("pre_tokenizer: %w", err)
		}
	}
	if f.Post != nil {
		if err = f.Post.postprocess(t, 0); err != nil {
			return nil, fmt.Errorf("post_processor: %w", err)
		}
	}
	t.decoder = func() []step { return []step{&joinStep{}} }
	if f.Decode != nil {
		makers, err := f.Decode.decoders(0)
		if err != nil {
			return nil, fmt.Errorf("decoder: %w", err)
		}
		if g := f.Decode.growth(); g > maxGrowth {
			return nil, fmt.Errorf("decoder: its steps make up to %.3g bytes of one, want at most %d", g, maxGrowth)
		}
		t.decoder = func() []step {
			steps := make([]step, len(makers))
			for i, m := range makers {
				steps[i] = m()
			}
			return steps
		}
	}
	var tokens []added
	for _, a := range f.Added {
		tokens = append(tokens, added{id: a.ID, text: a.Content, special: a.Special, word: a.SingleWord, left: a.LStrip, right: a.RStrip, afterNormals: a.Normalized})
	}
	if err := t.extend(tokens); err != nil {
		return nil, fmt.Errorf("added_tokens: %w", err)
	}
	return t, t.check()
}

// add builds the finders of added tokens. Their ids must be in the vocabulary.
func (t *Tokenizer) add(tokens []added) error {
	t.tokens = tokens
	var raw, normal, special []added
	var rawTexts, normalTexts, specialTexts []string
	for _, a := range tokens {
		if a.special {
			t.special[a.id] = true
			special, specialTexts = append(special, a), append(specialTexts, a.text)
		}
		if !a.afterNormals {
			raw, rawTexts = append(raw, a), append(rawTexts, a.text)
			continue
		}
		text := a.text
		if t.normalize != nil {
			var err error
			if text, err = normalized(t.normalize, text, longest(text)); err != nil {
				return err
			}
			if t.vocab.texts[a.id] = text; text != a.text { // as in Python, which then does not recognise the special token by its name
				delete(t.special, a.id)
			}
		}
		normal, normalTexts = append(normal, a), append(normalTexts, text)
	}
	var err error
	if t.raw, err = newFinderOfAdded(raw, rawTexts); err != nil {
		return err
	}
	if t.normal, err = newFinderOfAdded(normal, normalTexts); err != nil {
		return err
	}
	t.findable, err = newFinderOfAdded(special, specialTexts)
	return err
}

// check verifies that all ids used are tokens.
func (t *Tokenizer) check() error {
	for _, ids := range [][]int32{t.before, t.after} {
		for _, id := range ids {
			if _, ok := t.Text(id); !ok {
				return fmt.Errorf("post_processor: id %d, which no token has", id)
			}
		}
	}
	return nil
}

// build builds the model and its vocabulary.
func (m *modelJSON) build() (model, *vocabulary, error) {
	kind := m.Type
	if kind == "" && bytes.HasPrefix(m.Vocab, []byte("{")) { // files from before 2020
		kind = "BPE"
	}
	if m.Dropout != nil && *m.Dropout != 0 {
		return nil, nil, fmt.Errorf("dropout of %v, want none: ids would be random", *m.Dropout)
	}
	switch kind {
	case "BPE":
		return m.bpe()
	case "Unigram":
		return m.unigram()
	}
	return nil, nil, fmt.Errorf("type %s, want BPE or Unigram", quoted.Text(kind))
}

func (m *modelJSON) unigram() (model, *vocabulary, error) {
	var pieces []pieceJSON
	if err := strictjson.Unmarshal(m.Vocab, &pieces); err != nil {
		return nil, nil, fmt.Errorf("vocab: %w", err)
	}
	ids := make(map[string]int32, len(pieces))
	scores := make([]float64, len(pieces))
	for i, p := range pieces {
		if _, twice := ids[p.text]; twice {
			return nil, nil, fmt.Errorf("vocab: piece %s is there twice", quoted.Text(p.text))
		}
		ids[p.text], scores[i] = int32(i), p.score
	}
	vocab, err := newVocabulary(ids)
	if err != nil {
		return nil, nil, fmt.Errorf("vocab: %w", err)
	}
	unk := int32(-1)
	if m.UnkID != nil {
		if unk = *m.UnkID; unk < 0 || int(unk) >= len(pieces) {
			return nil, nil, fmt.Errorf("unk_id %d, want that of one of %d pieces", unk, len(pieces))
		}
	}
	u := newUnigram(vocab, scores, unk)
	u.byBytes = m.Fallback
	return u, vocab, nil
}

// pieceJSON is a piece and its score, written as ["a", -1.5].
type pieceJSON struct {
	text  string
	score float64
}

func (p *pieceJSON) UnmarshalJSON(data []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if len(parts) != 2 {
		return fmt.Errorf("a piece with %d parts, want its text and its score", len(parts))
	}
	return errors.Join(json.Unmarshal(parts[0], &p.text), json.Unmarshal(parts[1], &p.score))
}

func (m *modelJSON) bpe() (model, *vocabulary, error) {
	var ids map[string]int32
	if err := strictjson.Unmarshal(m.Vocab, &ids); err != nil {
		return nil, nil, fmt.Errorf("vocab: %w", err)
	}
	return m.pairs(ids)
}

// pairs builds a byte pair model with the given ids of tokens.
func (m *modelJSON) pairs(ids map[string]int32) (model, *vocabulary, error) {
	vocab, err := newVocabulary(ids)
	if err != nil {
		return nil, nil, fmt.Errorf("vocab: %w", err)
	}
	b := &bpe{vocab: vocab, merges: newMerges(len(m.Merges)), prefix: m.Prefix, suffix: m.Suffix, unk: -1, fuse: m.FuseUnk, byBytes: m.Fallback, whole: m.Ignore}
	if m.Unk != nil {
		id, ok := ids[*m.Unk]
		if !ok {
			return nil, nil, fmt.Errorf("unk_token %s is not in the vocabulary", quoted.Text(*m.Unk))
		}
		b.unk = id
	}
	for rank, pair := range m.Merges {
		left, ok1 := ids[pair[0]]
		right, ok2 := ids[pair[1]]
		joined := pair[0] + strings.TrimPrefix(pair[1], m.Prefix)
		to, ok3 := ids[joined]
		for _, c := range []struct {
			ok    bool
			token string
		}{{ok1, pair[0]}, {ok2, pair[1]}, {ok3, joined}} {
			if !c.ok {
				return nil, nil, fmt.Errorf("merge %d (%s, %s): token %s is not in the vocabulary", rank, quoted.Text(pair[0]), quoted.Text(pair[1]), quoted.Text(c.token))
			}
		}
		b.merges.put(left, right, merge{int32(rank), to})
	}
	b.finish()
	return b, vocab, nil
}

// one returns the only character of a field.
func one(field, s string) (rune, error) {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 || n != len(s) {
		return 0, fmt.Errorf("%s %s, want one character", field, quoted.Text(s))
	}
	return r, nil
}
