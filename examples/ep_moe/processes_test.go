package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/launch"
)

// asCommand is the environment variable that turns the test binary into the
// command, with its value's words as arguments.
const asCommand = "EP_MOE_TEST_ARGS"

func TestMain(m *testing.M) {
	if args, ok := os.LookupEnv(asCommand); ok {
		os.Args = append([]string{"ep_moe"}, strings.Fields(args)...)
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Processes compute what one does, to the last bit, and only the first prints and
// writes.
func TestProcesses(t *testing.T) {
	const flags = "-num-layers 2 -iters 2 -mesh "
	for _, c := range []struct {
		mesh, transport string
		n               int
	}{{"dp=2,ep=2", "tcp", 4}, {"ep=3", "shm", 3}, {"ep=2", "auto", 2}} {
		one, many := t.TempDir(), t.TempDir()
		var want, stdout, stderr bytes.Buffer
		require.NoError(t, run(t.Context(), strings.Fields(flags+c.mesh+" -out "+one), &want, &stderr))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		status, err := launch.Run(ctx, launch.Options{
			Command: []string{os.Args[0]}, Ranks: c.n, Stdout: &stdout, Stderr: &stderr,
			Env: []string{asCommand + "=" + flags + c.mesh + " -out " + many + " -transport " + c.transport, "GOMAXPROCS=1"},
		})
		cancel()
		require.NoError(t, err)
		if got := strings.ReplaceAll(stdout.String(), "[0] ", ""); status != 0 || got != want.String() {
			t.Errorf("%s over %s: status %d:\n%s\n%s\nwant\n%s", c.mesh, c.transport, status, &stdout, &stderr, &want)
		}
		paths, err := filepath.Glob(filepath.Join(one, "*.npy"))
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, path := range paths {
			a, err := array.ReadFile(path)
			require.NoError(t, err)
			b, err := array.ReadFile(filepath.Join(many, filepath.Base(path)))
			require.NoError(t, err)
			if !array.Equal(a, b) {
				t.Errorf("%s over %s: %s differs between one process and %d", c.mesh, c.transport, filepath.Base(path), c.n)
			}
		}
	}
}

// Open MPI's ranks find each other, as the environment describes them.
func TestLauncher(t *testing.T) {
	launched(t, "mpirun --oversubscribe -n 3", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
}

// launched runs the command on three ranks that a launcher starts.
func launched(t *testing.T, command string, env ...string) {
	t.Helper()
	words := strings.Fields(command)
	path, err := exec.LookPath(words[0])
	if err != nil {
		t.Skipf("%s is not installed", words[0])
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, append(words[1:], os.Args[0])...)
	cmd.Env = append(os.Environ(), asCommand+"=-mesh ep=3 -iters 1", "XDG_CONFIG_HOME="+t.TempDir(), "GOMAXPROCS=1")
	cmd.Env = append(cmd.Env, env...)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "--check PASSED") != 1 || !strings.Contains(string(out), "ep=3") {
		t.Errorf("%s: %v:\n%s", command, err, out)
	}
}
