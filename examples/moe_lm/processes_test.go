package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/launch"
	"github.com/gomoe/gomoe/world"
)

// launched runs the command line in n processes and returns the exit status and
// what they printed. Each line that watch gets may end or kill something.
func launched(t *testing.T, n int, args []string, watch func(line string), env ...string) (status int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, errs := &watched{do: watch}, &watched{}
	status, err := launch.Run(ctx, launch.Options{
		Command: []string{os.Args[0]}, Ranks: n, Env: append(env, asCommand+"="+strings.Join(args, "\x1f"), "GOMAXPROCS=1"),
		Stdout: out, Stderr: errs,
	})
	require.NoError(t, err)
	require.NoError(t, ctx.Err(), "it did not end by itself:\n%s\n%s", out.b.String(), errs.b.String())
	return status, out.b.String(), errs.b.String()
}

// watched keeps what is written, and tells of every write, which is a line.
type watched struct {
	mu sync.Mutex
	b  bytes.Buffer
	do func(line string)
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.do != nil {
		w.do(string(p))
	}
	return w.b.Write(p)
}

var _ io.Writer = (*watched)(nil)

// numbers are the columns of metrics.csv that do not depend on time.
func numbers(t *testing.T, out string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(out, "metrics.csv"))
	require.NoError(t, err)
	rows := strings.Split(strings.TrimSpace(string(b)), "\n")
	header := strings.Split(rows[0], ",")
	var kept strings.Builder
	for _, row := range rows {
		for i, field := range strings.Split(row, ",") {
			if name := header[i]; !strings.Contains(name, "second") && !strings.Contains(name, "elapsed") {
				kept.WriteString(field + ",")
			}
		}
		kept.WriteString("\n")
	}
	return kept.String()
}

// Four processes learn what one does, to the last bit, on every transport, and only
// the first prints and writes.
func TestProcesses(t *testing.T) {
	more := []string{"-steps", "4", "-eval", "2", "-sample", "3", "-mesh", "dp=2,ep=2"}
	args, out := tiny(t, more...)
	_, err := execute(t, args...)
	require.NoError(t, err)
	want := numbers(t, out)
	text, err := os.ReadFile(filepath.Join(out, "sample.txt"))
	require.NoError(t, err)
	for _, transport := range []string{"tcp", "shm"} {
		args, out := tiny(t, append(more, "-transport", transport)...)
		status, stdout, stderr := launched(t, 4, args, nil)
		if status != 0 || stderr != "" {
			t.Errorf("%s: status %d, standard error:\n%s", transport, status, stderr)
		}
		for _, line := range strings.Split(strings.TrimSpace(stdout), "\n") {
			if !strings.HasPrefix(line, "[0] ") {
				t.Errorf("%s: a line of another rank: %s", transport, line)
			}
		}
		if line := fmt.Sprintf("[0] mesh: dp=2,ep=2, 4 ranks in 4 processes over %s, ", transport); !strings.Contains(stdout, line) {
			t.Errorf("%s: the output lacks %q:\n%s", transport, line, stdout)
		}
		if got := numbers(t, out); got != want {
			t.Errorf("%s: four processes learn\n%s\none learns\n%s", transport, got, want)
		}
		sample, err := os.ReadFile(filepath.Join(out, "sample.txt"))
		require.NoError(t, err)
		if !bytes.Equal(sample, text) {
			t.Errorf("%s: sample %q, want %q", transport, sample, text)
		}
	}
}

// -check compares one rank with four processes.
func TestProcessesCheck(t *testing.T) {
	args, _ := tiny(t, "-check", "-mesh", "dp=2,ep=2")
	status, stdout, stderr := launched(t, 4, args, nil)
	if status != 0 || strings.Count(stdout, "--check PASSED") != 1 {
		t.Errorf("status %d:\n%s\n%s", status, stdout, stderr)
	}
}

// A process that is killed ends all, soon, with a message that names its rank.
func TestProcessKilled(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("finds the process in /proc")
	}
	args, _ := tiny(t, "-steps", "1000000", "-mesh", "ep=4")
	var killed time.Time
	mark := "MOE_LM_TEST_MARK=" + t.TempDir()
	status, stdout, stderr := launched(t, 4, args, func(line string) {
		if killed.IsZero() && strings.Contains(line, "/1000000  loss ") {
			killed = time.Now()
			killRank(t, mark, 2)
		}
	}, mark)
	if status != 137 || !strings.Contains(stderr, "gomoe launch: FAILED: rank 2 was ended by SIGKILL after ") {
		t.Errorf("status %d, want 137 and rank 2 blamed:\n%s", status, stderr)
	}
	// The others know it of themselves.
	others := 0
	for _, line := range strings.Split(stderr, "\n") {
		if strings.Contains(line, "] moe_lm: ") && strings.Contains(line, "rank 2") {
			others++
		}
	}
	if others != 3 {
		t.Errorf("%d of 3 other ranks name rank 2:\n%s\n%s", others, stderr, stdout)
	}
	if took := time.Since(killed); killed.IsZero() || took > 10*time.Second {
		t.Errorf("the job ended %v after the process", took)
	}
}

// killRank kills the process of that rank whose environment has the mark.
func killRank(t *testing.T, mark string, rank int) {
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Error(err)
	}
	for _, path := range paths {
		b, _ := os.ReadFile(path)
		if bytes.Contains(b, []byte(mark)) && bytes.Contains(b, []byte(fmt.Sprintf("GOMOE_RANK=%d\x00", rank))) {
			var pid int
			fmt.Sscanf(path, "/proc/%d/", &pid)
			p, err := os.FindProcess(pid)
			if err == nil {
				err = p.Kill()
			}
			if err != nil {
				t.Error(err)
			}
			return
		}
	}
	t.Errorf("rank %d was not found", rank)
}

// Ctrl-C, which reaches the processes at different steps, ends all after one step,
// in order.
func TestProcessesInterrupt(t *testing.T) {
	if goruntime.GOOS == "windows" {
		t.Skip("a process cannot be sent an interrupt on Windows")
	}
	args, _ := tiny(t, "-steps", "1000000", "-mesh", "ep=2", "-sample", "2")
	signals := make(chan os.Signal, 1)
	sent := false
	out, errs := &watched{}, &watched{}
	out.do = func(line string) {
		if !sent && strings.Contains(line, "/1000000  loss ") {
			sent = true
			signals <- os.Interrupt
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	status, err := launch.Run(ctx, launch.Options{
		Command: []string{os.Args[0]}, Ranks: 2, Env: []string{asCommand + "=" + strings.Join(args, "\x1f"), "GOMAXPROCS=1"},
		Stdout: out, Stderr: errs, Signals: signals,
	})
	require.NoError(t, err)
	if status != 128+int(syscall.SIGINT) || strings.Contains(errs.b.String(), "flight") || !strings.Contains(errs.b.String(), "[0] moe_lm: interrupted after ") || !strings.Contains(out.b.String(), "[0] written: ") {
		t.Errorf("status %d:\n%s\n%s", status, &errs.b, &out.b)
	}
}

// A mesh that the job has not is an error that names both, on every rank.
func TestProcessesMesh(t *testing.T) {
	args, _ := tiny(t, "-mesh", "ep=4")
	status, _, stderr := launched(t, 2, args, nil)
	for rank := range 2 {
		if want := fmt.Sprintf(`[%d] moe_lm: gomoe: the mesh "ep=4" has 4 ranks, and GOMOE_RANK=%d GOMOE_SIZE=2`, rank, rank); !strings.Contains(stderr, want) {
			t.Errorf("standard error lacks %q:\n%s", want, stderr)
		}
	}
	if status != world.StatusMisfit {
		t.Errorf("status %d, want %d", status, world.StatusMisfit)
	}
}

// Ranks that were started with another flag, another text or other kernels are told so
// by all ranks, before anything is trained; without that they would train on silently.
func TestProcessesDiffer(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(other, []byte(strings.Repeat(sentence, 400)+"!"), 0o644))
	for _, c := range []struct{ mesh, also, want string }{
		{"dp=2", "-lr\x1f1e-3", `moe_lm: gomoe: -lr differs between ranks: rank 0 has "0.003", rank 1 has "0.001"; start all ranks with the same`},
		{"tp=2", "-lr\x1f1e-3", `moe_lm: gomoe: -lr differs between ranks: rank 0 has "0.003", rank 1 has "0.001"`},
		{"tp=2", "-seed\x1f7", `moe_lm: gomoe: -seed differs between ranks: rank 0 has "1", rank 1 has "7"`},
		{"tp=2", "-data\x1f" + other, `moe_lm: gomoe: text differs between ranks: rank 0 has "`},
		{"ep=2", "-data\x1f" + other, `moe_lm: gomoe: text differs between ranks: rank 0 has "`},
		{"dp=2", "-kernels\x1fportable", `runtime: rank 1 runs portable kernels and rank 0 kernels in assembly, whose results differ in their last bits; start all ranks with the same, which -kernels or GOMOE_KERNELS chooses`},
		{"dp=2", "-check", `moe_lm: gomoe: -check differs between ranks: rank 0 has "false", rank 1 has "true"`},
	} {
		if kind, _ := kernel.Selected(); kind == kernel.Portable && strings.Contains(c.want, "in assembly") {
			continue // rank 0 has the same kernels
		}
		args, out := tiny(t, "-mesh", c.mesh)
		status, stdout, stderr := launched(t, 2, args, nil, asCommand+"_ALSO_1="+c.also)
		if status != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("%s with %q on rank 1: status %d, want 1 and %q:\n%s\n%s", c.mesh, c.also, status, c.want, stderr, stdout)
		}
		if _, err := os.Stat(filepath.Join(out, "training.png")); err == nil {
			t.Errorf("%s with %q on rank 1: it has trained", c.mesh, c.also)
		}
	}
}
