package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// No command writes over a file that it reads, however its name is spelled.
func TestKeepsInputs(t *testing.T) {
	model, dir := bytesModel(t), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	program := "program p(x f32[2]) {\n\ty f32[2] = neg(x)\n\treturn y, x\n}\n"
	require.NoError(t, os.WriteFile(at("p.graph"), []byte(program), 0o666))
	require.NoError(t, os.WriteFile(at("text"), []byte("!\"#$%&'#$#$!!!\"\"#"), 0o666))
	require.NoError(t, array.WriteFile(at("x.npy"), array.New(graph.T(graph.F32, 2))))
	require.NoError(t, os.WriteFile(at("lines.jsonl"), []byte(`{"text": "!!"}`), 0o666))
	require.NoError(t, os.Link(at("text"), at("hard")))
	require.NoError(t, os.Symlink(dir, at("folder")))
	require.NoError(t, os.Symlink(filepath.Join(dir, "lines.jsonl"), at("train.tokens")))
	require.NoError(t, os.WriteFile(at("config.json"), []byte(`{"data": {"files": ["text"]}, "steps": 1}`), 0o666))
	t.Chdir(dir)
	files := func() map[string]string {
		all := map[string]string{}
		for _, folder := range []string{dir, model} {
			entries, err := os.ReadDir(folder)
			require.NoError(t, err)
			for _, e := range entries {
				if text, err := os.ReadFile(filepath.Join(folder, e.Name())); err == nil {
					all[e.Name()] = string(text)
				}
			}
		}
		return all
	}
	before := files()
	for _, c := range []struct{ args, output, input string }{
		{"run p.graph -in x=x.npy -trace p.graph", "-trace: p.graph", "p.graph"},
		{"run p.graph -in x=x.npy -trace ./x.npy", "-trace: ./x.npy", "x.npy"},
		{"run p.graph -in x=x.npy -out folder", "-out: result x: folder/x.npy", "x.npy"},
		{"run p.graph -random 1 -out folder -trace y.npy", "-out: result y: folder/y.npy", "y.npy"},
		{"eval " + model + " -text text -picture text", "-picture: text", "text"},
		{"eval " + model + " -text text -picture hard", "-picture: hard", "text"},
		{"eval " + model + " -text text -picture " + model + "/config.json", "-picture: " + model + "/config.json", model + "/config.json"},
		{"trace merge -out folder/text text", "-out: folder/text", "text"},
		{"bench kernels -json rows -plot ./rows", "-plot: ./rows", "rows"},
		{"finetune " + model + " -data lines.jsonl -out .", "train.tokens", "lines.jsonl"},
		{"train config.json -out folder", "folder/config.json", "config.json"},
	} {
		var out, wrong bytes.Buffer
		require.NotZero(t, run(context.Background(), strings.Fields(c.args), strings.NewReader(""), &out, &wrong), c.args)
		require.Contains(t, wrong.String(), c.output+" is also "+c.input+", which would be lost; want another name for the output", c.args)
		after := files()
		for name, text := range before {
			require.Equal(t, text, after[name], "%s: %s", c.args, name)
		}
	}
}
