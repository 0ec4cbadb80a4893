package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
	"github.com/gomoe/gomoe/tokenizer/internal/pattern"
)

// ToGGUF returns the vocabulary of a GGUF file for the tokenizer in a folder: a tokenizer.json of byte pairs, or a
// tokenizer.model. size is the model's number of tokens; unused ids become unused tokens, and added tokens beyond
// size are left out. If a GGUF file cannot represent the tokenizer, ToGGUF returns an error giving the reason. It
// also compares the ids of some texts.
func ToGGUF(folder string, size int) (GGUF, error) {
	g, err := toGGUF(folder, size)
	if err != nil {
		return g, fmt.Errorf("tokenizer: %s: %w", folder, err)
	}
	return g, nil
}

func toGGUF(folder string, size int) (g GGUF, err error) {
	t, f, pieces, err := open(folder)
	if err != nil {
		return g, err
	}
	// Added tokens may exceed the rows of the model, which cannot use them.
	t.tokens = slices.DeleteFunc(slices.Clone(t.tokens), func(a added) bool { return int(a.id) >= size && t.named.EOS != a.id && t.named.BOS != a.id })
	most := 0
	for _, id := range t.vocab.ids {
		most = max(most, int(id)+1)
	}
	for _, a := range t.tokens {
		most = max(most, int(a.id)+1)
	}
	if most > size {
		return g, fmt.Errorf("the tokenizer has %d tokens and the model %d: a GGUF file has as many tokens as the model", most, size)
	}
	if int(t.named.Pad) >= size {
		t.named.Pad = -1
	}
	if f != nil {
		g, err = f.toGGUF(t, size)
	} else {
		g, err = piecesToGGUF(pieces, t)
	}
	if err != nil {
		return g, err
	}
	for len(g.Tokens) < size {
		g.Types = append(g.Types, int32(unusedPiece))
		g.Tokens = append(g.Tokens, fmt.Sprintf("[PAD%d]", len(g.Tokens)))
		if g.Scores != nil {
			g.Scores = append(g.Scores, 0)
		}
	}
	if err := g.around(t); err != nil {
		return g, err
	}
	g.Templates = t.sources
	back, err := FromGGUF(g)
	if err != nil {
		return g, err
	}
	t.spacesOfGGUF()
	return g, g.alike(t, back)
}

// spacesOfGGUF makes t place spaces before texts like a GGUF file of kind llama: also before a text that begins with one,
// and after each special token. Every converter to GGUF accepts this difference, so alike does.
func (t *Tokenizer) spacesOfGGUF() {
	if s, ok := t.normalize.(spaced); ok && s.bpe {
		s.once, s.bare = false, false
		t.normalize, t.later = s, nil
	}
	if len(t.splits) == 1 && t.normalize == nil {
		if s, ok := t.splits[0].(spaces); ok && s.with == string(metaspace) && !s.cut {
			t.normalize, t.splits = spaced{pieces: &pieces{prefix: s.always || s.first, escape: true}}, nil
		}
	}
}

func errAround(a added) error {
	return fmt.Errorf("added token %s takes spaces around it, or only whole words; a GGUF file cannot say so", quoted.Text(a.text))
}

// around sets the special tokens, and the tokens added around a text.
func (g *GGUF) around(t *Tokenizer) error {
	g.BOS, g.EOS, g.Unknown, g.Pad = t.named.BOS, t.named.EOS, t.named.Unknown, t.named.Pad
	for _, s := range []struct {
		name string
		ids  []int32
		id   *int32
		add  *bool
	}{{"before", t.before, &g.BOS, &g.AddBOS}, {"after", t.after, &g.EOS, &g.AddEOS}} {
		if len(s.ids) == 1 && *s.id < 0 {
			*s.id = s.ids[0]
		}
		if *s.add = len(s.ids) > 0; len(s.ids) > 1 || *s.add && s.ids[0] != *s.id {
			return fmt.Errorf("tokens %d stand %s a text; a GGUF file has only the token of its beginning before it, and that of its end after it", s.ids, s.name)
		}
	}
	return nil
}

// piecesToGGUF returns the vocabulary of a tokenizer.model.
func piecesToGGUF(data []byte, t *Tokenizer) (g GGUF, err error) {
	p, err := parseModel(data)
	if err != nil {
		return g, err
	}
	g = GGUF{Model: "llama", Tokens: p.texts, Scores: p.scores, AddSpace: p.prefix}
	for id, k := range p.kinds {
		g.Types = append(g.Types, int32(k))
		if s, ok := t.normalize.(spaced); ok && s.byID && k == normalPiece {
			g.Scores[id] = -float32(id)
		}
	}
	for _, a := range t.tokens {
		for int(a.id) >= len(g.Tokens) {
			g.Tokens, g.Scores, g.Types = append(g.Tokens, fmt.Sprintf("[PAD%d]", len(g.Tokens))), append(g.Scores, 0), append(g.Types, int32(unusedPiece))
		}
		switch {
		case a.left || a.right || a.word:
			return g, errAround(a)
		case g.Types[a.id] == int32(unknownPiece):
		case a.special:
			g.Tokens[a.id], g.Types[a.id] = a.text, int32(controlPiece)
		default:
			g.Tokens[a.id], g.Types[a.id] = a.text, int32(userPiece)
		}
	}
	if !p.bpe {
		if p.byBytes || p.suffix || !p.escape {
			return g, errors.New("the tokenizer.model of kind Unigram has bytes for unknown characters, or spaces behind words, which a GGUF file of kind t5 cannot say")
		}
		g.Model, g.Squeeze, g.Charsmap = "t5", p.squeeze, p.table
		return g, nil
	}
	if p.chars != nil || p.squeeze || p.suffix || !p.escape {
		return g, errors.New("the tokenizer.model changes characters or spaces of a text, which a GGUF file of kind llama cannot say")
	}
	return g, nil
}

// toGGUF returns the vocabulary of a tokenizer.json, from which t was built, with at most size tokens.
func (f *file) toGGUF(t *Tokenizer, size int) (g GGUF, err error) {
	m := f.Model
	var ids map[string]int32
	if err := strictjson.Unmarshal(m.Vocab, &ids); err != nil {
		return g, fmt.Errorf("a model of type %s; gomoe writes byte pairs (BPE) to GGUF files, and a tokenizer.model of kind Unigram", quoted.Text(m.Type))
	}
	if m.Prefix != "" || m.Suffix != "" {
		return g, fmt.Errorf("a model with prefix %s and suffix %s of parts of words, which GGUF files do not have", quoted.Text(m.Prefix), quoted.Text(m.Suffix))
	}
	g.Tokens, g.Types = make([]string, min(size, t.Size())), make([]int32, min(size, t.Size()))
	for id := range g.Tokens {
		g.Types[id] = int32(normalPiece)
		if text, ok := t.Text(int32(id)); ok {
			g.Tokens[id] = text
		} else {
			g.Tokens[id], g.Types[id] = fmt.Sprintf("[PAD%d]", id), int32(unusedPiece)
		}
	}
	for _, a := range t.tokens {
		switch {
		case a.left || a.right || a.word:
			return g, errAround(a)
		case a.special:
			g.Types[a.id] = int32(controlPiece)
		default:
			g.Types[a.id] = int32(userPiece)
		}
	}
	if m.Fallback {
		return g, f.bySpaces(&g)
	}
	g.Model = "gpt2"
	for _, pair := range m.Merges {
		g.Merges = append(g.Merges, pair[0]+" "+pair[1])
	}
	w, err := f.words()
	if err != nil {
		return g, err
	}
	g.Pre, err = w.name(len(m.Merges) == 0)
	return g, err
}

// name returns the name of a way to split words. The field whole matters least, because alike compares all tokens.
// Without merges only the normalizer matters. If there is no name, the error says how the words of the nearest name
// differ.
func (w words) name(noMerges bool) (name string, err error) {
	nearest, most := "", -1
	for _, n := range strings.Split(strings.ReplaceAll(known, " or ", ", "), ", ") {
		p, _ := patterns(n)
		equal, bytes := w.common(p)
		if score := equal<<20 + bytes; score > most {
			nearest, most = n, score
		}
		if p.compose != w.compose || !noMerges && (equal < len(p.cuts) || len(p.cuts) != len(w.cuts)) {
			continue
		}
		if name == "" || p.whole == w.whole {
			name = n
		}
		if noMerges || p.whole == w.whole {
			return n, nil
		}
	}
	if name != "" {
		return name, nil
	}
	p, _ := patterns(nearest)
	n, at := w.common(p)
	from := func(cuts []string) string {
		if n >= len(cuts) {
			return "no pattern"
		}
		return quoted.Text(cuts[n][at:])
	}
	differ := fmt.Sprintf("pattern %d has, from byte %d, %s, and there %s", n+1, at, from(w.cuts), from(p.cuts))
	if n == len(p.cuts) && n == len(w.cuts) {
		if differ = "the patterns are the same, but there without the normalizer NFC"; p.compose {
			differ = "the patterns are the same, but there with the normalizer NFC"
		}
	}
	return "", fmt.Errorf("pre_tokenizer: llama.cpp has no name for its patterns, which a GGUF file needs; the nearest name is %s: %s", nearest, differ)
}

// common returns how many of the first patterns of two ways to split words are the same, and how many of the first
// bytes of the following pattern.
func (w words) common(p words) (n, bytes int) {
	for n < min(len(w.cuts), len(p.cuts)) && pattern.Same(w.cuts[n], p.cuts[n]) {
		n++
	}
	if n == min(len(w.cuts), len(p.cuts)) {
		return n, 0
	}
	return n, wholeRunes(w.cuts[n], alike(w.cuts[n], p.cuts[n]))
}

// words returns how a tokenizer.json splits text into words.
func (f *file) words() (w words, err error) {
	w.whole = f.Model.Ignore
	for _, n := range flat(f.Normalize, func(c *component) []*component { return c.Normalizers }) {
		if n.Type != "NFC" {
			return w, fmt.Errorf("normalizer %s: a GGUF file can say NFC or nothing", quoted.Text(n.Type))
		}
		w.compose = true
	}
	bytes := false
	for _, s := range flat(f.Split, func(c *component) []*component { return c.Pretokenizers }) {
		switch {
		case s.Type == "Split" && s.Pattern != nil && s.Pattern.Regex != nil && (s.Behavior == "Isolated" && !s.Invert || s.Behavior == "Removed" && s.Invert):
			w.cuts = append(w.cuts, *s.Pattern.Regex)
		case s.Type == "Digits" && s.Digits:
			w.cuts = append(w.cuts, `\p{N}`)
		case s.Type == "ByteLevel" && !is(s.PrefixSpace, true):
			if bytes = true; is(s.Regex, true) {
				w.cuts = append(w.cuts, wordsOfGPT2)
			}
		default:
			return w, fmt.Errorf("pre_tokenizer %s: want patterns that split, and ByteLevel without a space before the text", quoted.Text(s.Type))
		}
	}
	if !bytes {
		return w, errors.New("pre_tokenizer: no ByteLevel; a GGUF file of kind gpt2 has tokens of bytes")
	}
	return w, nil
}

// flat returns a component, or the flattened components of a sequence.
func flat(c *component, parts func(*component) []*component) (all []*component) {
	if c == nil {
		return nil
	}
	if c.Type != "Sequence" {
		return []*component{c}
	}
	for _, p := range parts(c) {
		all = append(all, flat(p, parts)...)
	}
	return all
}

// bySpaces makes g a vocabulary of kind llama: byte pairs of characters by score, with ▁ for spaces. The scores
// follow the order of the merges. There must be a merge for every pair of tokens that forms a token.
func (f *file) bySpaces(g *GGUF) error {
	g.Model = "llama"
	parts := append(flat(f.Normalize, func(c *component) []*component { return c.Normalizers }), flat(f.Split, func(c *component) []*component { return c.Pretokenizers })...)
	spaces := false
	for _, p := range parts {
		switch {
		case p.Type == "Prepend" && p.Prepend == "▁":
			g.AddSpace = true
		case p.Type == "Replace" && p.Pattern != nil && p.Pattern.String != nil && *p.Pattern.String == " " && p.Content == "▁":
			spaces = true
		case p.Type == "Metaspace" && p.Replacement == "▁" && !is(p.Cut, true):
			always, first, err := p.scheme()
			if err != nil {
				return err
			}
			spaces, g.AddSpace = true, always || first
		default:
			return fmt.Errorf("%s: beside byte_fallback a GGUF file can only say that spaces are ▁, and that one stands before a text", quoted.Text(p.Type))
		}
	}
	if !spaces {
		return errors.New("byte_fallback without ▁ for spaces, which a GGUF file of kind llama has")
	}
	order := map[string]int{}
	last := ""
	for _, m := range f.Model.Merges {
		to := m[0] + m[1]
		if _, again := order[to]; again && to != last {
			return fmt.Errorf("merges: those that make %s do not follow each other; a GGUF file has one score for it", quoted.Text(to))
		}
		if last = to; order[to] == 0 {
			order[to] = len(order) + 1
		}
	}
	g.Scores = make([]float32, len(g.Tokens))
	for id, text := range g.Tokens {
		if n := order[text]; n > 0 {
			g.Scores[id] = -float32(n)
		} else {
			g.Scores[id] = -float32(len(order) + 1)
		}
		if _, ok := byteOf(text); ok && g.Types[id] == int32(normalPiece) {
			g.Types[id], g.Scores[id] = int32(bytePiece), 0
		}
		if u := f.Model.Unk; u != nil && *u == text {
			g.Types[id], g.Scores[id] = int32(unknownPiece), 0
		}
	}
	have := map[mergeJSON]bool{}
	for _, m := range f.Model.Merges {
		have[m] = true
	}
	for _, m := range g.merges() {
		if !have[m] {
			return fmt.Errorf("merges: %s and %s are not merged, though both together are a token; with scores, as a GGUF file has them, they would be", quoted.Text(m[0]), quoted.Text(m[1]))
		}
	}
	return nil
}

// merges returns the merges of a vocabulary of kind llama: all pairs of tokens that form a token, ordered by its
// score.
func (g *GGUF) merges() []mergeJSON {
	ids := map[string]int{}
	for id, text := range g.Tokens {
		if k := g.kind(id); k == normalPiece || k == userPiece {
			ids[text] = id
		}
	}
	type merge struct{ to, left, right int }
	var all []merge
	for id, text := range g.Tokens {
		if g.kind(id) != normalPiece {
			continue
		}
		for at := range text {
			left, ok1 := ids[text[:at]]
			if right, ok2 := ids[text[at:]]; ok1 && ok2 {
				all = append(all, merge{id, left, right})
			}
		}
	}
	slices.SortFunc(all, func(a, b merge) int {
		return cmp.Or(cmp.Compare(g.Scores[b.to], g.Scores[a.to]), cmp.Compare(a.to, b.to), cmp.Compare(a.left, b.left), cmp.Compare(a.right, b.right))
	})
	merges := make([]mergeJSON, len(all))
	for i, m := range all {
		merges[i] = mergeJSON{g.Tokens[m.left], g.Tokens[m.right]}
	}
	return merges
}

// alike returns an error if two tokenizers with the tokens of g give different ids for some texts, or for a token.
func (g *GGUF) alike(a, b *Tokenizer) error {
	texts := []string{
		"", " ", "  ", "a", " a", "Hello, world!", "func (p *Parser) next() error {\n\treturn nil\n}\n", "1234567890 3.14159", "don't I'LL we've",
		"  two  spaces\n\n\nlines\t\ttabs \r\n", "naïve café Ångström", "cafe\u0301", "Привет, мир", "日本語のテキスト", "한국어", "مرحبا", "🙂👩‍👩‍👧 ok", "x=y*z+1;//c", "\x00\x7f\u00a0", "<|x|>[INST]", "a , b . it 's",
	}
	for _, id := range []int32{a.named.BOS, a.named.EOS} {
		if text, ok := a.Text(id); ok {
			texts = append(texts, "a"+text+" b")
		}
	}
	for _, x := range a.tokens {
		if !x.special && len(texts) < 100 {
			texts = append(texts, "a"+x.text+"b")
		}
	}
	for _, text := range texts {
		x, err1 := a.Encode(text, Options{})
		y, err2 := b.Encode(text, Options{})
		if err1 == nil && err2 == nil && slices.Equal(x, y) && a.Decode(x) == b.Decode(y) || err1 != nil && err2 != nil {
			continue
		}
		if err1 == nil && err2 == nil && slices.Equal(x, y) {
			return fmt.Errorf("the text of the tokens %v would be %s, and is %s: the format cannot say all of what this tokenizer does", x, quoted.Text(b.Decode(y)), quoted.Text(a.Decode(x)))
		}
		if err := errors.Join(err1, err2); err != nil {
			return fmt.Errorf("the tokens of %s: %w: the format cannot say all of what this tokenizer does", quoted.Text(text), err)
		}
		return fmt.Errorf("the tokens of %s would be %v, and are %v: the format cannot say all of what this tokenizer does", quoted.Text(text), y, x)
	}
	w := &word{}
	for id, text := range g.Tokens {
		if g.kind(id) != normalPiece {
			continue
		}
		x, err1 := a.model.encode(w, text, nil)
		y, err2 := b.model.encode(w, text, nil)
		if err1 == nil && err2 == nil && !slices.Equal(x, y) {
			return fmt.Errorf("the tokens of token %d, %s, as a word would be %v, and are %v: the format cannot say all of what this tokenizer does", id, quoted.Text(text), y, x)
		}
	}
	return nil
}
