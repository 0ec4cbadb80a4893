package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// vocab.json and merges.txt make the ids that their tokenizer.json makes in the same class, also in a GGUF file.
func TestVocabAndMerges(t *testing.T) {
	var f file
	for _, c := range folders(t) {
		if c.Name != "level-Qwen2Tokenizer-decoder" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(c.dir, FileName))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &f))
		merges := "#version: 0.2\n"
		for _, m := range f.Model.Merges {
			merges += m[0] + " " + m[1] + "\n"
		}
		require.NoError(t, os.Remove(filepath.Join(c.dir, FileName)))
		write := func(name, text string) {
			require.NoError(t, os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o666))
		}
		write(vocabName, string(f.Model.Vocab))
		_, err = Open(c.dir)
		require.ErrorContains(t, err, "merges.txt: no such file")
		write(mergesName, merges)
		tok, err := Open(c.dir)
		require.NoError(t, err)
		for _, x := range c.Cases {
			ids, err := tok.Encode(x.Text, Options{})
			require.NoError(t, err)
			require.Equal(t, x.IDs, ids, "%q", x.Text)
			require.Equal(t, x.Decoded, tok.Decode(ids))
		}
		g, err := ToGGUF(c.dir, tok.Size())
		require.NoError(t, err)
		require.Equal(t, "qwen2", g.Pre)
		write(configName, `{"tokenizer_class": "PreTrainedTokenizerFast"}`)
		_, err = Open(c.dir)
		require.ErrorContains(t, err, "tokenizer_class PreTrainedTokenizer, and no tokenizer.json that says how to cut words; want tokenizer.json, or one of the classes CodeGenTokenizer, ")
		return
	}
	t.Fatal("no folder")
}

// The error for a folder without a tokenizer lists the files that gomoe reads, and names a tokenizer's file of another kind.
func TestNoTokenizer(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(dir)
	require.EqualError(t, err, "tokenizer: "+dir+": a folder without a tokenizer, want tokenizer.json, tokenizer.model, or vocab.json and merges.txt")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tekken.json"), nil, 0o666))
	_, err = Open(dir)
	require.Error(t, err)
	require.True(t, strings.HasPrefix(err.Error(), "tokenizer: "+dir+": a folder with tekken.json, want tokenizer.json, tokenizer.model, or vocab.json and merges.txt: add "), err)
}
