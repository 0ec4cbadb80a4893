package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gomoe/gomoe/internal/quoted"
)

// pieceKind is the kind of a piece of a SentencePiece model. GGUF uses the same numbers.
type pieceKind int32

const (
	normalPiece  pieceKind = 1
	unknownPiece pieceKind = 2
	controlPiece pieceKind = 3
	userPiece    pieceKind = 4
	unusedPiece  pieceKind = 5
	bytePiece    pieceKind = 6
)

// pieces is a SentencePiece model, from the file tokenizer.model or the vocabulary of a GGUF file.
type pieces struct {
	texts    []string
	scores   []float32
	kinds    []pieceKind
	bpe      bool // byte pairs by score instead of Unigram
	byBytes  bool
	chars    *charsmap // nil: characters stay unchanged
	table    []byte    // source of chars
	prefix   bool      // add a space before every text
	squeeze  bool      // collapse runs of spaces, and remove leading and trailing ones
	escape   bool      // replace spaces by ▁
	suffix   bool      // attach spaces to the preceding word
	unknown  string    // decoded text of an unknown piece
	bos, eos string
	pad      string
}

// ParseSentencePiece returns the tokenizer of a tokenizer.model, of kind BPE or Unigram. It gives the same ids as
// the Python package sentencepiece for a text without control tokens such as <s>. In addition, control tokens and
// the unknown token are recognised in a text, as by AutoTokenizer of transformers, unless [Options] set Plain; and
// the token for the beginning of a text, if the model has one, is added, unless they set Bare.
func ParseSentencePiece(data []byte) (*Tokenizer, error) {
	t, err := parsePieces(data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, nil
}

func parsePieces(data []byte) (*Tokenizer, error) {
	p, err := parseModel(data)
	if err != nil {
		return nil, err
	}
	return p.build()
}

// fields calls f with the fields of a protobuf message. data holds the bytes of texts and messages, number the
// value of all other fields.
func fields(data []byte, f func(field protowire.Number, data []byte, number uint64) error) error {
	for len(data) > 0 {
		field, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		var text []byte
		var number uint64
		switch kind {
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(data)
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(data)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(data)
			number = uint64(v)
		default:
			n = protowire.ConsumeFieldValue(field, kind, data)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		if err := f(field, text, number); err != nil {
			return err
		}
	}
	return nil
}

// parseModel parses a ModelProto of sentencepiece_model.proto.
func parseModel(data []byte) (*pieces, error) {
	p := &pieces{prefix: true, squeeze: true, escape: true, unknown: " ⁇ ", bos: "<s>", eos: "</s>", pad: "<pad>"}
	kind := uint64(1)
	err := fields(data, func(field protowire.Number, data []byte, _ uint64) error {
		switch field {
		case 1: // a piece
			text, score, kind := "", float32(0), normalPiece
			err := fields(data, func(field protowire.Number, data []byte, number uint64) error {
				switch field {
				case 1:
					text = string(data)
				case 2:
					score = math.Float32frombits(uint32(number))
				case 3:
					kind = pieceKind(number)
				}
				return nil
			})
			p.texts, p.scores, p.kinds = append(p.texts, text), append(p.scores, score), append(p.kinds, kind)
			return err
		case 2: // training settings
			return fields(data, func(field protowire.Number, data []byte, number uint64) error {
				switch field {
				case 3:
					kind = number
				case 24:
					p.suffix = number != 0
				case 35:
					p.byBytes = number != 0
				case 44:
					p.unknown = string(data)
				case 46:
					p.bos = string(data)
				case 47:
					p.eos = string(data)
				case 48:
					p.pad = string(data)
				}
				return nil
			})
		case 3: // normalizer settings
			return fields(data, func(field protowire.Number, data []byte, number uint64) error {
				var err error
				switch field {
				case 2:
					if len(data) > 0 {
						p.table = data
						p.chars, err = newCharsmap(data)
					}
				case 3:
					p.prefix = number != 0
				case 4:
					p.squeeze = number != 0
				case 5:
					p.escape = number != 0
				}
				return err
			})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("a SentencePiece model: %w", err)
	}
	if kind != 1 && kind != 2 {
		return nil, fmt.Errorf("a SentencePiece model of type %d, want Unigram (1) or BPE (2)", kind)
	}
	p.bpe = kind == 2
	return p, nil
}

// build builds a tokenizer of the pieces.
func (p *pieces) build() (*Tokenizer, error) {
	if len(p.texts) == 0 {
		return nil, errors.New("no pieces, want a SentencePiece model")
	}
	t := &Tokenizer{special: map[int32]bool{}, named: Special{-1, -1, -1, -1}}
	ids := make(map[string]int32, len(p.texts))
	var controls []added
	for i, text := range p.texts {
		if _, twice := ids[text]; twice || text == "" {
			return nil, fmt.Errorf("piece %d, %s, is there twice or empty", i, quoted.Text(text))
		}
		if s := float64(p.scores[i]); math.IsNaN(s) || math.IsInf(s, 0) {
			return nil, fmt.Errorf("piece %d, %s: score %v, want a finite number", i, quoted.Text(text), s)
		}
		ids[text] = int32(i)
		switch p.kinds[i] {
		case unknownPiece:
			t.named.Unknown = int32(i)
			controls = append(controls, added{id: int32(i), text: text, special: true})
		case controlPiece:
			controls = append(controls, added{id: int32(i), text: text, special: true})
		case bytePiece:
			if _, ok := byteOf(text); !ok {
				return nil, fmt.Errorf("piece %d, %s, is said to be a byte, want <0x00> to <0xFF>", i, quoted.Text(text))
			}
		case normalPiece, userPiece, unusedPiece:
		default:
			return nil, fmt.Errorf("piece %d, %s, is of kind %d, want 1 to 6", i, quoted.Text(text), p.kinds[i])
		}
	}
	var err error
	if t.vocab, err = newVocabulary(ids); err != nil {
		return nil, err
	}
	for _, n := range []struct {
		text string
		to   *int32
	}{{p.bos, &t.named.BOS}, {p.eos, &t.named.EOS}, {p.pad, &t.named.Pad}} {
		if id, ok := ids[n.text]; ok && p.kinds[id] == controlPiece {
			*n.to = id
		}
	}
	if t.named.BOS >= 0 {
		t.before = []int32{t.named.BOS}
	}
	user := newTrie()
	anyUser := false
	for i, text := range p.texts {
		if p.kinds[i] == userPiece {
			user.add(text, int32(i))
			anyUser = true
		}
	}
	if !anyUser {
		user = nil
	}
	t.normalize = spaced{pieces: p, user: user}
	if p.bpe {
		t.model = p.pairs(t.vocab, user, t.named.Unknown)
	} else {
		t.model = p.unigram(t.vocab, t.named.Unknown)
	}
	t.decoder = func() []step { return []step{&pieceStep{pieces: p, vocab: t.vocab}} }
	return t, t.add(controls)
}

// pairs builds the byte pair model. A pair's rank is the score of the merged piece; pairs of equal score are merged
// from left to right.
func (p *pieces) pairs(vocab *vocabulary, user *trie, unk int32) *bpe {
	var order []int32
	count := 0
	for i, text := range p.texts {
		if p.kinds[i] == normalPiece {
			order = append(order, int32(i))
			count += max(0, len([]rune(text))-1)
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(p.scores[b], p.scores[a]) })
	m := &bpe{vocab: vocab, merges: newMerges(count), unk: unk, fuse: true, byBytes: p.byBytes, user: user}
	rank := int32(0)
	for i, id := range order {
		if i > 0 && p.scores[order[i-1]] != p.scores[id] {
			rank++
		}
		text := p.texts[id]
		for at := range text {
			left, ok1 := vocab.ids[text[:at]]
			right, ok2 := vocab.ids[text[at:]]
			if ok1 && ok2 && p.kinds[left] == normalPiece && p.kinds[right] == normalPiece {
				m.merges.put(left, right, merge{rank, id})
			}
		}
	}
	m.finish()
	return m
}

// mergesByID returns the merges of transformers' class LlamaTokenizer, which reads no scores: pairs of any kind of piece, by
// the id of the merged piece.
func (p *pieces) mergesByID(vocab *vocabulary) *merges {
	count := 0
	for _, text := range p.texts {
		count += utf8.RuneCountInString(text)
	}
	all := newMerges(count)
	rank := int32(0)
	for id := range p.texts {
		text := p.texts[id]
		for at := range text {
			left, ok1 := vocab.ids[text[:at]]
			right, ok2 := vocab.ids[text[at:]]
			if ok1 && ok2 {
				all.put(left, right, merge{rank, int32(id)})
				rank++
			}
		}
	}
	return all
}

func (p *pieces) unigram(vocab *vocabulary, unk int32) *unigram {
	m := &unigram{trie: newTrie(), scores: make([]float64, len(p.texts)), vocab: vocab, unk: unk, bytes: vocab.byteTokens(), byBytes: p.byBytes, rounded: true}
	least, most := float32(math.Inf(1)), float32(math.Inf(-1))
	for i, s := range p.scores {
		if p.kinds[i] == normalPiece {
			least, most = min(least, s), max(most, s)
		}
	}
	m.unknown = float64(least - penalty)
	for i, text := range p.texts {
		switch m.scores[i] = float64(p.scores[i]); p.kinds[i] {
		case userPiece: // always better than any combination of normal pieces
			m.scores[i] = float64(float32(float32(len(text))*most) - 0.1)
			m.trie.add(text, int32(i))
		case normalPiece:
			m.trie.add(text, int32(i))
		}
	}
	return m
}

// spaced is the normalizer of a SentencePiece model.
type spaced struct {
	*pieces
	user *trie // nil: no user-defined pieces
	bare bool  // add no space before a text
	once bool  // add none before a text beginning with one
	byID bool  // merges are ordered by id instead of score
}

// one returns the replacement of the first characters of text, and the number of bytes replaced.
func (s spaced) one(text string) (string, int) {
	if s.user != nil {
		if id, n := s.user.longest(text); id >= 0 {
			return text[:n], n
		}
	}
	if s.chars != nil {
		if with, n := s.chars.find(text, true); n > 0 {
			return with, n
		}
	}
	n := 1
	for n < len(text) && text[n]&0xc0 == 0x80 {
		n++
	}
	return text[:n], n
}

func (s spaced) normalize(text string, limit int) (string, error) {
	space := " "
	if s.escape {
		space = string(metaspace)
	}
	if s.squeeze {
		for text != "" {
			with, n := s.one(text)
			if with != " " {
				break
			}
			text = text[n:]
		}
	}
	if text == "" {
		return "", nil
	}
	var out strings.Builder
	after := s.squeeze // the preceding text ends with a space
	for text != "" {
		with, n := s.one(text)
		text = text[n:]
		if after {
			with = strings.TrimLeft(with, " ")
		}
		if with != "" {
			if out.Len()+len(with) > limit {
				return "", errLong
			}
			out.WriteString(strings.ReplaceAll(with, " ", space))
			after = s.squeeze && strings.HasSuffix(with, " ")
		}
	}
	result := out.String()
	if s.squeeze {
		for strings.HasSuffix(result, space) {
			result = strings.TrimSuffix(result, space)
		}
	}
	switch {
	case s.bare || !s.prefix:
	case s.suffix:
		result += space
	case s.squeeze && result == "":
	case !s.once || !strings.HasPrefix(result, space):
		result = space + result
	}
	return result, nil
}

// pieceStep decodes pieces: it combines bytes to characters, replaces ▁ by a space, and removes the space before a
// text.
type pieceStep struct {
	whole
	pieces *pieces
	vocab  *vocabulary
	tail   string // bytes of an incomplete character
	inside bool   // after the beginning, where a space is removed
}

func (s *pieceStep) end(next sink) {
	text := s.take()
	id, ok := s.vocab.ids[text]
	if ok && s.pieces.kinds[id] == bytePiece {
		b, _ := byteOf(text)
		s.emit(s.tail+string([]byte{b}), true, next)
		return
	}
	s.emit(s.tail, false, next)
	switch {
	case !ok || s.pieces.kinds[id] == controlPiece: // as in transformers
		if s.pieces.prefix && !s.inside {
			text = strings.TrimPrefix(text, " ")
		}
	case s.pieces.kinds[id] == unknownPiece:
		text = s.pieces.unknown
	default:
		p := s.pieces
		if rest, cut := strings.CutPrefix(text, string(metaspace)); cut && !s.inside && (p.prefix || p.squeeze) {
			text = rest
			s.inside = s.inside || !p.squeeze
		}
		text = strings.ReplaceAll(text, string(metaspace), " ")
	}
	if text != "" {
		s.inside = true
		next.text(text)
	}
}

// emit writes bytes, replacing invalid ones by U+FFFD. If more can follow, it holds back the bytes of an incomplete
// character.
func (s *pieceStep) emit(text string, more bool, next sink) {
	n := 0
	if more {
		n = cutTail(text)
	}
	s.tail = text[len(text)-n:]
	if text = text[:len(text)-n]; text != "" {
		s.inside = true
		next.text(strings.Map(func(r rune) rune { return r }, text))
	}
}

func (s *pieceStep) flush(next sink) {
	s.emit(s.tail, false, next)
	next.end()
}

func (s *pieceStep) clone() step {
	c := *s
	c.whole = s.whole.clone()
	return &c
}

func (s *pieceStep) bytes(text string, _ bool) (string, bool) {
	id, ok := s.vocab.ids[text]
	if !ok || int(id) >= len(s.pieces.kinds) || s.pieces.kinds[id] == controlPiece {
		return text, true
	}
	switch s.pieces.kinds[id] {
	case bytePiece:
		b, _ := byteOf(text)
		return string([]byte{b}), true
	case unknownPiece:
		return s.pieces.unknown, true
	}
	return strings.ReplaceAll(text, string(metaspace), " "), true
}
