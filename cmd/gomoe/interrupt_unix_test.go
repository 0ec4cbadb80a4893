//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
)

// A command that a signal ends before it has done what it was asked for says what there is of its work, and ends by that
// signal. A training leaves its model or adapter. A server that is told to end has done it.
func TestSignals(t *testing.T) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // commands of a process that ignores it, as under nohup, would ignore it, too
	defer signal.Stop(hangups)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) string {
		require.NoError(t, os.WriteFile(at(name), []byte(text), 0o666))
		return at(name)
	}
	text := write("a.jsonl", strings.Repeat(`{"text": "Tokens go to their experts, and come back."}`+"\n", 20))
	settings := `{"model": {"model_type": "olmoe", "hidden_size": 16, "num_hidden_layers": 1, "intermediate_size": 16, "num_experts": 4}, "data": {"files": ["` + text + `"]}, "steps": 1000000, "batch": 2, "length": 8`
	plain, saves, model := write("s.json", settings+"}"), write("saves.json", settings+`, "save_every": 1000000}`), at("model")
	require.Equal(t, 0, run(t.Context(), []string{"train", plain, "-steps", "1", "-out", model}, nil, io.Discard, io.Discard))
	self := os.Args[0]
	const lost, saved = " of 1000000 steps, of which there is no checkpoint", " of 1000000 steps; give -resume to go on from there"
	for name, c := range map[string]struct {
		args     []string
		at, says string // the output at which the signal is sent, and what is there in the end
		done     bool
		made     string // a file in the folder named after the case
	}{
		"train":    {[]string{"train", plain, "-out", at("train")}, "/1000000  loss", "gomoe train: interrupted after ", false, safetensors.FileName},
		"lost":     {[]string{"train", plain, "-out", at("lost")}, "/1000000  loss", lost, false, safetensors.FileName},
		"saves":    {[]string{"train", saves, "-out", at("saves")}, "/1000000  loss", saved, false, safetensors.FileName},
		"ranks":    {[]string{"launch", "-n", "2", "--", self, "train", plain, "-mesh", "ep=2", "-out", at("ranks")}, "/1000000  loss", " was ended by SIG", false, safetensors.FileName},
		"finetune": {[]string{"finetune", model, "-data", text, "-length", "8", "-batch", "2", "-steps", "1000000", "-out", at("finetune")}, "/1000000  loss", lost, false, peft.FileName},
		"tuning":   {[]string{"finetune", model, "-data", text, "-length", "8", "-batch", "2", "-steps", "1000000", "-out", at("tuning"), "-save-every", "1000000"}, "/1000000  loss", saved, false, peft.FileName},
		"all":      {[]string{"finetune", model, "-data", text, "-length", "8", "-batch", "2", "-steps", "1000000", "-out", at("all"), "-all"}, "/1000000  loss", lost, false, filepath.Join("model", safetensors.FileName)},
		"tuners":   {[]string{"launch", "-n", "2", "--", self, "finetune", model, "-data", text, "-length", "8", "-batch", "2", "-steps", "1000000", "-out", at("tuners"), "-mesh", "ep=2"}, "/1000000  loss", " was ended by SIG", false, peft.FileName},
		"generate": {[]string{"generate", model, "-prompt", "!", "-slide", "-n", "100000000", "-stats"}, "room for", "gomoe generate: interrupted\n", false, ""},
		"serve":    {[]string{"serve", model, "-listen", "127.0.0.1:0"}, "serving", "", true, ""},
		"servers":  {[]string{"launch", "-n", "2", "--", self, "serve", model, "-mesh", "ep=2", "-listen", "127.0.0.1:0"}, "serving", "", true, ""},
	} {
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
			cmd := exec.Command(self, c.args...)
			said, sent := "", false
			eachLine(t, cmd, func(line string) {
				if said += line + "\n"; !sent && strings.Contains(line, c.at) {
					sent = true
					require.NoError(t, cmd.Process.Signal(s))
				}
			})
			ended := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if ok := ended.Signaled() && ended.Signal() == s; ok == c.done || c.done && ended.ExitStatus() != 0 || !strings.Contains(said, c.says) {
				t.Errorf("%s: %v: %v; want an end by the signal %v, and %q:\n%s", name, s, cmd.ProcessState, !c.done, c.says, said)
			}
			if c.made != "" {
				require.FileExists(t, filepath.Join(at(name), c.made), "%s: %v:\n%s", name, s, said)
			}
			require.NoError(t, os.RemoveAll(at(name)))
		}
	}
}

// A signal to one rank that is not the first ends the job as one to all does, and the output names the rank, which may still compile.
func TestSignalToOne(t *testing.T) {
	model := smallModel(t)
	for name, c := range map[string]struct {
		args     []string
		at, says string
		done     bool
	}{
		"generate": {[]string{"generate", model, "-prompt", "!", "-slide", "-n", "100000000", "-stats", "-mesh", "ep=2"}, "room for", `gomoe generate: .*rank 1 (failed: it )?was asked to end`, false},
		"serve":    {[]string{"serve", model, "-listen", "127.0.0.1:0", "-mesh", "ep=2"}, "serving", "gomoe serve: rank 1 was asked to end", true},
	} {
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			cmd := exec.Command(os.Args[0], append([]string{"launch", "-n", "2", "--", "sh", "-c", `echo pid $$ >&2; exec "$@"`, "sh", os.Args[0]}, c.args...)...)
			said, pid, sent := "", 0, false
			eachLine(t, cmd, func(line string) {
				fmt.Sscanf(line, "[1] pid %d", &pid)
				if !strings.HasPrefix(line, "[0] ") || len(said) < 1<<14 { // of the text there is any number of lines
					said += line + "\n"
				}
				if !sent && strings.Contains(line, c.at) {
					sent = true
					require.NoError(t, syscall.Kill(pid, s))
				}
			})
			status, ended := 0, ""
			if !c.done {
				status, ended = 128+int(s), "rank 1 was ended by SIG"
			}
			if cmd.ProcessState.ExitCode() != status || !regexp.MustCompile(c.says).MatchString(said) || !strings.Contains(said, ended) {
				t.Errorf("%s: %v: %v; want status %d, %q and %q:\n%s", name, s, cmd.ProcessState, status, c.says, ended, said)
			}
		}
	}
}

// A rank that is told to end while it compiles leaves at once, and the others, which no launcher ends, say which rank it was.
func TestSignalWhileCompiling(t *testing.T) {
	dir := t.TempDir()
	text, settings := filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "s.json")
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat(`{"text": "Tokens go to their experts."}`+"\n", 20)), 0o666))
	require.NoError(t, os.WriteFile(settings, []byte(`{"model": {"model_type": "olmoe", "hidden_size": 16, "num_hidden_layers": 60, "intermediate_size": 16, "num_experts": 4}, "data": {"files": ["`+text+`"]}, "steps": 1000000, "batch": 2, "length": 8}`), 0o666))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	rank := func(i int) *exec.Cmd {
		cmd := exec.Command("env", fmt.Sprintf("RANK=%d", i), fmt.Sprintf("LOCAL_RANK=%d", i), "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port,
			os.Args[0], "train", settings, "-mesh", "ep=2", "-out", filepath.Join(dir, "out"))
		cmd.Env = append(os.Environ(), asTool+"=1")
		return cmd
	}
	var others strings.Builder
	other := rank(1)
	other.Stdout, other.Stderr = &others, &others
	require.NoError(t, other.Start())
	told, said := rank(0), ""
	eachLine(t, told, func(line string) {
		if said += line + "\n"; strings.HasPrefix(line, "mesh: ") { // it compiles next
			require.NoError(t, told.Process.Signal(syscall.SIGTERM))
		}
	})
	require.Error(t, other.Wait())
	require.Equal(t, syscall.SIGTERM, told.ProcessState.Sys().(syscall.WaitStatus).Signal(), said)
	require.Contains(t, said, "gomoe train: interrupted\n")
	require.Contains(t, others.String(), "rank 0 failed: it was asked to end: terminated")
}

// eachLine runs a command of gomoe to its end, and calls f with each line of what it writes.
func eachLine(t *testing.T, cmd *exec.Cmd, f func(line string)) {
	t.Helper()
	cmd.Env = append(os.Environ(), asTool+"=1")
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	for lines := bufio.NewScanner(r); lines.Scan(); {
		f(lines.Text())
	}
	cmd.Wait()
}
