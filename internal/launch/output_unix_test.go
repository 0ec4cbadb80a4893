//go:build unix

package launch

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// unread starts a launcher of three ranks whose standard output is a pipe that nobody
// reads. It returns when a rank has printed "up" to standard error, with the end of the
// pipe to read from.
func unread(t *testing.T, sh string) (cmd *exec.Cmd, mark string, stdout *os.File, stderr func() string) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	mark = uuid.NewString()
	cmd = exec.Command(os.Args[0], "/bin/sh", "-c", sh)
	cmd.Env = append(os.Environ(), asProgram+"=launcher", "GOMOE_LAUNCH_MARK="+mark)
	var b buffer
	cmd.Stdout, cmd.Stderr = w, &b
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	require.Eventually(t, func() bool { return strings.Contains(b.String(), "up\n") }, 90*time.Second, 5*time.Millisecond, "no lines")
	return cmd, mark, r, b.String
}

// ends waits until the launcher has ended, and returns its exit status.
func ends(t *testing.T, cmd *exec.Cmd, stderr func() string) int {
	t.Helper()
	late := time.AfterFunc(90*time.Second, func() { cmd.Process.Kill() })
	cmd.Wait()
	if !late.Stop() {
		t.Fatalf("the launcher did not end; standard error:\n%s", stderr())
	}
	return cmd.ProcessState.ExitCode()
}

// A failure ends the job and is reported, although nobody reads standard output. What
// is lost is counted.
func TestNobodyReads(t *testing.T) {
	cmd, mark, _, stderr := unread(t, `case $RANK in
		0) yes ;;
		1) echo up >&2; seq 200000; exec sleep 100 ;;
		2) echo some output; sleep 1; echo oh >&2; exit 3 ;;
	esac`)
	if status := ends(t, cmd, stderr); status != 3 {
		t.Errorf("status %d, want 3", status)
	}
	want(t, "standard error", stderr(), "[2] oh\n", "FAILED: rank 2 exited with status 3 after ", "\n    oh\n", " lines of standard output are lost, because nobody read them\n")
	nothing(t, mark)
}

// Signals end a job whose standard output nobody reads: the first if the ranks obey
// it, the second in any case.
func TestNobodyReadsSignals(t *testing.T) {
	for _, c := range []struct {
		sh      string
		signals []syscall.Signal
		status  int
	}{
		{`echo up >&2; exec yes`, []syscall.Signal{syscall.SIGINT}, 130},
		{`trap : INT TERM; echo up >&2; while :; do yes; done`, []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, 137},
		{`trap : INT TERM; echo up >&2; while :; do yes; done`, []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, 137},
	} {
		cmd, mark, _, stderr := unread(t, c.sh)
		time.Sleep(300 * time.Millisecond) // the pipes fill
		for _, s := range c.signals {
			require.NoError(t, cmd.Process.Signal(s))
			time.Sleep(100 * time.Millisecond)
		}
		if status := ends(t, cmd, stderr); status != c.status {
			t.Errorf("%s: status %d, want %d; standard error:\n%s", c.sh, status, c.status, stderr())
		}
		want(t, c.sh, stderr(), " lines of standard output are lost, because nobody read them\n")
		nothing(t, mark)
	}
}

// A reader that comes late gets everything, for as long as no rank fails.
func TestReadLate(t *testing.T) {
	cmd, mark, stdout, stderr := unread(t, `echo up >&2; seq 100000`)
	time.Sleep(drain + 500*time.Millisecond)
	var all bytes.Buffer
	_, err := all.ReadFrom(stdout)
	require.NoError(t, err)
	if status := ends(t, cmd, stderr); status != 0 || bytes.Count(all.Bytes(), []byte("\n")) != 300000 {
		t.Errorf("status %d and %d lines, want 0 and 300000; standard error:\n%s", status, bytes.Count(all.Bytes(), []byte("\n")), stderr())
	}
	nothing(t, mark)
}

// full is a writer without room, as a file on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// Output that cannot be written is a failure of the launcher, not of the ranks.
func TestOutputFails(t *testing.T) {
	shells(t)
	var stderr bytes.Buffer
	status, err := Run(t.Context(), Options{Command: []string{"/bin/sh", "-c", "echo a; echo b; exit $S"}, Ranks: 2, Stdout: full{}, Stderr: &stderr})
	require.NoError(t, err)
	if status != 1 || stderr.String() != "gomoe launch: 4 lines of standard output are lost: no space left on device\n" {
		t.Errorf("status %d, want 1; standard error:\n%s", status, &stderr)
	}
	stderr.Reset()
	status, err = Run(t.Context(), Options{Command: []string{"/bin/sh", "-c", "echo a; exit 4"}, Ranks: 1, Stdout: full{}, Stderr: &stderr})
	require.NoError(t, err)
	if status != 4 {
		t.Errorf("status %d, want the rank's; standard error:\n%s", status, &stderr)
	}
	want(t, "standard error", stderr.String(), "FAILED: rank 0 exited with status 4", "1 line of standard output is lost: no space left on device\n")
	status, err = Run(t.Context(), Options{Command: []string{"/bin/sh", "-c", "echo a >&2"}, Ranks: 1, Stderr: full{}})
	require.NoError(t, err)
	if status != 1 {
		t.Errorf("status %d, want 1", status)
	}
}

// A killed launcher leaves no program that it has built and no rank, also if its guard was
// killed before.
func TestLauncherKilledFolder(t *testing.T) {
	shells(t)
	for _, kills := range []int{0, 1, 3} {
		t.Run(fmt.Sprint(kills, " guards killed"), func(t *testing.T) { killedFolder(t, kills) })
	}
}

func killedFolder(t *testing.T, kills int) {
	dir, temp := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module x\n\ngo 1.26\n"), 0o644))
	src := "package main\n\nimport \"time\"\n\nfunc main() {\n\tprintln(\"up\")\n\ttime.Sleep(time.Hour)\n}\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(src), 0o644))
	cmd := exec.Command(os.Args[0], "go", "run", ".")
	var b buffer
	cmd.Dir, cmd.Stderr, cmd.Env = dir, &b, append(os.Environ(), asProgram+"=launcher", "TMPDIR="+temp)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	require.Eventually(t, func() bool { return strings.Contains(b.String(), "] up\n") }, 90*time.Second, 5*time.Millisecond, "no line")
	built := func() int {
		left, err := filepath.Glob(filepath.Join(temp, "gomoe-launch-*"))
		require.NoError(t, err)
		return len(left)
	}
	if n := built(); n != 1 {
		t.Errorf("%d folders while it runs, want 1", n)
	}
	last := 0
	for range kills {
		killed := last
		require.Eventually(t, func() bool { last = guardOf(t, cmd.Process.Pid); return last != 0 && last != killed }, 90*time.Second, 5*time.Millisecond, "no guard")
		require.NoError(t, syscall.Kill(last, syscall.SIGKILL))
	}
	if kills > 0 {
		killed := last
		require.Eventually(t, func() bool { last = guardOf(t, cmd.Process.Pid); return last != 0 && last != killed }, 90*time.Second, 5*time.Millisecond, "no other guard")
	}
	require.NoError(t, cmd.Process.Kill())
	cmd.Wait()
	require.Eventually(t, func() bool { return built() == 0 }, 90*time.Second, 5*time.Millisecond, "the folder stays")
}

// guardOf returns the process of a launcher's guard, 0 if there is none.
func guardOf(t *testing.T, launcher int) int {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,args=").Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		var pid, parent int
		var command string
		if n, _ := fmt.Sscan(line, &pid, &parent, &command); n == 3 && parent == launcher && command == "/bin/sh" {
			return pid
		}
	}
	return 0
}

// A signal ends a build.
func TestSignalDuringBuild(t *testing.T) {
	shells(t)
	dir := t.TempDir()
	tool := filepath.Join(dir, "go")
	require.NoError(t, os.WriteFile(tool, []byte("#!/bin/sh\necho building >&2\nexec sleep 100\n"), 0o755))
	signals := make(chan os.Signal, 1)
	r, w := io.Pipe()
	go func() {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			if lines.Text() == "building" {
				signals <- syscall.SIGTERM
			}
		}
	}()
	_, err := Run(t.Context(), Options{Command: []string{tool, "run", "."}, Ranks: 1, Dir: dir, Stderr: w, Signals: signals})
	if err == nil || err.Error() != "launch: go build: ended by terminated" {
		t.Errorf("error %v", err)
	}
}

// A launcher that may open too few files says what to do.
func TestFewFiles(t *testing.T) {
	shells(t)
	for _, files := range []string{"10", "14", "20"} {
		cmd := exec.Command("/bin/sh", "-c", "ulimit -n "+files+`; exec "$0" /bin/sh -c 'sleep 1'`, os.Args[0])
		var b buffer
		cmd.Stderr, cmd.Env = &b, append(os.Environ(), asProgram+"=launcher")
		require.Error(t, cmd.Run(), files)
		if got := b.String(); !strings.Contains(got, "too many open files; the limit on the open files of a process is too low: raise it") {
			t.Errorf("ulimit -n %s: %s, want the remedy", files, got)
		}
	}
}
