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
// command, with its value's words as arguments. asCommand with "_ALSO_1" behind it has
// more arguments, for rank 1 only.
const asCommand = "EP_MOE_TEST_ARGS"

func TestMain(m *testing.M) {
	if args, ok := os.LookupEnv(asCommand); ok {
		args += " " + os.Getenv(asCommand+"_ALSO_"+os.Getenv("GOMOE_RANK"))
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
	}{{"dp=2,ep=2", "tcp", 4}, {"ep=3", "shm", 3}, {"ep=2", "auto", 2}, {"ep=2 -whole", "ring", 2}, {"ep=2 -whole -sum", "ring", 2}, {"dp=2,ep=2 -whole", "tcp", 4}} {
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

// Ranks that read other tensors, here with one other weight, all say so.
func TestProcessesDiffer(t *testing.T) {
	other := t.TempDir()
	require.NoError(t, os.CopyFS(other, os.DirFS("testdata/odd")))
	path := filepath.Join(other, "kernels_0.npy")
	a, err := array.ReadFile(path)
	require.NoError(t, err)
	array.Data[float32](a)[0]++
	require.NoError(t, array.WriteFile(path, a))
	for _, also := range []string{"", " -in " + other} {
		var stdout, stderr bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		status, err := launch.Run(ctx, launch.Options{
			Command: []string{os.Args[0]}, Ranks: 2, Stdout: &stdout, Stderr: &stderr,
			Env: []string{asCommand + "=-mesh ep=2 -in testdata/odd", asCommand + "_ALSO_1=" + also, "GOMAXPROCS=1"},
		})
		cancel()
		require.NoError(t, err)
		if said := strings.Contains(stderr.String(), `ep_moe: gomoe: -in differs between ranks: rank 0 has "`); said != (also != "") || (status != 0) != said {
			t.Errorf("rank 1 with %q: status %d:\n%s\n%s", also, status, &stdout, &stderr)
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
		t.Skipf("no %s (Debian: apt-get install openmpi-bin)", words[0])
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
