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
	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
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

// A training refuses a folder with the model that it begins with, or with a model or an adapter of another training, even with
// -overwrite, and leaves it as it is. Its own earlier result it writes over only if told to.
func TestTrainingApart(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	text, model, settings := at("a.jsonl"), fewTokens(t), at("s.json")
	require.NoError(t, os.WriteFile(text, []byte(`{"text": "! # ! # ! # !"}`+"\n"+`{"text": "# ! # !"}`), 0o666))
	require.NoError(t, os.WriteFile(settings, []byte(`{"model": {"model_type": "olmoe", "hidden_size": 16, "num_hidden_layers": 1, "intermediate_size": 16, "num_experts": 4}, "data": {"files": ["`+text+`"]}, "steps": 1, "batch": 1, "length": 8, "eval_every": 0}`), 0o666))
	tune := []string{"finetune", model, "-data", text, "-steps", "1", "-batch", "2", "-length", "8"}
	all := append(tune[:len(tune):len(tune)], "-all")
	train := []string{"train", settings}
	own := map[string][]string{safetensors.FileName: train, peft.FileName: tune, "model": all}
	for _, has := range []string{safetensors.FileName, safetensors.IndexName, peft.FileName, peft.MLXName, "model"} {
		for made, args := range own {
			out := filepath.Join(t.TempDir(), "out")
			require.NoError(t, os.Mkdir(out, 0o777))
			require.NoError(t, os.WriteFile(filepath.Join(out, has), nil, 0o666))
			for _, overwrite := range []bool{false, true} {
				args, want := append(args[:len(args):len(args)], "-out", out), filepath.Join(out, has)+" is there, of a model or of another training, which this run would mix with its own results; give another folder, or remove it"
				if made == has {
					want = "an earlier run has left " + filepath.Join(out, has)
				}
				if overwrite && made == has {
					continue
				} else if overwrite {
					args = append(args, "-overwrite")
				}
				var said bytes.Buffer
				require.Equal(t, exitWrong, run(t.Context(), args, nil, &said, &said), said.String())
				require.Contains(t, said.String(), want)
				left, err := os.ReadDir(out)
				require.NoError(t, err)
				require.Len(t, left, 1, "%v", args)
			}
		}
	}
	for _, of := range []string{model, filepath.Join(model, safetensors.FileName)} {
		tune[1] = of
		var said bytes.Buffer
		require.Equal(t, exitWrong, run(t.Context(), append(tune, "-overwrite", "-out", model+"/."), nil, &said, &said))
		require.Contains(t, said.String(), "/. has the model "+of+", want another folder for what is made (-out)")
	}

	// The merged model may be in the run's folder, which is made for it, beside the run's own files.
	tune[1] = smallModel(t)
	for merge, want := range map[string]string{"m.gguf": "", "merged": "", ".": "is also", "model": "is also", "mlx": "is also", "checkpoints": "is also", peft.FileName: "is also", "none/m.gguf": "no such file"} {
		out := filepath.Join(t.TempDir(), "new")
		var said bytes.Buffer
		code := run(t.Context(), append(tune, "-out", out, "-merge", filepath.Join(out, merge)), nil, &said, &said)
		require.Equal(t, want == "", code == 0, "%s: %s", merge, said.String())
		require.Contains(t, said.String(), want)
		if _, err := os.Stat(filepath.Join(out, merge)); want == "" {
			require.NoError(t, err)
		}
	}
}
