package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/tokenizer"
)

// smallModel returns a folder with a model of 40 tokens, and a tokenizer of as many, which are bytes.
func smallModel(t *testing.T) string {
	t.Helper()
	dir := bytesModel(t)
	path := filepath.Join(dir, tokenizer.FileName)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var f map[string]any
	require.NoError(t, json.Unmarshal(b, &f))
	ids := f["model"].(map[string]any)["vocab"].(map[string]any)
	for text, id := range ids {
		if id.(float64) >= 40 {
			delete(ids, text)
		}
	}
	b, err = json.Marshal(f)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, b, 0o666))
	return dir
}

// A model writes the same text from every form of its files.
func TestConvert(t *testing.T) {
	gomoe := func(args ...string) (int, string, string) {
		var out, wrong bytes.Buffer
		code := run(context.Background(), args, strings.NewReader(""), &out, &wrong)
		return code, out.String(), wrong.String()
	}
	src, out := smallModel(t), t.TempDir()
	_, want, _ := gomoe("generate", src, "-prompt", "!\"#$", "-n", "20")
	require.Len(t, want, 21)
	file, folder, mlx, half := filepath.Join(out, "m.gguf"), filepath.Join(out, "m"), filepath.Join(out, "mlx"), filepath.Join(out, "half.gguf")
	for _, args := range [][]string{{src, file}, {file, folder}, {folder, mlx, "-mlx"}} {
		code, text, wrong := gomoe(append([]string{"convert"}, args...)...)
		require.Equal(t, 0, code, wrong)
		require.Empty(t, text)
		require.Contains(t, wrong, " KiB in ")
		_, text, wrong = gomoe("generate", args[1], "-prompt", "!\"#$", "-n", "20")
		require.Equal(t, want, text, wrong)
	}
	code, _, wrong := gomoe("quantize", mlx, half, "-type", "f16", "-quiet")
	require.Equal(t, 0, code)
	require.Empty(t, wrong)
	c, err := checkpoint.Open(half)
	require.NoError(t, err)
	defer c.Close()
	x, err := c.Tensor("blk.0.ffn_up_exps.weight")
	require.NoError(t, err)
	require.Equal(t, "F16", x.Stored)

	code, _, wrong = gomoe("convert", src, "")
	require.Equal(t, 2, code)
	require.Contains(t, wrong, "a path is empty, want the name of a file or a folder")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"convert " + src, 2, "1 paths"},
		{"convert " + src + " " + half, 1, "this is there already; remove it, or give another name"},
		{"convert " + src + " a.gguf -mlx", 2, "-mlx writes a folder, and a.gguf is the name of a GGUF file"},
		{"quantize " + src + " a.gguf", 2, "no -type, want one of f32, f16, bf16, q8_0, q6_k, q4_k, mxfp4"},
		{"quantize " + src + " a.gguf -type q9", 2, "want f32, f16, bf16, q8_0, q6_k, q4_k or mxfp4"},
		{"quantize " + src + " " + out + "/q -type q4_k", 1, "element type q4_k is for GGUF files, want f32, f16 or bf16"},
		{"convert none a.gguf", 1, "none: no such file"},
	} {
		code, _, wrong := gomoe(strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(wrong, c.want) {
			t.Errorf("%s: status %d, %s\nwant %d, %s", c.args, code, wrong, c.code, c.want)
		}
	}
}
