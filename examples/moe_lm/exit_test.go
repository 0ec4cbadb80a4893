package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// asCommand is the environment variable that turns the test binary into the
// command, with its value's words as arguments. asCommand with "_ALSO_1" behind it
// has more arguments, for rank 1 only.
const asCommand = "MOE_LM_TEST_ARGS"

func TestMain(m *testing.M) {
	if args, ok := os.LookupEnv(asCommand); ok {
		if also, ok := os.LookupEnv(asCommand + "_ALSO_" + os.Getenv("GOMOE_RANK")); ok {
			args += "\x1f" + also
		}
		os.Args = append([]string{"moe_lm"}, strings.Split(args, "\x1f")...)
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func command(args []string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asCommand+"="+strings.Join(args, "\x1f"))
	return cmd
}

// The command exits 1 on an error, with a line on standard error, and 0 without.
func TestExit(t *testing.T) {
	for _, c := range []struct {
		flags          string
		code           int
		stdout, stderr string
	}{
		{"-check", 0, "--check PASSED", ""},
		{"-help", 0, "-mesh axes", ""},
		{"-check -lr 1e300", 1, "", "moe_lm: -lr 1e+300: want a finite number above 0\n"},
	} {
		args, _ := tiny(t, strings.Fields(c.flags)...)
		cmd := command(args)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		code := cmd.ProcessState.ExitCode()
		if code != c.code || !strings.Contains(stdout.String(), c.stdout) || stderr.String() != c.stderr {
			t.Errorf("%s: exit %d (%v), want %d; standard output:\n%s\nstandard error:\n%s", c.flags, code, err, c.code, &stdout, &stderr)
		}
	}
}

// The error that ends a run is said once, also where a trace is closed behind it.
func TestSaidOnce(t *testing.T) {
	args, out := tiny(t)
	cmd := command(append(args, "-lr", "1e30", "-trace", out+".json"))
	said, err := cmd.CombinedOutput()
	if err == nil || strings.Count(string(said), "moe_lm: step 2: ") != 1 {
		t.Errorf("%v, want exit 1 and one error:\n%s", err, said)
	}
}

// Kernels that the processor does not run are not replaced by others.
func TestKernels(t *testing.T) {
	args, _ := tiny(t)
	cmd := command(args)
	cmd.Env = append(cmd.Env, "GOMOE_KERNELS=sse9")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), `moe_lm: kernel: kernels "sse9" are not among those that this processor runs`) {
		t.Errorf("%v, want exit 1 and an error about GOMOE_KERNELS:\n%s", err, out)
	}
}

// Ctrl-C or SIGTERM once ends the run in order; twice, while it writes a long sample, at once. The process ends by it, so
// that nobody takes the work for done.
func TestSignals(t *testing.T) {
	if goruntime.GOOS == "windows" {
		t.Skip("a process cannot be sent a signal on Windows")
	}
	for _, c := range []struct {
		signal         syscall.Signal
		sample, second string // the output at which the second signal is sent
		stdout, stderr string
	}{
		{syscall.SIGINT, "3", "", "\nwritten: ", " of 1000000 steps, of which there is no checkpoint\n"},
		{syscall.SIGTERM, "3", "", "\nwritten: ", " of 1000000 steps, of which there is no checkpoint\n"},
		{syscall.SIGINT, "100000000", "sample:", "\nsample:\n", ""},
		{syscall.SIGTERM, "100000000", "sample:", "\nsample:\n", ""},
	} {
		args, _ := tiny(t, "-steps", "1000000", "-eval", "1", "-sample", c.sample)
		cmd := command(args)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		var seen strings.Builder
		lines := bufio.NewScanner(io.TeeReader(stdout, &seen))
		at := "/1000000  loss "
		for lines.Scan() {
			if at != "" && strings.Contains(lines.Text(), at) {
				require.NoError(t, cmd.Process.Signal(c.signal))
				if at == c.second {
					at = ""
				} else {
					at = c.second
				}
			}
		}
		require.NoError(t, lines.Err())
		err = cmd.Wait()
		if ended := cmd.ProcessState.Sys().(syscall.WaitStatus); ended.Signal() != c.signal || !strings.HasSuffix(stderr.String(), c.stderr) || c.stderr == "" && stderr.Len() > 0 ||
			!strings.Contains(seen.String(), c.stdout) {
			t.Errorf("%v, sample of %s: %v, want an end by the signal; standard output:\n%s\nstandard error:\n%s", c.signal, c.sample, err, &seen, &stderr)
		}
	}
}
