package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// In a container with nothing but the program, without a shell, /proc, /dev, a home or a
// folder for temporary files, programs run and ranks start.
func TestBareContainer(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "gomoe"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	text, err := build.CombinedOutput()
	require.NoError(t, err, "%s", text)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.graph"), []byte(adds), 0o600))
	for _, c := range []struct {
		args, stdout, stderr string
		status               int
	}{
		{"run x.graph -random 1 -out o -trace t.json", "y f32[4]  [", "", 0},
		{"launch -n 2 -- /gomoe run x.graph -random 1", "", "this process is rank ", 1},
		{"launch -n 2 -- /gomoe plan -brief x.graph", "[1] ", "", 0},
		{"doctor", "no program sh", "", 1},
	} {
		cmd := exec.Command("/gomoe", strings.Fields(c.args)...)
		cmd.Dir, cmd.Env = "/", []string{"GOMOE_KERNELS=portable"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir}
		if os.Geteuid() != 0 {
			cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
		}
		none, w, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, w.Close())
		defer none.Close()
		var stdout, stderr bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = none, &stdout, &stderr
		err = cmd.Run()
		require.NotNil(t, cmd.ProcessState, "%s: %v", c.args, err)
		if status := cmd.ProcessState.ExitCode(); status != c.status || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%s: status %d, want %d; standard output:\n%s\nstandard error:\n%s", c.args, status, c.status, &stdout, &stderr)
		}
	}
	for _, name := range []string{"o/y.npy", "t.json"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
