package tokenizer

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// folder is a folder of testdata/make_folders.py, and what transformers makes of texts with it.
type folder struct {
	Name, Base string
	Files      map[string]json.RawMessage
	Special    map[string]int32
	Cases      []struct {
		Text, Decoded string
		IDs           []int32
	}
	dir string
}

// folders returns the folders, which are written to temporary ones.
func folders(t *testing.T) []folder {
	f, err := os.Open("testdata/folders.json.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var all struct {
		Bases   map[string][]byte
		Folders []folder
	}
	require.NoError(t, json.NewDecoder(z).Decode(&all))
	require.Len(t, all.Folders, 134)
	for i, c := range all.Folders {
		all.Folders[i].dir = t.TempDir()
		name := "tokenizer.model"
		if all.Bases[c.Base][0] == '{' {
			name = FileName
		}
		require.NoError(t, os.WriteFile(filepath.Join(all.Folders[i].dir, name), all.Bases[c.Base], 0o666))
		for name, data := range c.Files {
			require.NoError(t, os.WriteFile(filepath.Join(all.Folders[i].dir, name), data, 0o666))
		}
	}
	return all.Folders
}

// Folders whose files add tokens have the ids and texts of AutoTokenizer of transformers.
func TestFolders(t *testing.T) {
	for _, c := range folders(t) {
		t.Run(c.Name, func(t *testing.T) {
			tok, err := Open(c.dir)
			require.NoError(t, err)
			for _, x := range c.Cases {
				ids, err := tok.Encode(x.Text, Options{})
				require.NoError(t, err)
				require.Equal(t, x.IDs, ids, "%q", x.Text)
				require.Equal(t, x.Decoded, tok.Decode(ids), "%q", x.Text)
				streamed(t, tok, ids)
			}
			s := tok.Special()
			require.Equal(t, c.Special, map[string]int32{"BOS": s.BOS, "EOS": s.EOS, "Pad": s.Pad})
		})
	}
}

// A GGUF file has the tokens that were added, as far as the model has rows for them.
func TestFoldersToGGUF(t *testing.T) {
	made := 0
	for _, c := range folders(t) {
		want, err := Open(c.dir)
		require.NoError(t, err)
		for _, beyond := range []int{0, 1} {
			g, err := ToGGUF(c.dir, want.Size()-beyond)
			if beyond == 1 && c.Name != "level-pad" && c.Name != "bpe-pad" {
				continue
			}
			if !slices.Contains([]string{"level-pad", "level-additional", "level-map", "bpe-pad", "bpe-mixtral-LlamaTokenizer-None", "bpe-spaces-llama-LlamaTokenizer-None"}, c.Name) && err != nil {
				continue // such as a token that takes the space around it, which the format cannot say
			}
			require.NoError(t, err, c.Name)
			made++
			g.Ends = []int32{} // no token is an end, and special, by its name
			got, err := FromGGUF(g)
			require.NoError(t, err)
			require.Equal(t, want.Size()-beyond, got.Size())
			want.spacesOfGGUF()
			for _, x := range c.Cases {
				if beyond == 1 && strings.Contains(x.Text, "<pad>") {
					continue
				}
				ids, err := got.Encode(x.Text, Options{})
				require.NoError(t, err)
				if strings.ContainsAny(x.Text, "<[▁") || strings.HasPrefix(x.Text, " ") {
					x.IDs, err = want.Encode(x.Text, Options{})
					require.NoError(t, err)
					x.Decoded = want.Decode(x.IDs)
				}
				require.Equal(t, x.IDs, ids, "%s: %q", c.Name, x.Text)
				require.Equal(t, x.Decoded, got.Decode(ids), "%s: %q", c.Name, x.Text)
			}
		}
	}
	require.Equal(t, 72, made)
}

// model_specific_special_tokens are tokens, unless transformers replaces them by those of extra_special_tokens or by own keys.
func TestSpecificTokens(t *testing.T) {
	data, err := Bytes()
	require.NoError(t, err)
	for more, want := range map[string]int{"": 1, `, "own_token": "a"`: 7, `, "extra_special_tokens": {"own_token": "a"}`: 7, `, "extra_special_tokens": ["a"]`: 1} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), data, 0o666))
		require.NoError(t, os.WriteFile(filepath.Join(dir, configName), []byte(`{"model_specific_special_tokens": {"image_token": "<image>"}`+more+`}`), 0o666))
		tok, err := Open(dir)
		require.NoError(t, err)
		ids, err := tok.Encode("<image>", Options{})
		require.NoError(t, err)
		require.Len(t, ids, want, more)
	}
}
