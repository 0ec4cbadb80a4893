package convert

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/tokenizer"
)

// A folder, the GGUF file made of it and the folder made of that end a text with the same tokens, whatever the names of other tokens are.
func TestEnds(t *testing.T) {
	for generation, want := range map[string]map[int32]bool{
		`{}`:                           {7: true},
		`{"eos_token_id": 7}`:          {7: true},
		`{"eos_token_id": 9}`:          {7: true, 9: true},
		`{"eos_token_id": [5, 9]}`:     {5: true, 7: true, 9: true},
		`{"eos_token_id": [7, 30, 9]}`: {7: true, 9: true, 30: true},
	} {
		src := made(t, "qwen3_moe", map[string]any{"mlp_only_layers": []int{}, "decoder_sparse_step": 1, "eos_token_id": nil}, nil)
		path := filepath.Join(src, tokenizer.FileName)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		var f map[string]any
		require.NoError(t, json.Unmarshal(data, &f))
		ids := f["model"].(map[string]any)["vocab"].(map[string]any)
		names := map[float64]string{5: "<|eom_id|>", 7: "<eos_id>", 9: "<|eot_id|>", 11: "<|im_end|>", 30: "<|user|>"}
		maps.DeleteFunc(ids, func(_ string, id any) bool { return names[id.(float64)] != "" })
		var added []any
		for id, text := range names {
			ids[text] = id
			added = append(added, map[string]any{"id": id, "content": text, "special": true})
		}
		f["added_tokens"] = added
		data, err = json.Marshal(f)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, data, 0o666))
		require.NoError(t, os.WriteFile(filepath.Join(src, "tokenizer_config.json"), []byte(`{"eos_token": "<eos_id>"}`), 0o666))
		require.NoError(t, os.WriteFile(filepath.Join(src, generationName), []byte(generation), 0o666))
		out := t.TempDir()
		for _, next := range []string{"", "a.gguf", "folder", "b.gguf", "c.gguf"} {
			if next != "" {
				next = filepath.Join(out, next)
				require.NoError(t, Model(context.Background(), next, src, Options{Layout: LayoutOf(next)}))
				src = next
			}
			c, _, _ := open(t, src)
			tok, err := generate.Tokenizer(c)
			require.NoError(t, err)
			ends, err := generate.Ends(c, tok)
			require.NoError(t, err)
			require.Equal(t, want, ends, "%s of %s", src, generation)
		}
	}
}
