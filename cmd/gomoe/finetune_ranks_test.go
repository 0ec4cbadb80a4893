package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint/peft"
)

// Processes fine-tune together over every transport of one machine: with -exact to the bits of one rank, also where the run
// goes on on another mesh, and without nearly so. The first process speaks.
func TestFinetuneRanks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs shared memory")
	}
	model, dir := fewTokens(t), t.TempDir()
	text := filepath.Join(dir, "a.jsonl")
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat(`{"text": "! # ! # ! # !"}`+"\n"+`{"text": "# ! # !"}`+"\n", 20)), 0o644))
	tune := func(ranks int, out string, more ...string) string {
		args := append([]string{"finetune", model, "-data", text, "-held-out", text, "-steps", "4", "-batch", "8", "-length", "8", "-lr", "0.02", "-warmup", "1", "-rank", "2", "-out", out}, more...)
		if ranks > 1 {
			args = append([]string{"launch", "-n", strconv.Itoa(ranks), "--", os.Args[0]}, args...)
		}
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), asTool+"=1")
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", said)
		require.Equal(t, 1, strings.Count(string(said), "the adapter is in "+out), "%s", said)
		return string(said)
	}
	adapter := func(out string) string {
		b, err := os.ReadFile(filepath.Join(out, peft.FileName))
		require.NoError(t, err)
		return string(b)
	}
	after := func(said string) float64 {
		m := regexp.MustCompile(`held-out loss (\S+) after 4 steps`).FindStringSubmatch(said)
		require.NotNil(t, m, said)
		x, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		return x
	}
	one := filepath.Join(dir, "one")
	loss := after(tune(1, one, "-exact"))
	for _, transport := range []string{"tcp", "shm"} {
		out := filepath.Join(dir, transport)
		tune(4, out, "-exact", "-mesh", "dp=2,ep=2", "-transport", transport)
		require.True(t, adapter(one) == adapter(out), "over %s the adapter has other bits than on one rank", transport)
		require.InDelta(t, loss, after(tune(2, out+"-plain", "-mesh", "ep=2", "-transport", transport)), 1e-3)
	}
	out := filepath.Join(dir, "parts")
	tune(2, out, "-exact", "-mesh", "dp=2", "-save-every", "2")
	require.NoError(t, os.RemoveAll(filepath.Join(out, "checkpoints", "step-00000004")))
	require.NoError(t, os.Remove(filepath.Join(out, peft.FileName)))
	require.Contains(t, tune(3, out, "-exact", "-mesh", "ep=3", "-save-every", "2", "-resume"), "resumed after step 2")
	require.True(t, adapter(one) == adapter(out), "a run that went on on another mesh made another adapter")
}
