package tokenizer

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/tokenizer/internal/pattern"
	"golang.org/x/text/unicode/norm"
)

// GGUF is the vocabulary stored in a GGUF file's metadata: the field Model is the value of tokenizer.ggml.model,
// and so on.
type GGUF struct {
	Model  string // gpt2 (byte pairs by rank), llama (SentencePiece's by score) or t5 (SentencePiece's Unigram)
	Pre    string // name of the pattern splitting words, for gpt2
	Tokens []string
	Merges []string  // two tokens separated by a space, for gpt2
	Scores []float32 // for llama and t5
	// Types holds the kind of every token: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte. nil means
	// that all are normal.
	Types []int32
	// BOS, EOS, Unknown and Pad are ids, or -1 if the file has none.
	BOS, EOS, Unknown, Pad int32
	// Ends are the tokens ending a text in addition to EOS: eot_token_id and eom_token_id. If the file has neither
	// key, Ends is nil, and tokens with conventional names of end tokens are used.
	Ends           []int32
	AddBOS, AddEOS bool
	// Templates holds the chat templates by name: default is the value of tokenizer.chat_template, and others are listed by
	// tokenizer.chat_templates.
	Templates map[string]string
	// AddSpace adds a space before a text, for llama and t5.
	AddSpace bool
	// Squeeze collapses runs of spaces, and removes leading and trailing ones, for t5.
	Squeeze bool
	// Charsmap is SentencePiece's compiled table of character replacements, for t5; nil if there is none.
	Charsmap []byte

	named map[int32]bool // end tokens recognised by name
}

// FromGGUF returns the tokenizer of a GGUF file. Errors name the offending value and the valid ones.
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
	for name, src := range g.Templates {
		_ = t.setTemplate(name, src) // the error is kept with the template
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

// kind returns the kind of a token. As in llama.cpp, an end token recognised by name is a control token, regardless
// of the file, and kind 0 counts as normal.
func (g *GGUF) kind(id int) pieceKind {
	switch {
	case g.named[int32(id)]:
		return controlPiece
	case g.Types == nil || g.Types[id] == 0:
		return normalPiece
	}
	return pieceKind(g.Types[id])
}

// namedEnds returns the tokens recognised as end tokens by name, if the file has no keys for them. The names are
// those in llama.cpp (src/llama-vocab.cpp, special_eog_ids).
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
	if has("<|call|>") && has("<|return|>") || has("<|calls|>") && has("<|flush|>") { // there it ends only a part of an answer
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

// pieces builds a tokenizer of kind llama or t5.
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

// pairs builds a tokenizer of kind gpt2.
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
