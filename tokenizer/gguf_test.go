package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// values returns what a GGUF file would hold of a tokenizer.json.
func values(f *file, ids map[string]int32, pre string) GGUF {
	g := GGUF{Model: "gpt2", Pre: pre, BOS: -1, EOS: -1, Unknown: -1, Pad: -1}
	g.Tokens = make([]string, len(ids))
	g.Types = make([]int32, len(ids))
	for text, id := range ids {
		g.Tokens[id], g.Types[id] = text, int32(normalPiece)
	}
	for _, a := range f.Added {
		g.Types[a.ID] = int32(controlPiece)
	}
	for _, m := range f.Model.Merges {
		g.Merges = append(g.Merges, m[0]+" "+m[1])
	}
	return g
}

// The vocabulary of a GGUF file makes the ids of the tokenizer.json that it was made of.
func TestGGUFPairs(t *testing.T) {
	lines := readLines(t)
	files := fixtures(t, "tokenizers.zip")
	for name, pre := range map[string]string{
		"gpt2": "gpt-2", "neox": "olmo", "llama3": "llama-bpe", "qwen2": "qwen2", "qwen35": "qwen35", "o200k": "gpt-4o",
		"tekken": "tekken", "deepseek-llm": "deepseek-llm", "deepseek3": "deepseek-v3", "starcoder": "starcoder",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f file
			require.NoError(t, json.Unmarshal(files[name+"/tokenizer.json"], &f))
			var ids map[string]int32
			require.NoError(t, json.Unmarshal(f.Model.Vocab, &ids))
			// GGUF does not say how added tokens are found; keep those that are plain.
			f.Added = slices.DeleteFunc(f.Added, func(a addedJSON) bool { return a.Normalized || a.LStrip || a.RStrip })
			f.Model.Ignore = slices.Contains([]string{"llama-bpe", "tekken"}, pre)
			want, err := f.build()
			require.NoError(t, err)
			got, err := FromGGUF(values(&f, ids, pre))
			require.NoError(t, err)
			same(t, want, got, lines)
		})
	}
}

// A file that does not say which pattern cuts words, or says default, has llama.cpp's tokens, and ids of any type of integers.
func TestGGUFDefaultPattern(t *testing.T) {
	text, err := os.ReadFile("testdata/default_pre.json")
	require.NoError(t, err)
	var want struct {
		Tokens, Merges []string
		Texts          [][2]any
	}
	require.NoError(t, json.Unmarshal(text, &want))
	for _, pre := range []any{nil, "default"} {
		keys := map[string]any{
			"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": want.Tokens, "tokenizer.ggml.merges": want.Merges,
			"tokenizer.ggml.eos_token_id": uint64(7), "tokenizer.ggml.bos_token_id": int64(6), "tokenizer.ggml.padding_token_id": int32(-1), "tokenizer.ggml.unknown_token_id": uint8(5),
		}
		g, err := GGUFOf(func(key string) (any, bool) { v := keys[key]; return v, v != nil })
		require.NoError(t, err)
		require.Equal(t, []int32{7, 6, -1, 5}, []int32{g.EOS, g.BOS, g.Pad, g.Unknown})
		tok, err := FromGGUF(g)
		require.NoError(t, err)
		for _, x := range want.Texts {
			got, err := tok.Encode(x[0].(string), Options{Bare: true})
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(x[1]), fmt.Sprint(got), "%q", x[0])
		}
	}
}

// A file of byte pairs that does not say whether the BOS token stands before a text has it if llama.cpp puts it there. The folder made
// of the file has it too.
func TestGGUFDefaultBOS(t *testing.T) {
	text, err := os.ReadFile("testdata/default_pre.json")
	require.NoError(t, err)
	var want struct {
		Tokens, Merges []string
		Begins         map[string]bool
	}
	require.NoError(t, json.Unmarshal(text, &want))
	require.NotEmpty(t, want.Begins)
	types := slices.Repeat([]int32{int32(normalPiece)}, len(want.Tokens))
	types[5] = int32(controlPiece)
	for pre, begins := range want.Begins {
		for _, said := range []any{nil, false, true} {
			if said != nil {
				begins = said.(bool)
			}
			keys := map[string]any{
				"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": want.Tokens, "tokenizer.ggml.merges": want.Merges,
				"tokenizer.ggml.token_type": types, "tokenizer.ggml.bos_token_id": uint32(5), "tokenizer.ggml.add_bos_token": said,
			}
			g, err := GGUFOf(func(key string) (any, bool) { v := keys[key]; return v, v != nil })
			require.NoError(t, err)
			tok, err := FromGGUF(g)
			require.NoError(t, err, pre)
			files, err := g.Files()
			require.NoError(t, err)
			folder, err := Parse(files[FileName])
			require.NoError(t, err)
			for _, x := range []*Tokenizer{tok, folder} {
				ids, err := x.Encode("a", Options{})
				require.NoError(t, err)
				require.Equal(t, begins, ids[0] == 5, "%s, add_bos_token %v", pre, said)
			}
		}
	}
}

// A file of kind gpt2 that names no BOS token has token 11 before a text, and after it if it names no EOS token.
func TestDefaultID(t *testing.T) {
	for _, c := range []struct {
		pre      string
		bos, eos bool
		want     []int32
	}{{"llama-bpe", false, false, []int32{11, 0}}, {"qwen2", true, false, []int32{11, 0}}, {"qwen2", true, true, []int32{11, 0, 11}}, {"qwen2", false, false, []int32{0}}, {"glm4", false, false, []int32{0}}, {"glm4", false, true, []int32{0, 11}}} {
		keys := map[string]any{
			"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": c.pre, "tokenizer.ggml.tokens": strings.Split("abcdefghijklm", ""), "tokenizer.ggml.merges": []string{},
		}
		for name, on := range map[string]bool{"bos": c.bos, "eos": c.eos} {
			if on {
				keys["tokenizer.ggml.add_"+name+"_token"] = true
			}
		}
		g, err := GGUFOf(func(key string) (any, bool) { v, ok := keys[key]; return v, ok })
		require.NoError(t, err)
		tok, err := FromGGUF(g)
		require.NoError(t, err)
		ids, err := tok.Encode("a", Options{})
		require.NoError(t, err)
		require.Equal(t, c.want, ids, c.pre)
		if !c.eos {
			require.Empty(t, tok.Ends(), c.pre) // to llama.cpp token 11 ends an answer
		}
	}
}

// A file of another kind that names no BOS or EOS token has llama.cpp's defaults.
func TestDefaultEnds(t *testing.T) {
	for _, c := range []struct {
		model    string
		bos, eos int32
		ids      []int32
	}{{"llama", 1, 2, []int32{1, 3, 4}}, {"t5", -1, 1, []int32{4, 1}}} {
		keys := map[string]any{
			"tokenizer.ggml.model": c.model, "tokenizer.ggml.tokens": []string{"<unk>", "<b>", "<e>", "▁", "a"}, "tokenizer.ggml.scores": make([]float32, 5),
			"tokenizer.ggml.token_type": []int32{2, 3, 3, 1, 1}, "tokenizer.ggml.unknown_token_id": uint32(0), "tokenizer.ggml.add_space_prefix": c.model == "llama",
		}
		g, err := GGUFOf(func(key string) (any, bool) { v, ok := keys[key]; return v, ok })
		require.NoError(t, err)
		require.Equal(t, []int32{c.bos, c.eos}, []int32{g.BOS, g.EOS}, c.model)
		tok, err := FromGGUF(g)
		require.NoError(t, err)
		require.Equal(t, []int32{c.eos}, tok.Ends())
		ids, err := tok.Encode("a", Options{})
		require.NoError(t, err)
		require.Equal(t, c.ids, ids, c.model)
	}
}

// same holds two tokenizers to give the same ids and texts, but for what they put around a text.
func same(t *testing.T, want, got *Tokenizer, lines []string) {
	for _, line := range lines {
		a, err := want.Encode(line, Options{Bare: true})
		require.NoError(t, err)
		b, err := got.Encode(line, Options{Bare: true})
		require.NoError(t, err)
		require.Equal(t, a, b, "%q", line)
		require.Equal(t, want.Decode(a), got.Decode(b), "%q", line)
	}
}

// The vocabulary of kind llama makes the ids of the tokenizer.model that it was made of.
func TestGGUFPieces(t *testing.T) {
	lines := readLines(t)
	files := fixtures(t, "pieces.zip")
	for _, name := range []string{"bpe-llama", "bpe-user"} {
		data := files[name+"/tokenizer.model"]
		want, err := ParseSentencePiece(data)
		require.NoError(t, err)
		p, err := parseModel(data)
		require.NoError(t, err)
		g := GGUF{Model: "llama", Tokens: p.texts, Scores: p.scores, AddSpace: true, BOS: 1, EOS: 2, Unknown: 0, Pad: -1, AddBOS: true, AddEOS: true}
		for _, k := range p.kinds {
			g.Types = append(g.Types, int32(k))
		}
		got, err := FromGGUF(g)
		require.NoError(t, err)
		same(t, want, got, lines)
		ids, err := got.Encode("a", Options{})
		require.NoError(t, err)
		require.EqualValues(t, 1, ids[0])
		require.EqualValues(t, 2, ids[len(ids)-1])
		require.Equal(t, Special{BOS: 1, EOS: 2, Pad: -1, Unknown: 0}, got.Special())
	}
}

func TestGGUFErrors(t *testing.T) {
	good := GGUF{Model: "gpt2", Pre: "gpt-2", Tokens: []string{"a", "b", "ab"}, Merges: []string{"a b"}, BOS: -1, EOS: -1, Unknown: -1, Pad: -1}
	_, err := FromGGUF(good)
	require.NoError(t, err)
	for _, c := range []struct {
		change func(g *GGUF)
		want   string
	}{
		{func(g *GGUF) { g.Model = "bert" }, `tokenizer.ggml.model: "bert", want gpt2, llama or t5`},
		{func(g *GGUF) { g.Pre = "new" }, `tokenizer.ggml.pre: "new", want gpt-2, olmo`},
		{func(g *GGUF) { g.Types = []int32{1} }, "tokenizer.ggml.token_type: 1 values, want one for each of 3 tokens"},
		{func(g *GGUF) { g.EOS = 3 }, "tokenizer.ggml.eos_token_id: 3, want the id of one of 3 tokens"},
		{func(g *GGUF) { g.AddBOS = true }, "add_bos_token is true, and there is no bos_token_id"},
		{func(g *GGUF) { g.AddEOS = true }, "add_eos_token is true, and there is no eos_token_id"},
		{func(g *GGUF) { g.Tokens[1] = "a" }, `tokenizer.ggml.tokens: "a" is there twice`},
		{func(g *GGUF) { g.Merges[0] = "ab" }, `tokenizer.ggml.merges: 0: merge "ab", want two tokens`},
		{func(g *GGUF) { g.Merges[0] = "a c" }, `token "c" is not in the vocabulary`},
		{func(g *GGUF) { g.Model = "llama" }, "tokenizer.ggml.scores: 0 values, want one for each of 3 tokens"},
		{func(g *GGUF) { g.Model, g.Scores, g.Types = "llama", make([]float32, 3), []int32{1, 1, 9} }, `piece 2, "ab", is of kind 9, want 1 to 6`},
		{func(g *GGUF) { g.Model, g.Scores, g.Types = "llama", make([]float32, 3), []int32{1, 6, 1} }, `piece 1, "b", is said to be a byte, want <0x00> to <0xFF>`},
	} {
		g := good
		g.Tokens, g.Merges = slices.Clone(g.Tokens), slices.Clone(g.Merges)
		c.change(&g)
		_, err := FromGGUF(g)
		require.ErrorContains(t, err, c.want)
	}
}

// Open takes a tokenizer.model where there is no tokenizer.json.
func TestOpenModel(t *testing.T) {
	dir := t.TempDir()
	data := fixtures(t, "pieces.zip")["bpe-llama/tokenizer.model"]
	path := filepath.Join(dir, "tokenizer.model")
	require.NoError(t, os.WriteFile(path, data, 0o644))
	tok, err := Open(dir)
	require.NoError(t, err)
	ids, err := tok.Encode("<s>user</s>", Options{})
	require.NoError(t, err)
	require.Equal(t, []int32{1, 1}, ids[:2])
	require.EqualValues(t, 2, ids[len(ids)-1])
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(`{"add_bos_token":false,"add_eos_token":true}`), 0o644))
	tok, err = Open(dir)
	require.NoError(t, err)
	ids, err = tok.Encode("user", Options{})
	require.NoError(t, err)
	require.NotEqualValues(t, 1, ids[0])
	require.EqualValues(t, 2, ids[len(ids)-1])
	for class, space := range map[string]bool{"LlamaTokenizer": false, "LlamaTokenizerFast": false, "PreTrainedTokenizerFast": true} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(`{"add_prefix_space":false,"tokenizer_class":"`+class+`"}`), 0o644))
		tok, err = Open(dir)
		require.NoError(t, err)
		for _, text := range []string{"user", " user", "  user"} {
			ids, err = tok.Encode(text, Options{Bare: true})
			require.NoError(t, err)
			written := ""
			for _, id := range ids {
				piece, _ := tok.Text(id)
				written += piece
			}
			if space {
				require.Equal(t, "▁"+strings.ReplaceAll(text, " ", "▁"), written)
			} else {
				require.Equal(t, strings.ReplaceAll(text, " ", "▁"), written)
			}
			require.Equal(t, text, tok.Decode(ids))
		}
	}
	for _, c := range []struct {
		data []byte
		want string
	}{
		{nil, "no pieces, want a SentencePiece model"},
		{data[:len(data)/2], "a SentencePiece model: "},
		{[]byte("{}"), "a SentencePiece model: "},
		{[]byte("\x0a\x03\x0a\x01a\x0a\x03\x0a\x01a"), `piece 1, "a", is there twice or empty`},
		{[]byte("\x0a\x08\x0a\x01a\x15\x00\x00\xc0\x7f"), `piece 0, "a": score NaN, want a finite number`},
		{[]byte("\x12\x02\x18\x04"), "a SentencePiece model of type 4, want Unigram (1) or BPE (2)"},
		{[]byte("\x1a\x04\x12\x02ab"), "precompiled_charsmap: fewer than 4 bytes"},
	} {
		require.NoError(t, os.WriteFile(path, c.data, 0o644))
		_, err = Open(dir)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, c.want)
	}
}

func FuzzSentencePiece(f *testing.F) {
	for name, file := range fixtures(f, "pieces.zip") {
		if strings.HasSuffix(name, ".model") && len(file) < 20_000 {
			f.Add(file, "Hello <s> wörld \xff 12345")
		}
	}
	f.Add([]byte("\x0a\x03\x0a\x01a\x12\x02\x18\x02\x1a\x12\x12\x10\x08\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00abc\x00"), "aaab")
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		tok, err := ParseSentencePiece(file)
		if err != nil {
			return
		}
		encoded(t, tok, text)
	})
}

// The tokens that end a text are those of the keys, or else those with the names that llama.cpp knows, whatever their kind.
func TestGGUFEnds(t *testing.T) {
	tokens := strings.Split("a <eos_id> <|eot_id|> <|im_end|> b <|end|> <|return|> <|call|> <|endoftext|>", " ")
	for _, c := range []struct {
		tokens []string
		types  []int32
		more   map[string]any
		want   []int32
		hidden []int32 // ends that are no part of a text
	}{
		{tokens, []int32{1, 3, 3, 3, 1, 3, 3, 3, 3}, map[string]any{"eot_token_id": uint32(2), "eom_token_id": uint32(3)}, []int32{1, 2, 3}, []int32{1, 2, 3, 5, 6, 7, 8}},
		{tokens, []int32{1, 3, 3, 3, 1, 3, 3, 3, 3}, map[string]any{"eot_token_id": uint32(1)}, []int32{1}, []int32{1, 2, 3, 5, 6, 7, 8}},
		{tokens, []int32{1, 3, 3, 3, 1, 3, 3, 3, 3}, map[string]any{"eom_token_id": uint32(3)}, []int32{1, 3}, []int32{1, 2, 3, 5, 6, 7, 8}},
		{tokens, []int32{1, 3, 3, 3, 1, 3, 3, 3, 3}, nil, []int32{1, 2, 3, 6, 7, 8}, []int32{1, 2, 3, 5, 6, 7, 8}}, // gpt-oss: <|end|> ends a part
		{tokens, []int32{1, 3, 3, 3, 1, 3, 3, 3, 3}, map[string]any{"eot_token_id": uint32(1<<32 - 1), "eom_token_id": int32(-1)}, []int32{1, 2, 3, 6, 7, 8}, []int32{1, 2, 3, 5, 6, 7, 8}},
		{tokens[:6], []int32{1, 3, 1, 4, 1, 0}, nil, []int32{1, 2, 3, 5}, []int32{1, 2, 3, 5}}, // kinds as some converters wrote them
		{tokens[:6], []int32{1, 3, 5, 4, 0, 0}, nil, []int32{1, 3, 5}, []int32{1, 3, 5}},       // an unused token is never written
		{tokens[:4], nil, nil, []int32{1, 2, 3}, []int32{2, 3}},
		{[]string{"a", "</s>", "<|tool_response>"}, nil, nil, []int32{1, 2}, []int32{2}}, // Gemma 4's </s> is text
	} {
		keys := map[string]any{"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": c.tokens, "tokenizer.ggml.merges": []string{}, "tokenizer.ggml.eos_token_id": uint32(1)}
		if c.types != nil {
			keys["tokenizer.ggml.token_type"] = c.types
		}
		for k, v := range c.more {
			keys["tokenizer.ggml."+k] = v
		}
		for _, model := range []string{"gpt2", "llama"} {
			keys["tokenizer.ggml.model"] = model
			if model == "llama" {
				keys["tokenizer.ggml.scores"], keys["tokenizer.ggml.add_bos_token"] = make([]float32, len(c.tokens)), false
			}
			g, err := GGUFOf(func(key string) (any, bool) { v, ok := keys[key]; return v, ok })
			require.NoError(t, err)
			tok, err := FromGGUF(g)
			require.NoError(t, err)
			require.Equal(t, c.want, tok.Ends(), "%v", c)
			for id, text := range c.tokens {
				require.Equal(t, slices.Contains(c.hidden, int32(id)), tok.IsSpecial(int32(id)), "%s of %v", text, c)
				if tok.IsSpecial(int32(id)) {
					ids, err := tok.Encode(text, Options{Bare: true})
					require.NoError(t, err)
					require.Equal(t, []int32{int32(id)}, ids)
				}
			}
		}
	}
	g := GGUF{Model: "gpt2", Pre: "gpt-2", Tokens: []string{"a"}, BOS: -1, EOS: -1, Unknown: -1, Pad: -1, Ends: []int32{1}}
	_, err := FromGGUF(g)
	require.EqualError(t, err, "tokenizer: GGUF: tokenizer.ggml.eot_token_id or eom_token_id: 1, want the id of one of 1 tokens")
}
