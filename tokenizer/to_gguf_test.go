package tokenizer

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// folderOf writes the files of a fixture to a folder.
func folderOf(t *testing.T, files map[string][]byte, name string) string {
	t.Helper()
	dir := t.TempDir()
	for path, data := range files {
		if base, ok := strings.CutPrefix(path, name+"/"); ok {
			require.NoError(t, os.WriteFile(filepath.Join(dir, base), data, 0o666))
		}
	}
	return dir
}

// plain takes those added tokens out of a tokenizer.json that a GGUF file cannot have.
func plain(t *testing.T, data []byte) []byte {
	t.Helper()
	var f map[string]any
	require.NoError(t, json.Unmarshal(data, &f))
	f["added_tokens"] = slices.DeleteFunc(f["added_tokens"].([]any), func(a any) bool {
		m := a.(map[string]any)
		return m["lstrip"] == true || m["rstrip"] == true || m["single_word"] == true || m["normalized"] == true
	})
	out, err := json.Marshal(f)
	require.NoError(t, err)
	return out
}

// A tokenizer.json becomes the vocabulary of a GGUF file and a tokenizer.json again, and its ids stay the same.
func TestToGGUF(t *testing.T) {
	lines := readLines(t)[:300]
	files := fixtures(t, "tokenizers.zip")
	for name, pre := range map[string]string{
		"gpt2": "gpt-2", "neox": "olmo", "llama3": "llama-bpe", "qwen2": "qwen2", "qwen35": "qwen35", "o200k": "gpt-4o",
		"tekken": "tekken", "deepseek-llm": "deepseek-llm", "deepseek3": "deepseek-v3", "starcoder": "starcoder",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write := func(name string, data []byte) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o666))
			}
			write(FileName, plain(t, files[name+"/tokenizer.json"]))
			write("chat_template.jinja", []byte("{{ messages[0].content }}"))
			want, err := Open(dir)
			require.NoError(t, err)
			g, err := ToGGUF(dir, want.Size()+3)
			require.NoError(t, err)
			require.Equal(t, pre, g.Pre)
			require.Equal(t, want.Size()+3, len(g.Tokens))
			require.Equal(t, map[string]string{"default": "{{ messages[0].content }}"}, g.Templates)
			roundTrip(t, g, want, lines)
		})
	}
}

// A pattern has the same name in another spelling: with the characters of line breaks themselves, as DeepSeek publishes
// it, or with their numbers.
func TestToGGUFSpellings(t *testing.T) {
	data := string(plain(t, fixtures(t, "tokenizers.zip")["deepseek3/tokenizer.json"]))
	other := strings.ReplaceAll(data, `\\r\\n`, `\r\n`)
	require.NotEqual(t, data, other)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), []byte(other), 0o666))
	g, err := ToGGUF(dir, 1<<12)
	require.NoError(t, err)
	require.Equal(t, "deepseek-v3", g.Pre)
	for _, name := range strings.Split(strings.ReplaceAll(known, " or ", ", "), ", ") {
		w, _ := patterns(name)
		want, err := w.name(false)
		require.NoError(t, err)
		for _, spelling := range []string{"\r\n", `\x0D\x{A}`, `\u000D\u000a`, `\n\r`} {
			other := w
			other.cuts = nil
			for _, c := range w.cuts {
				other.cuts = append(other.cuts, strings.ReplaceAll(strings.ReplaceAll(c, `\r\n`, spelling), "\r\n", spelling))
			}
			got, err := other.name(false)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
	// The error for other patterns says where they differ.
	deepseek, _ := patterns("deepseek-v3")
	gpt2, _ := patterns("gpt-2")
	qwen, _ := patterns("qwen2")
	for _, c := range []struct {
		w    words
		want string
	}{
		{words{cuts: []string{deepseek.cuts[0], deepseek.cuts[1], strings.Replace(deepseek.cuts[2], `|\s+`, `|\S+`, 1)}}, `the nearest name is deepseek-v3: pattern 3 has, from byte 120, `},
		{words{cuts: deepseek.cuts[:2]}, `the nearest name is deepseek-v3: pattern 3 has, from byte 0, no pattern, and there "[!`},
		{words{cuts: append(slices.Clone(gpt2.cuts), "a")}, `the nearest name is gpt-2: pattern 2 has, from byte 0, "a", and there no pattern`},
		{words{cuts: qwen.cuts}, `the nearest name is qwen2: the patterns are the same, but there with the normalizer NFC`},
		{words{cuts: deepseek.cuts, compose: true}, `the nearest name is deepseek-v3: the patterns are the same, but there without the normalizer NFC`},
	} {
		_, err := c.w.name(false)
		require.ErrorContains(t, err, c.want)
	}
}

// roundTrip compares a tokenizer with that of a GGUF file's keys, and with that of the files made of them.
func roundTrip(t *testing.T, g GGUF, want *Tokenizer, lines []string) {
	t.Helper()
	keys := map[string]any{}
	for _, k := range g.Keys() {
		keys[k.Name] = k.Value
	}
	read, err := GGUFOf(func(key string) (any, bool) { v, ok := keys[key]; return v, ok })
	require.NoError(t, err)
	require.Equal(t, g.Keys(), read.Keys())
	got, err := FromGGUF(read)
	require.NoError(t, err)
	same(t, want, got, lines)

	out, err := read.Files()
	require.NoError(t, err)
	dir := t.TempDir()
	for name, data := range out {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o666))
	}
	again, err := Open(dir)
	require.NoError(t, err)
	same(t, want, again, lines)
	require.Equal(t, got.Special(), again.Special())
	for _, o := range []Options{{}, {Bare: true}, {Plain: true}} {
		a, err := want.Encode(lines[0], o)
		require.NoError(t, err)
		b, err := again.Encode(lines[0], o)
		require.NoError(t, err)
		require.Equal(t, a, b)
	}
	require.Equal(t, want.sources, again.sources)
	twice, err := ToGGUF(dir, len(g.Tokens))
	require.NoError(t, err)
	require.Equal(t, twice.Tokens, g.Tokens)
	require.Equal(t, twice.Types, g.Types)
	require.Equal(t, twice.Merges, g.Merges)
}

// A tokenizer.model of byte pairs becomes the vocabulary of a GGUF file, and a tokenizer.json.
func TestPiecesToGGUF(t *testing.T) {
	dir := folderOf(t, fixtures(t, "pieces.zip"), "bpe-llama")
	want, err := Open(dir)
	require.NoError(t, err)
	g, err := ToGGUF(dir, want.Size())
	require.NoError(t, err)
	require.Equal(t, "llama", g.Model)
	roundTrip(t, g, want, readLines(t)[:300])
}

// A tokenizer.model of kind Unigram becomes a vocabulary of kind t5, with its table of characters; no tokenizer.json is made of it.
func TestUnigramToGGUF(t *testing.T) {
	for _, name := range []string{"unigram", "unigram-user"} {
		dir := folderOf(t, fixtures(t, "pieces.zip"), name)
		want, err := Open(dir)
		require.NoError(t, err)
		g, err := ToGGUF(dir, want.Size()+3)
		require.NoError(t, err)
		require.Equal(t, "t5", g.Model)
		keys := map[string]any{}
		for _, k := range g.Keys() {
			keys[k.Name] = k.Value
		}
		read, err := GGUFOf(func(key string) (any, bool) { v, ok := keys[key]; return v, ok })
		require.NoError(t, err)
		got, err := FromGGUF(read)
		require.NoError(t, err)
		same(t, want, got, readLines(t))
		_, err = read.Files()
		require.ErrorContains(t, err, "a vocabulary of kind t5, for which gomoe writes no tokenizer.json")
	}
	g := GGUF{Model: "t5", Tokens: []string{"a"}, Scores: []float32{0}, BOS: -1, EOS: -1, Unknown: -1, Pad: -1, Charsmap: []byte{1}}
	_, err := FromGGUF(g)
	require.EqualError(t, err, "tokenizer: GGUF: tokenizer.ggml.precompiled_charsmap: fewer than 4 bytes")
}

// What a GGUF file cannot have is refused, with the reason.
func TestToGGUFRefuses(t *testing.T) {
	files := fixtures(t, "tokenizers.zip")
	maps.Copy(files, fixtures(t, "pieces.zip"))
	for name, want := range map[string]string{
		"accents":        `normalizer "NFKD": a GGUF file can say NFC or nothing`,
		"clip":           `a model with prefix "" and suffix "</w>" of parts of words`,
		"cl100k":         `added token "word" takes spaces around it, or only whole words`,
		"gemma":          `"Split": beside byte_fallback a GGUF file can only say that spaces are ▁`,
		"llama2":         `merges: "▁" and "▁▁▁" are not merged, though both together are a token`,
		"t5":             `a model of type "Unigram"; gomoe writes byte pairs (BPE)`,
		"unigram-bytes":  `the tokenizer.model of kind Unigram has bytes for unknown characters, or spaces behind words`,
		"unigram-suffix": `the tokenizer.model of kind Unigram has bytes for unknown characters, or spaces behind words`,
		"bpe":            `the tokenizer.model changes characters or spaces of a text`,
		"gpt2-prefix":    `pre_tokenizer "ByteLevel": want patterns that split, and ByteLevel without a space before the text`,
		"digits3":        `pre_tokenizer: llama.cpp has no name for its patterns, which a GGUF file needs; the nearest name is `,
	} {
		dir := folderOf(t, files, name)
		if data, ok := files[name+"/tokenizer.json"]; ok && name != "cl100k" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), plain(t, data), 0o666))
		}
		_, err := ToGGUF(dir, 1<<20)
		require.ErrorContains(t, err, want, name)
	}
	dir := t.TempDir()
	data, err := Bytes()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), data, 0o666))
	_, err = ToGGUF(dir, 255)
	require.ErrorContains(t, err, "the tokenizer has 256 tokens and the model 255")
}
