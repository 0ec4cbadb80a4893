//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
)

// A training whose checkpoint cannot be written leaves the model, or the adapter, where there is room for that: here files
// have a size that a checkpoint is above, having moments, and a model below. It says so, and ends with an error.
func TestUnwritten(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	text := at("a.jsonl")
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat(`{"text": "Tokens go to their experts, and come back."}`+"\n", 20)), 0o666))
	settings := `{"model": {"model_type": "olmoe", "hidden_size": 128, "num_hidden_layers": 1, "intermediate_size": 64, "num_experts": 4}, "data": {"files": ["` + text + `"]}, "steps": 2, "batch": 2, "length": 8, "eval_every": 0, "save_every": 2}`
	require.NoError(t, os.WriteFile(at("s.json"), []byte(settings), 0o666))
	model := at("model")
	require.Equal(t, 0, run(t.Context(), []string{"train", at("s.json"), "-steps", "1", "-out", model}, nil, io.Discard, io.Discard))
	tune := []string{"finetune", model, "-data", text, "-length", "8", "-batch", "2", "-steps", "2", "-save-every", "2"}
	self := os.Args[0]
	for name, c := range map[string]struct {
		args []string
		made string // beside the limit of a file's size
	}{
		"train":    {[]string{"train", at("s.json")}, safetensors.FileName},
		"ranks":    {[]string{"launch", "-n", "2", "--", self, "train", at("s.json"), "-mesh", "ep=2", "-transport", "tcp"}, safetensors.FileName},
		"finetune": {tune, peft.FileName},
		"all":      {append(tune[:len(tune):len(tune)], "-all"), filepath.Join("model", safetensors.FileName)},
	} {
		ends := func(out string) (int, string) {
			var said bytes.Buffer
			cmd := exec.Command(self, append(c.args[:len(c.args):len(c.args)], "-out", out)...)
			cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asTool+"=1"), &said, &said
			cmd.Run()
			return cmd.ProcessState.ExitCode(), said.String()
		}
		code, said := ends(at(name))
		require.Zero(t, code, "%s: %s", name, said)
		want, err := os.ReadFile(filepath.Join(at(name), c.made))
		require.NoError(t, err)

		var was syscall.Rlimit
		require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was))
		limit := was
		limit.Cur = uint64(len(want)) * 2
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
		code, said = ends(at("full"))
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was))

		got, err := os.ReadFile(filepath.Join(at("full"), c.made))
		if err != nil || !bytes.Equal(want, got) {
			t.Errorf("%s: %v: %d bytes, want the %d of a run that can write checkpoints", name, err, len(got), len(want))
		}
		if code != 1 || !strings.Contains(said, "2 of 2 steps are done: snapshot: step 2: ") || !strings.Contains(said, "file too large") || strings.Contains(said, "was ended by SIG") {
			t.Errorf("%s: exit %d:\n%s", name, code, said)
		}
		left, err := filepath.Glob(filepath.Join(at("full"), "checkpoints", "*"))
		require.NoError(t, err)
		require.Empty(t, left)
		if c.made != peft.FileName {
			opened, err := checkpoint.Open(filepath.Dir(filepath.Join(at("full"), c.made)))
			require.NoError(t, err)
			require.NoError(t, opened.Close())
		}
		require.NoError(t, os.RemoveAll(at("full")))
	}
}
