package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/internal/launch"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/train/snapshot"
)

// every has TestExact and TestZero train on all meshes in all ways, as make programs does, and not in a third
// to a half of them.
var every = flag.Bool("every", false, "train in all ways, not a sample")

var kills = flag.Int("kills", 4, "how often TestKilled kills runs of one process, of two, and of two that share no folder")

// trained returns what a run has learned: its model, and the columns of its metrics that do not depend on time.
func trained(t *testing.T, out string) (model []byte, metrics string) {
	t.Helper()
	model, err := os.ReadFile(filepath.Join(out, "model.safetensors"))
	require.NoError(t, err)
	return model, numbers(t, out)
}

// sameRun compares what two runs have learned, to the bit.
func sameRun(t *testing.T, what, got, want string) {
	t.Helper()
	model, metrics := trained(t, got)
	wantModel, wantMetrics := trained(t, want)
	if !bytes.Equal(model, wantModel) {
		t.Errorf("%s: the model differs from that of a run without a pause", what)
	}
	if metrics != wantMetrics {
		t.Errorf("%s: metrics\n%s\nwant those of a run without a pause\n%s", what, metrics, wantMetrics)
	}
}

// opensAs compares a checkpoint, opened as a model, with a model: all tensors, and no others.
func opensAs(t *testing.T, saved, model string) {
	t.Helper()
	c, err := checkpoint.Open(saved)
	require.NoError(t, err)
	defer c.Close()
	want, err := checkpoint.Open(model)
	require.NoError(t, err)
	defer want.Close()
	require.Equal(t, want.Config.Keys(), c.Config.Keys())
	require.Len(t, c.Tensors, len(want.Tensors))
	for _, w := range want.Tensors {
		x, err := c.Tensor(w.Name)
		require.NoError(t, err)
		require.Equal(t, w.Type, x.Type)
		require.Equal(t, w.Mem, x.Mem, w.Name)
	}
}

func savedSteps(t *testing.T, out string) []int {
	t.Helper()
	steps, err := snapshot.Folder{Path: filepath.Join(out, "checkpoints")}.Steps()
	require.NoError(t, err)
	return steps
}

// A run that is interrupted saves, and one that goes on from there ends with the bits and the rows of a run
// without a pause. Steps behind the checkpoint are done again.
func TestResume(t *testing.T) {
	args, whole := tiny(t, "-steps", "9", "-save-every", "4", "-eval", "3", "-mesh", "ep=2")
	_, err := execute(t, args...)
	require.NoError(t, err)
	require.Equal(t, []int{8, 9}, savedSteps(t, whole))
	opensAs(t, filepath.Join(whole, "checkpoints", "step-00000009"), whole)
	paused := filepath.Join(t.TempDir(), "paused")
	args = append(args, "-out", paused)

	stop, cancel := context.WithCancel(context.Background())
	defer cancel()
	stdout := &stopper{at: "step 3/9", stop: cancel}
	require.EqualError(t, program().Run(context.Background(), stop, args, stdout), "interrupted after 3 of 9 steps; give -resume to go on from there")
	require.Equal(t, []int{3}, savedSteps(t, paused))
	_, err = execute(t, args...)
	require.ErrorContains(t, err, "an earlier run has left a checkpoint of step 3; give -resume to go on from it, or another folder, or remove "+paused)

	ctx, abort := context.WithCancel(context.Background())
	defer abort()
	stdout = &stopper{at: "step 6/9", stop: abort} // at once, two steps behind a checkpoint
	require.Error(t, program().Run(ctx, context.Background(), append(args, "-resume"), stdout))
	if !strings.Contains(stdout.String(), "resumed after step 3, from "+filepath.Join(paused, "checkpoints", "step-00000003")+"\n") {
		t.Errorf("the output does not say where the run begins:\n%s", stdout)
	}
	if steps := savedSteps(t, paused); steps[0] != 3 { // that of step 4 may have been abandoned while it was written
		t.Errorf("checkpoints of steps %v, want those that were complete", steps)
	}
	for range 2 { // the second one has nothing to train
		got, err := execute(t, append(args, "-resume")...)
		require.NoError(t, err)
		if !strings.Contains(got, "9 steps, 1152 tokens in ") {
			t.Errorf("the summary is not of all steps:\n%s", got)
		}
		sameRun(t, "resumed twice", paused, whole)
		if smoothed := fmt.Sprintf("step 9/9  loss %.4f (%.4f)", readMetrics(t, paused)[8]["loss"], readMetrics(t, paused)[8]["smoothed"]); strings.Contains(got, "step 9/9") && !strings.Contains(got, smoothed) {
			t.Errorf("the moving mean is not that of all steps, %s:\n%s", smoothed, got)
		}
		require.NoError(t, os.Remove(filepath.Join(paused, "model.safetensors")))
	}
}

// A checkpoint opens on any mesh: a run with nothing left to train leaves the model with the same bits.
func TestResumeElsewhere(t *testing.T) {
	args, out := tiny(t, "-steps", "2", "-save-every", "2", "-mesh", "dp=2,ep=2", "-zero", "moments")
	_, err := execute(t, args...)
	require.NoError(t, err)
	want, _ := trained(t, out)
	for _, mesh := range []string{"", "ep=8", "tp=2", "dp=4", "ep=0-2/3-7"} {
		got, err := execute(t, append(args, "-resume", "-mesh", mesh, "-zero", "off")...)
		require.NoError(t, err)
		if mesh != "" && !strings.Contains(got, "with -mesh "+mesh+" instead of dp=2,ep=2, -zero off instead of moments\n") {
			t.Errorf("%q: the output does not say what has changed:\n%s", mesh, got)
		}
		if model, _ := trained(t, out); !bytes.Equal(model, want) {
			t.Errorf("the model is another on the mesh %q", mesh)
		}
	}
	for flags, want := range map[string]string{
		"-experts 4": "-experts 4: the checkpoint ",
		"-heads 1":   "is of a run with 2; give that, or another folder",
		"-top-k 1":   "-top-k 1: the checkpoint ",
	} {
		_, err := execute(t, append(append(args, "-resume"), strings.Fields(flags)...)...)
		require.ErrorContains(t, err, want)
	}
	got, err := execute(t, append(args, "-resume", "-lr", "0.1", "-steps", "3")...)
	require.NoError(t, err)
	if !strings.Contains(got, "with -lr 0.1 instead of 0.003, -steps 3 instead of 2\n") || !strings.Contains(got, "written: ") {
		t.Errorf("the output does not say what has changed:\n%s", got)
	}
	got, err = execute(t, append(args, "-resume", "-out", t.TempDir())...)
	require.NoError(t, err)
	if !strings.Contains(got, "no checkpoint in ") {
		t.Errorf("the output does not say that there is no checkpoint:\n%s", got)
	}
}

// A run that is killed at any moment, and started again until it ends by itself, ends with the bits and the rows
// of a run without a pause, in one process and in two.
func TestKilled(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("finds the processes in /proc")
	}
	args, whole := tiny(t, "-steps", "12", "-save-every", "2", "-mesh", "ep=2", "-eval", "5")
	began := time.Now()
	alone := command(args)
	require.NoError(t, alone.Run())
	took := time.Since(began)
	args = append(args, "-resume")
	moment := func(most time.Duration) time.Duration { return time.Duration(rand.Int64N(int64(most))) }

	// Each of these runs the command line once, and kills it after some time. It reports whether the run has ended
	// by itself.
	one := func(args []string, after time.Duration) bool {
		cmd := command(args)
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		require.NoError(t, cmd.Start())
		kill := time.AfterFunc(after, func() { cmd.Process.Kill() })
		err := cmd.Wait()
		kill.Stop()
		if err != nil && cmd.ProcessState.ExitCode() != -1 {
			t.Errorf("%v: %s", err, &stderr)
		}
		return err == nil
	}
	two := func(args []string, after time.Duration, also ...string) bool {
		mark := "MOE_LM_TEST_MARK=" + t.TempDir()
		out, errs := &watched{}, &watched{}
		rank, killed := strconv.Itoa(rand.IntN(2)), make(chan bool, 1)
		kill := time.AfterFunc(after, func() { killed <- killMarked(mark, rank) })
		status, err := launch.Run(t.Context(), launch.Options{
			Command: []string{os.Args[0]}, Ranks: 2, Env: append(also, asCommand+"="+strings.Join(args, "\x1f"), "GOMAXPROCS=1", mark),
			Stdout: out, Stderr: errs,
		})
		require.NoError(t, err)
		if kill.Stop() || !<-killed {
			if status != 0 {
				t.Errorf("status %d:\n%s\n%s", status, &errs.b, &out.b)
			}
		}
		return status == 0
	}
	apart := func(args []string, after time.Duration) bool {
		out := args[len(args)-1]
		return two(args, after, asCommand+"_ALSO_1=-out\x1f"+out+"-other")
	}
	for name, run := range map[string]func([]string, time.Duration) bool{
		"one process": one, "two processes": func(args []string, after time.Duration) bool { return two(args, after) }, "two processes in two folders": apart,
	} {
		most := took * 3 / 2
		for n := 0; n < *kills; {
			out := filepath.Join(t.TempDir(), "out")
			args := append(args, "-out", out)
			for trial := 0; trial < 3 && n < *kills; trial++ {
				if run(args, moment(most)) {
					break
				}
				n++
			}
			if !run(args, time.Hour) {
				t.Fatalf("%s: the last run did not end by itself", name)
			}
			sameRun(t, name, out, whole)
			if steps := savedSteps(t, out); len(steps) == 0 || steps[len(steps)-1] != 12 {
				t.Errorf("%s: checkpoints of steps %v, want one of step 12", name, steps)
			}
			if t.Failed() {
				return
			}
		}
	}
}

// Processes that do not see the same folder keep what their ranks hold, each in its own, and go on from there with the bits of
// a run without a pause. On another mesh they are told which parts lie on which host.
func TestSavesApart(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("finds the processes in /proc")
	}
	args, whole := tiny(t, "-steps", "12", "-save-every", "2", "-mesh", "ep=2", "-eval", "1")
	_, err := execute(t, args...)
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	out, other := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "other")
	also := asCommand + "_ALSO_1=-out\x1f" + other
	args = append(args, "-out", out, "-resume")
	mark := "MOE_LM_TEST_MARK=" + t.TempDir()
	killed := false
	_, stdout, _ := launched(t, 2, args, func(line string) {
		if !killed && strings.Contains(line, "step  5/12") {
			killed = killMarked(mark, "1")
		}
	}, also, mark)
	if want := "checkpoints: hosts do not share " + filepath.Join(out, "checkpoints") + ", so each keeps what its ranks hold\n"; !killed || !strings.Contains(stdout, want) {
		t.Errorf("killed %v, want %q:\n%s", killed, want, stdout)
	}
	require.Equal(t, savedSteps(t, out), savedSteps(t, other))
	status, stdout, stderr := launched(t, 2, args, nil, also)
	if status != 0 || !strings.Contains(stdout, "resumed after step ") {
		t.Errorf("status %d:\n%s\n%s", status, stderr, stdout)
	}
	sameRun(t, "in two folders", out, whole)

	half := filepath.Join(out, "checkpoints", "step-00000012")
	_, err = checkpoint.Open(half) // as a model
	require.ErrorContains(t, err, "parts lie elsewhere: part-00002-of-00002.safetensors on "+host)
	require.Equal(t, 1, strings.Count(err.Error(), half), "the folder is named once: %v", err)

	status, stdout, stderr = launched(t, 2, append(args, "-mesh", "tp=2"), nil, also)
	if want := "parts lie elsewhere: part-00002-of-00002.safetensors on " + host + "; start the ranks on the hosts that have their parts"; status != 1 || !strings.Contains(stderr, want) {
		t.Errorf("status %d, want 1 and %q:\n%s\n%s", status, want, stderr, stdout)
	}
}

// Without a host that is killed, a job goes on on the others, with another mesh, and with -exact it ends with the bits of a run
// without a pause.
func TestFewerHosts(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("finds the processes in /proc")
	}
	args, whole := tiny(t, "-steps", "30", "-save-every", "2", "-batch", "8", "-mesh", "ep=4", "-eval", "5", "-exact")
	_, err := execute(t, args...)
	require.NoError(t, err)
	out, down := filepath.Join(t.TempDir(), "out"), t.TempDir()
	mark := "MOE_LM_TEST_MARK=" + t.TempDir()
	// As ssh does, unless the host is down.
	reach := filepath.Join(t.TempDir(), "ssh")
	require.NoError(t, os.WriteFile(reach, []byte("#!/bin/sh\n[ -e "+down+"/$1 ] && exit 255\nexec /bin/sh -c \"$2\"\n"), 0o755))
	var hosts []hostfile.Host
	for _, name := range []string{"a", "b", "c", "d"} {
		hosts = append(hosts, hostfile.Host{SSH: name, IPs: []string{"127.0.0.1"}})
	}
	var killed, again time.Time
	stdout, stderr := &watched{}, &watched{}
	stdout.do = func(line string) {
		switch {
		case killed.IsZero() && strings.Contains(line, "step  5/30"):
			if os.WriteFile(filepath.Join(down, "c"), nil, 0o644) == nil && killMarked(mark, "2") {
				killed = time.Now()
			}
		case !killed.IsZero() && again.IsZero() && strings.Contains(stdout.b.String(), "resumed after step ") && strings.Contains(line, "/30  loss "):
			again = time.Now()
		}
	}
	status, err := launch.Run(t.Context(), launch.Options{
		Command: []string{os.Args[0]}, Hosts: hosts, Shell: []string{reach}, MinHosts: 2, Restarts: 1, Stdout: stdout, Stderr: stderr,
		Env: []string{asCommand + "=" + strings.Join(append(args, "-out", out, "-resume", "-mesh", "dp=*,ep=2"), "\x1f"), "GOMAXPROCS=1", mark},
	})
	require.NoError(t, err)
	for _, want := range []string{"FAILED: rank 2 on c exited with status 137", "no answer from c (exit status 255)\n", "the job runs on 3 of 4 hosts\n", `mesh "dp=*,ep=2" of 3 ranks: the other axes have 2`, "the job runs on 2 of 4 hosts\n"} {
		if !strings.Contains(stderr.b.String(), want) {
			t.Errorf("standard error lacks %q", want)
		}
	}
	if want := "with -mesh dp=1,ep=2 instead of dp=2,ep=2\n"; status != 0 || !strings.Contains(stdout.b.String(), want) {
		t.Errorf("status %d, want 0 and %q", status, want)
	}
	if t.Failed() {
		t.Logf("%s\n%s", &stderr.b, &stdout.b)
	}
	sameRun(t, "on fewer hosts", out, whole)
	t.Logf("from kill -9 to the end of the first step on two of four hosts: %v", again.Sub(killed).Round(10*time.Millisecond))
}

// A job that loses a rank is started again by the launcher, goes on from its checkpoint, and ends with the bits of a run
// without a pause. The records of the failure stay.
func TestRestarts(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("finds the processes in /proc")
	}
	args, whole := tiny(t, "-steps", "40", "-save-every", "2", "-mesh", "ep=2", "-eval", "1")
	_, err := execute(t, args...)
	require.NoError(t, err)
	out, flights := filepath.Join(t.TempDir(), "out"), t.TempDir()
	mark := "MOE_LM_TEST_MARK=" + t.TempDir()
	killed := false
	stdout, stderr := &watched{}, &watched{}
	stdout.do = func(line string) {
		if !killed && strings.Contains(line, "step  5/40") {
			killed = killMarked(mark, "1")
		}
	}
	status, err := launch.Run(t.Context(), launch.Options{
		Command: []string{os.Args[0]}, Ranks: 2, Restarts: 1, Stdout: stdout, Stderr: stderr,
		Env: []string{asCommand + "=" + strings.Join(append(args, "-out", out, "-resume"), "\x1f"), "GOMAXPROCS=1", mark, "GOMOE_FLIGHT=" + flights},
	})
	require.NoError(t, err)
	if status != 0 || !killed || !strings.Contains(stderr.b.String(), "FAILED: rank 1 was ended by SIGKILL") || !strings.Contains(stdout.b.String(), "[0] resumed after step ") {
		t.Errorf("status %d, killed %v:\n%s\n%s", status, killed, &stderr.b, &stdout.b)
	}
	sameRun(t, "started again", out, whole)
	if _, err := os.Stat(filepath.Join(flights, "flight-rank0.json")); err != nil {
		t.Errorf("the record of the failure is gone: %v", err)
	}
}

// killMarked kills the process of a rank whose environment has the mark, and reports whether there was one.
func killMarked(mark, rank string) bool {
	paths, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is right
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(b, []byte(mark)) || !bytes.Contains(b, []byte("GOMOE_RANK="+rank+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		p, err := os.FindProcess(pid)
		return err == nil && p.Kill() == nil
	}
	return false
}

// Where no file may become as large as a checkpoint's, that is an error, the earlier checkpoint stays, and the run goes on
// from it.
func TestDiskFull(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("ulimit -f counts in other units elsewhere")
	}
	args, out := tiny(t, "-steps", "2", "-save-every", "2", "-mesh", "")
	_, err := execute(t, args...)
	require.NoError(t, err)
	args = append(args, "-resume", "-steps", "4")
	cmd := command(args)
	limited := exec.Command("sh", append([]string{"-c", `ulimit -f 40; exec "$0"`}, cmd.Path)...)
	limited.Env = cmd.Env
	said, err := limited.CombinedOutput()
	if err == nil || !strings.Contains(string(said), "moe_lm: 4 of 4 steps are done: snapshot: step 4: safetensors: ") || !strings.Contains(string(said), "file too large") {
		t.Errorf("%v, want an error that the file is too large:\n%s", err, said)
	}
	require.Equal(t, []int{2}, savedSteps(t, out))
	if _, err := os.Stat(filepath.Join(out, "checkpoints", "step-00000004")); !os.IsNotExist(err) {
		t.Errorf("a broken checkpoint is left: %v", err)
	}
	_, err = execute(t, args...)
	require.NoError(t, err)
	require.Equal(t, []int{2, 4}, savedSteps(t, out))
}
