package tokenizer

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/tokenizer/internal/pattern"
	"golang.org/x/text/unicode/norm"
)

// GGUF is the vocabulary that a GGUF file has among its values: the field Model is
// the value of tokenizer.ggml.model, and so on.
type GGUF struct {
	Model  string // gpt2 (byte pairs by rank), llama (SentencePiece's by score) or t5 (SentencePiece's Unigram)
	Pre    string // which pattern cuts words; of gpt2
	Tokens []string
	Merges []string  // two tokens with a space between them; of gpt2
	Scores []float32 // of llama and t5
	// Types has the kind of every token: 1 normal, 2 unknown, 3 control, 4 of the
	// user, 5 unused, 6 byte. nil: all are normal.
	Types []int32
	// BOS, EOS, Unknown and Pad are ids, -1 where the file says none.
	BOS, EOS, Unknown, Pad int32
	// Ends are the tokens that end a text next to EOS: eot_token_id and eom_token_id. nil: the file has neither key,
	// and tokens with the names that models end a text with do it.
	Ends           []int32
	AddBOS, AddEOS bool
	// Template is the value of tokenizer.chat_template, "" if there is none.
	Template string
	// AddSpace says that a space stands before a text; of llama and t5.
	AddSpace bool
	// Squeeze says that runs of spaces are one, and those around a text none; of t5.
	Squeeze bool
	// Charsmap is the table of characters that become others, as SentencePiece compiles it; of t5, nil for none.
	Charsmap []byte

	named map[int32]bool // ends by their names
}

// FromGGUF returns the tokenizer of a GGUF file. Errors name the value that is
// wrong, and what it should be.
func FromGGUF(g GGUF) (*Tokenizer, error) {
	t, err := g.build()
	if err != nil {
		return nil, fmt.Errorf("tokenizer: GGUF: %w", err)
	}
	return t, nil
}

func (g *GGUF) build() (*Tokenizer, error) {
	if g.Types != nil && len(g.Types) != len(g.Tokens) {
		return nil, fmt.Errorf("tokenizer.ggml.token_type: %d values, want one for each of %d tokens", len(g.Types), len(g.Tokens))
	}
	for _, n := range []struct {
		name string
		id   int32
	}{{"bos", g.BOS}, {"eos", g.EOS}, {"unknown", g.Unknown}, {"padding", g.Pad}} {
		if n.id < -1 || int(n.id) >= len(g.Tokens) {
			return nil, fmt.Errorf("tokenizer.ggml.%s_token_id: %d, want the id of one of %d tokens", n.name, n.id, len(g.Tokens))
		}
	}
	for _, id := range g.Ends {
		if id < 0 || int(id) >= len(g.Tokens) {
			return nil, fmt.Errorf("tokenizer.ggml.eot_token_id or eom_token_id: %d, want the id of one of %d tokens", id, len(g.Tokens))
		}
	}
	g.named = namedEnds(g)
	var t *Tokenizer
	var err error
	switch g.Model {
	case "llama", "t5":
		t, err = g.pieces()
	case "gpt2":
		t, err = g.pairs()
	default:
		return nil, fmt.Errorf("tokenizer.ggml.model: %s, want gpt2, llama or t5", quoted.Text(g.Model))
	}
	if err != nil {
		return nil, err
	}
	t.named = Special{BOS: g.BOS, EOS: g.EOS, Pad: g.Pad, Unknown: g.Unknown}
	t.before, t.after = nil, nil
	t.ends = slices.Concat(g.Ends, slices.Sorted(maps.Keys(g.named)))
	for _, n := range []struct {
		name string
		id   int32
	}{{"bos_token", g.BOS}, {"eos_token", g.EOS}, {"unk_token", g.Unknown}, {"pad_token", g.Pad}} {
		if n.id >= 0 {
			t.written = append(t.written, variable{n.name, g.Tokens[n.id]})
		}
	}
	if g.Template != "" {
		_ = t.setTemplate("default", g.Template) // is kept with the template
	}
	if g.AddBOS {
		if g.BOS < 0 {
			return nil, fmt.Errorf("tokenizer.ggml.add_bos_token is true, and there is no bos_token_id")
		}
		t.before = []int32{g.BOS}
	}
	if g.AddEOS {
		if g.EOS < 0 {
			return nil, fmt.Errorf("tokenizer.ggml.add_eos_token is true, and there is no eos_token_id")
		}
		t.after = []int32{g.EOS}
	}
	return t, nil
}

// kind returns the kind of a token. As in llama.cpp, a token with the name of an end is a control token, whatever the
// file says, and one without a kind, 0, counts as normal.
func (g *GGUF) kind(id int) pieceKind {
	switch {
	case g.named[int32(id)]:
		return controlPiece
	case g.Types == nil || g.Types[id] == 0:
		return normalPiece
	}
	return pieceKind(g.Types[id])
}

// namedEnds returns the tokens that end a text by their names, if the file has no keys for them. The names are those of
// llama.cpp (src/llama-vocab.cpp, special_eog_ids).
func namedEnds(g *GGUF) map[int32]bool {
	if g.Ends != nil {
		return nil
	}
	ids := map[string]int32{}
	for id, text := range g.Tokens {
		switch text {
		case "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>",
			"▁<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>", "[e~[":
			if g.Types == nil || g.Types[id] != int32(unusedPiece) {
				ids[text] = int32(id)
			}
		}
	}
	has := func(text string) bool { _, ok := ids[text]; return ok }
	if has("<|call|>") && has("<|return|>") || has("<|calls|>") && has("<|flush|>") { // there it ends a part of an answer
		delete(ids, "<|end|>")
	}
	if has("<|tool_response>") {
		delete(ids, "</s>")
	}
	named := map[int32]bool{}
	for _, id := range ids {
		named[id] = true
	}
	return named
}

// pieces makes a tokenizer of kind llama or t5.
func (g *GGUF) pieces() (*Tokenizer, error) {
	if len(g.Scores) != len(g.Tokens) {
		return nil, fmt.Errorf("tokenizer.ggml.scores: %d values, want one for each of %d tokens", len(g.Scores), len(g.Tokens))
	}
	pairs := g.Model == "llama"
	p := &pieces{texts: g.Tokens, scores: g.Scores, bpe: pairs, byBytes: pairs, prefix: g.AddSpace, squeeze: g.Squeeze && !pairs, escape: true, unknown: " ⁇ "}
	if len(g.Charsmap) > 0 && !pairs {
		var err error
		if p.chars, err = newCharsmap(g.Charsmap); err != nil {
			return nil, fmt.Errorf("tokenizer.ggml.%w", err)
		}
	}
	for id := range g.Tokens {
		p.kinds = append(p.kinds, g.kind(id))
	}
	return p.build()
}

// pairs makes a tokenizer of kind gpt2.
func (g *GGUF) pairs() (*Tokenizer, error) {
	pre, ok := patterns(g.Pre)
	if !ok {
		return nil, fmt.Errorf("tokenizer.ggml.pre: %s, want %s", quoted.Text(g.Pre), known)
	}
	ids := make(map[string]int32, len(g.Tokens))
	for id, text := range g.Tokens {
		if _, twice := ids[text]; twice {
			return nil, fmt.Errorf("tokenizer.ggml.tokens: %s is there twice", quoted.Text(text))
		}
		ids[text] = int32(id)
	}
	m := modelJSON{Ignore: pre.whole}
	m.Merges = make([]mergeJSON, len(g.Merges))
	for i, s := range g.Merges {
		if err := m.Merges[i].parse(s); err != nil {
			return nil, fmt.Errorf("tokenizer.ggml.merges: %d: %w", i, err)
		}
	}
	model, vocab, err := m.pairs(ids)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.ggml.merges: %w", err)
	}
	a := newAlphabet()
	t := &Tokenizer{special: map[int32]bool{}, model: model, vocab: vocab}
	if pre.compose {
		t.normalize = unicodeForm(norm.NFC)
	}
	for _, s := range pre.cuts {
		e, err := pattern.Compile(s)
		if err != nil {
			return nil, err
		}
		t.splits = append(t.splits, cut{find: expression{e}, what: isolated})
	}
	t.splits = append(t.splits, alphabetised{a})
	t.decoder = func() []step { return []step{&byteLevelStep{alphabet: a}} }
	var tokens []added
	for id, text := range g.Tokens {
		if k := g.kind(id); text != "" && (k == controlPiece || k == userPiece || k == unknownPiece) {
			tokens = append(tokens, added{id: int32(id), text: text, special: k != userPiece})
		}
	}
	return t, t.add(tokens)
}
