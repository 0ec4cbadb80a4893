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
)

func TestEval(t *testing.T) {
	dir, out := bytesModel(t), t.TempDir()
	gomoe := func(stdin string, args ...string) (int, string, string) {
		var out, wrong bytes.Buffer
		code := run(context.Background(), append([]string{"eval"}, args...), strings.NewReader(stdin), &out, &wrong)
		return code, out.String(), wrong.String()
	}
	const text = "!\"#$%&'#$#$!!!\"\"#"
	file := filepath.Join(out, "text")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
	code, want, wrong := gomoe("", dir, "-text", file, "-window", "8")
	require.Equal(t, 0, code, wrong)
	require.Contains(t, want, "tokens      17 in 2 windows of 8, 14 of them predicted\nloss        ")
	require.Contains(t, want, "model.layers.1.block_sparse_moe: the experts have ")
	upTo := func(s string) string { return s[:strings.Index(s, "speed")] }
	picture := filepath.Join(out, "load.png")
	code, again, wrong := gomoe(text, dir, "-text", "-", "-window", "8", "-mesh", "ep=3", "-picture", picture)
	require.Equal(t, 0, code, wrong)
	require.Equal(t, upTo(want), upTo(again))
	b, err := os.ReadFile(picture)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(b, []byte("\x89PNG")))
	code, again, wrong = gomoe(text, dir, "-text", "-", "-picture", filepath.Join(out, "none", "load.png"))
	require.Equal(t, 1, code)
	require.Contains(t, wrong, "gomoe eval: -picture: create "+filepath.Join(out, "none", "load.png"))

	code, again, wrong = gomoe(text, dir, "-text", "-", "-window", "8", "-json")
	require.Equal(t, 0, code, wrong)
	var r evaluated
	require.NoError(t, json.Unmarshal([]byte(again), &r))
	require.Equal(t, 14, r.Predicted)
	require.Len(t, r.Load, 2)
	require.Greater(t, r.Perplexity, 1.0)

	for _, c := range []struct {
		args, want string
		code       int
	}{
		{dir, "no -text, want the file with the text", 2},
		{dir + " -text " + file + " -window 1", "-window 1: want at least 2 tokens", 2},
		{dir + " -text " + file + " -window 1000", "windows of 1000 tokens, want 2 to 96", 1},
		{dir + " -text " + file + " -mesh pe=2", "-mesh pe=2: axis pe, want ep, which splits the experts", 2},
		{dir + " -text none", "-text: open none: no such file", 1},
		{dir + " -text -", "a text of 0 tokens, want at least 2", 1},
		{"none -text " + file, "none: no such file", 1},
	} {
		code, _, wrong := gomoe("", strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(wrong, c.want) {
			t.Errorf("%s: status %d, %s\nwant %d, %s", c.args, code, wrong, c.code, c.want)
		}
	}
}
