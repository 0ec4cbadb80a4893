package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// The text of tokens that follow others is that of all of them, beyond the text of the others.
func TestContinue(t *testing.T) {
	lines := readLines(t)
	for _, archive := range []string{"tokenizers.zip", "pieces.zip"} {
		files := fixtures(t, archive)
		for _, name := range names(files) {
			var tok *Tokenizer
			var err error
			if data := files[name+"/tokenizer.json"]; data != nil {
				tok, err = Parse(data)
			} else {
				tok, err = ParseSentencePiece(files[name+"/tokenizer.model"])
			}
			require.NoError(t, err)
			random := rand.New(rand.NewPCG(1, 2))
			for range 300 {
				ids, err := tok.Encode(lines[random.IntN(len(lines))], Options{})
				require.NoError(t, err)
				whole := random.IntN(3) > 0
				if !whole { // bytes that are no characters
					random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
				}
				at := random.IntN(len(ids) + 1)
				before, all := tok.Decode(ids[:at]), tok.Decode(ids)
				s := tok.Continue(ids[:at])
				var text strings.Builder
				for _, id := range ids[at:] {
					text.WriteString(s.Push(id))
					if whole && random.IntN(8) == 0 {
						text.WriteString(s.Settle())
					}
					held := s.Held()
					require.Equal(t, held, s.Held())
				}
				text.WriteString(s.Flush())
				if strings.HasPrefix(all, before) {
					require.Equal(t, all[len(before):], text.String(), "%s: %d at %d", name, ids, at)
				} else { // a character was begun
					require.True(t, strings.HasSuffix(all, text.String()), "%s: %d at %d: %q of %q", name, ids, at, text.String(), all)
				}
			}
		}
	}
}

// Spaces before punctuation are removed in a stream as in a whole text, and only text that further tokens can change is
// held back.
func TestCleanUp(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50_000 {
		var out, whole strings.Builder
		c := chain{steps: []step{&cleanUpStep{}}, out: &out}
		for range 1 + random.IntN(9) {
			token := []string{" ", "  ", "'", " '", ".", " .", "n't", "ve", " s", "a", "long", "日本語"}[random.IntN(12)]
			whole.WriteString(token)
			c.push(token)
			if !strings.Contains(whole.String()[max(0, whole.Len()-3):], " ") {
				require.Equal(t, cleaned(whole.String()), out.String(), "%q", whole.String())
			}
		}
		c.flush()
		require.Equal(t, cleaned(whole.String()), out.String(), "%q", whole.String())
	}
}

// Tokens within a text have their own bytes, which together are the text.
func TestTokenBytes(t *testing.T) {
	lines := readLines(t)
	files := fixtures(t, "tokenizers.zip")
	for _, name := range []string{"gpt2", "llama3", "qwen2", "llama2", "gemma", "metaspace", "deepseek3"} {
		tok, err := Parse(files[name+"/tokenizer.json"])
		require.NoError(t, err)
		for _, line := range lines[:1000] {
			ids, err := tok.Encode(line, Options{Plain: true})
			require.NoError(t, err)
			var all []byte
			for _, id := range ids {
				all = append(all, tok.Bytes(id)...)
			}
			text := tok.DecodeAll(ids)
			if !utf8.Valid(all) {
				require.Contains(t, text, "\ufffd")
				continue
			}
			got := string(all)
			if got != text { // a space is left out at the beginning
				got = strings.TrimPrefix(got, " ")
			}
			require.Equal(t, text, got, "%s: %q", name, line)
		}
	}
	tok, err := ParseSentencePiece(fixtures(t, "pieces.zip")["bpe-llama/tokenizer.model"])
	require.NoError(t, err)
	for token, want := range map[string]string{"▁t": " t", "<0xF0>": "\xf0", "</s>": "</s>", "<unk>": " ⁇ ", "e": "e"} {
		id, ok := tok.ID(token)
		require.True(t, ok, token)
		require.Equal(t, want, string(tok.Bytes(id)), token)
	}
	require.Nil(t, tok.Bytes(-1))
	require.Nil(t, tok.Bytes(1<<20))
}

// A text is cut at the special tokens in it, and not at other tokens that were added to the vocabulary.
func TestSegments(t *testing.T) {
	tok, err := Parse([]byte(`{"added_tokens": [{"id": 1, "content": "<|a|>", "special": true}, {"id": 2, "content": "<|ab|>", "special": true, "normalized": true}, {"id": 3, "content": "<b>"}],
		"model": {"type": "BPE", "vocab": {"x": 0, "<|a|>": 1, "<|ab|>": 2, "<b>": 3}, "merges": []}}`))
	require.NoError(t, err)
	require.Equal(t, []Segment{{"x<b>", -1}, {"<|a|>", 1}, {"<|ab|>", 2}, {"<|a", -1}}, tok.Segments("x<b><|a|><|ab|><|a"))
	require.Empty(t, tok.Segments(""))
}
