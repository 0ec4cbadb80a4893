package launch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

// asProgram turns the test binary into a rank or a launcher of them.
const asProgram = "GOMOE_LAUNCH_TEST"

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case "":
		os.Exit(m.Run())
	case "launcher":
		os.Unsetenv(asProgram)
		signals := make(chan os.Signal, 4)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		status, err := Run(context.Background(), Options{Command: os.Args[1:], Ranks: 3, Stdout: os.Stdout, Stderr: os.Stderr, Signals: signals, Grace: 500 * time.Millisecond})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 99
		}
		os.Exit(status)
	}
	os.Exit(98)
}

// shells skips a test where there is no POSIX shell.
func shells(t *testing.T) {
	t.Helper()
	if goruntime.GOOS == "windows" {
		t.Skip("needs /bin/sh and POSIX signals")
	}
}

// result is what a job came to.
type result struct {
	status         int
	err            error
	stdout, stderr string
}

// launch runs a shell's script on every rank.
func launch(t *testing.T, o Options, sh string) result {
	t.Helper()
	shells(t)
	if o.Command == nil {
		o.Command = []string{"/bin/sh", "-c", sh}
	}
	if o.Grace == 0 {
		o.Grace = 300 * time.Millisecond
	}
	mark := uuid.NewString()
	o.Env = append(o.Env, "GOMOE_LAUNCH_MARK="+mark)
	var stdout, stderr bytes.Buffer
	o.Stdout, o.Stderr = &stdout, &stderr
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	status, err := Run(ctx, o)
	require.NoError(t, ctx.Err(), "it did not end by itself; standard error:\n%s", &stderr)
	for _, p := range marked(t, mark) {
		t.Errorf("left over: %s", p)
	}
	return result{status, err, stdout.String(), stderr.String()}
}

// marked returns the processes with the mark in their environment.
func marked(t *testing.T, mark string) []string {
	if goruntime.GOOS != "linux" {
		t.Log("left-over processes are looked for in /proc, which is not here")
		return nil
	}
	var out []string
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(b, []byte(mark)) {
			continue
		}
		dir := filepath.Dir(path)
		stat, _ := os.ReadFile(dir + "/stat")
		if _, rest, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(rest, "Z") {
			continue
		}
		line, _ := os.ReadFile(dir + "/cmdline")
		out = append(out, filepath.Base(dir)+": "+strings.ReplaceAll(string(line), "\x00", " "))
	}
	return out
}

// want reports lines that are missing.
func want(t *testing.T, what, text string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains(text, l) {
			t.Errorf("%s lacks %q:\n%s", what, l, text)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("RANK", "7") // of whoever has started the launcher
	t.Setenv("OMPI_COMM_WORLD_RANK", "7")
	t.Setenv("KEPT", "yes")
	t.Setenv("JACCL_LIBRDMA", "/lib")
	t.Setenv("GOMOE_FLIGHT", "/flights")
	r := launch(t, Options{Ranks: 3, Transport: "tcp", Env: []string{"MINE=a b"}},
		`echo "$GOMOE_RANK/$GOMOE_SIZE $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GOMOE_TRANSPORT $MINE $KEPT $JACCL_LIBRDMA $GOMOE_FLIGHT ${OMPI_COMM_WORLD_RANK:-none} $MASTER_ADDR ${#GOMOE_SECRET}"; env | grep GOMOE_COORD`)
	require.NoError(t, r.err)
	if r.status != 0 || r.stderr != "" {
		t.Errorf("status %d; standard error:\n%s", r.status, r.stderr)
	}
	for i := range 3 {
		want(t, "standard output", r.stdout, fmt.Sprintf("[%d] %d/3 %d/3 %d/3 tcp a b yes /lib /flights none 127.0.0.1 64\n", i, i, i, i), fmt.Sprintf("[%d] GOMOE_COORDINATOR=127.0.0.1:", i))
	}
}

// The environment of every rank is a job as package environ reads it, with one id
// and secret, and rank 0 has the port.
func TestEnvironmentIsRead(t *testing.T) {
	r := launch(t, Options{Ranks: 2}, `env -0 | tr '\n\0' ' \n' | grep GOMOE_; ls -l /proc/self/fd/3 /proc/self/fd/4 2>&1 || true`)
	require.NoError(t, r.err)
	var jobs [2]environ.Job
	for i := range jobs {
		m := map[string]string{}
		for _, line := range strings.Split(r.stdout, "\n") {
			if e, ok := strings.CutPrefix(line, fmt.Sprintf("[%d] ", i)); ok {
				name, value, _ := strings.Cut(e, "=")
				m[name] = value
			}
		}
		var err error
		jobs[i], err = environ.Detect(func(n string) string { return m[n] })
		require.NoError(t, err)
	}
	a, b := jobs[0], jobs[1]
	if a.Rank != 0 || b.Rank != 1 || a.ID != b.ID || len(a.ID) != 36 || a.Secret != b.Secret || a.Coordinator != b.Coordinator || !a.OneHost() ||
		a.Lifeline != 3 || b.Lifeline != 3 || a.Listener != 4 || b.Listener != 0 {
		t.Errorf("jobs %+v and %+v", a, b)
	}
	if goruntime.GOOS == "linux" {
		want(t, "standard output", r.stdout, "[0] ", "socket:", "pipe:")
	}
}

func TestExit(t *testing.T) {
	r := launch(t, Options{Ranks: 4}, `echo out $RANK; if [ $RANK = 2 ]; then sleep 0.2; echo last words >&2; exit 3; fi; sleep 100 & wait`)
	require.NoError(t, r.err)
	if r.status != 3 {
		t.Errorf("status %d, want rank 2's", r.status)
	}
	want(t, "standard output", r.stdout, "[0] out 0\n", "[2] out 2\n")
	want(t, "standard error", r.stderr, "[2] last words\n", "gomoe launch: rank 2 exited with status 3; the others are ended\n")
	if !strings.Contains(r.stderr, "gomoe launch: FAILED: rank 2 exited with status 3 after ") || !strings.HasSuffix(r.stderr, "gomoe launch: the last lines of rank 2's standard error:\n    last words\n") {
		t.Errorf("standard error does not end with what happened:\n%s", r.stderr)
	}
}

// The rank that was killed is blamed, also if others notice it before the launcher.
func TestKilled(t *testing.T) {
	r := launch(t, Options{Ranks: 3}, `if [ $RANK = 1 ]; then sleep 0.1; kill -9 $$; fi; sleep 100`)
	if r.status != 137 {
		t.Errorf("status %d, want 137", r.status)
	}
	want(t, "standard error", r.stderr, "gomoe launch: FAILED: rank 1 was ended by SIGKILL after ")
	dir := t.TempDir()
	r = launch(t, Options{Ranks: 2, Dir: dir, Settle: time.Minute}, `if [ $RANK = 1 ]; then while [ ! -e seen ]; do sleep 0.01; done; sleep 0.05; kill -9 $$; fi; touch seen; exit 1`)
	if r.status != 137 {
		t.Errorf("status %d, want 137:\n%s", r.status, r.stderr)
	}
	want(t, "standard error", r.stderr, "FAILED: rank 1 was ended by SIGKILL")
}

// A rank that ignores SIGTERM is killed, with what it has started.
func TestStubborn(t *testing.T) {
	r := launch(t, Options{Ranks: 3}, `if [ $RANK = 0 ]; then sleep 0.3; exit 7; fi; trap 'echo not me' TERM; sleep 100 & while :; do sleep 0.05; done`)
	if r.status != 7 {
		t.Errorf("status %d, want 7", r.status)
	}
	want(t, "standard output", r.stdout, "[1] not me\n", "[2] not me\n")
	want(t, "standard error", r.stderr, "ranks 1, 2 did not end within 300ms and are killed", "FAILED: rank 0 exited with status 7")
}

// What a rank leaves in the background ends with it, and does not hold up the job.
func TestBackground(t *testing.T) {
	r := launch(t, Options{Ranks: 2}, `sleep 100 & echo done`)
	if r.err != nil || r.status != 0 || r.stdout != "[0] done\n[1] done\n" && r.stdout != "[1] done\n[0] done\n" {
		t.Errorf("%+v", r)
	}
}

// Lines of several ranks are never mixed up, nor of both streams, and ends without
// an end of line come out.
func TestLines(t *testing.T) {
	r := launch(t, Options{Ranks: 4}, `i=0; while [ $i -lt 200 ]; do printf 'o%s-' $RANK; printf '%s\n' $RANK$RANK$RANK; echo "e$RANK-$i" >&2; i=$((i+1)); done; printf end; printf end2 >&2`)
	require.NoError(t, r.err)
	n := strings.Count(r.stdout, "\n")
	for _, line := range strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n") {
		k := line[1:2]
		if line != "["+k+"] o"+k+"-"+k+k+k && line != "["+k+"] end" {
			t.Fatalf("line %q", line)
		}
	}
	if n != 4*201 || strings.Count(r.stderr, "\n") != 4*201 || strings.Count(r.stderr, "] end2\n") != 4 {
		t.Errorf("%d lines of standard output, %d of standard error, want 804 each", n, strings.Count(r.stderr, "\n"))
	}
}

func TestLongLines(t *testing.T) {
	var b bytes.Buffer
	l := &lines{pass: func(line []byte) { b.Write(line) }, prefix: "[0]"}
	l.copy(io.MultiReader(strings.NewReader(strings.Repeat("x", 2*maxLine+5)), strings.NewReader("y\nz")))
	l.end()
	x := strings.Repeat("x", maxLine)
	if got, want := b.String(), "[0] "+x+"\n[0]+"+x+"\n[0]+xxxxxy\n[0] z\n"; got != want {
		t.Errorf("%d bytes, want %d; they end with %q", len(got), len(want), got[max(0, len(got)-30):])
	}
	if last := l.last(); len(last) != 4 || last[3] != "z" || len(last[0]) != tailBytes {
		t.Errorf("last lines %.50q", last)
	}
}

func TestWrong(t *testing.T) {
	shells(t)
	sh := []string{"/bin/sh", "-c", "true"}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, "no command"},
		{Options{Command: sh}, "0 ranks, want 1 to 4096"},
		{Options{Command: sh, Ranks: -1}, "-1 ranks"},
		{Options{Command: sh, Ranks: 3, Hosts: []hostfile.Host{{SSH: "a"}, {SSH: "b"}}}, "3 ranks on 2 hosts, want as many on each: a multiple of 2"},
		{Options{Command: sh, Ranks: 1, Port: 1 << 20}, "port 1048576"},
		{Options{Command: sh, Ranks: 1, Transport: "udp"}, `transport "udp", want one of auto`},
		{Options{Command: sh, Ranks: 2, Transport: "local"}, "transport local is for ranks of one process"},
		{Options{Command: sh, Ranks: 1, Env: []string{"A"}}, `"A", want NAME=value`},
		{Options{Command: []string{"no-such-program-anywhere"}, Ranks: 2}, "command no-such-program-anywhere: exec:"},
		{Options{Command: []string{"./nothing"}, Ranks: 2}, "command ./nothing: "},
		{Options{Command: sh, Ranks: 2, Dir: "/no/such/folder"}, "no folder /no/such/folder"},
		{Options{Command: sh, Hosts: []hostfile.Host{{SSH: "localhost"}, {SSH: "b"}}, Shell: []string{"/bin/sh"}}, "has no address in the hostfile"},
		{Options{Command: sh, Hosts: []hostfile.Host{{SSH: "a"}}, Shell: []string{"no-such-shell"}}, "no-such-shell, to reach other machines"},
		{Options{Command: []string{"go", "run", "./x"}, Hosts: []hostfile.Host{{SSH: "a"}}}, "go run builds on this machine only"},
		{Options{Command: []string{"go", "run"}, Ranks: 1}, "no package"},
		{Options{Command: []string{"go", "run", "-tags"}, Ranks: 1}, "want build flags with their values"},
		{Options{Command: []string{"go", "run", "-exec", "x", "."}, Ranks: 1}, "want build flags"},
		{Options{Command: []string{"go", "run", "a.b/c@latest"}, Ranks: 1}, "a version is not built here"},
		{Options{Command: []string{"go", "run", "./nothing"}, Ranks: 1}, "launch: go build -o "},
	} {
		status, err := Run(context.Background(), c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: status %d, %v, want an error with %q", c.o, status, err, c.want)
		}
	}
}

// The end of the context ends the ranks.
func TestContext(t *testing.T) {
	shells(t)
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	go func() {
		buf := make([]byte, 1)
		r.Read(buf)
		cancel()
		io.Copy(io.Discard, r)
	}()
	status, err := Run(ctx, Options{Command: []string{"/bin/sh", "-c", "echo; sleep 100"}, Ranks: 2, Stdout: w})
	require.NoError(t, err)
	if status != 143 {
		t.Errorf("status %d, want 143", status)
	}
}

// launcher starts a launcher process of three ranks, and returns when each has
// printed a line.
func launcher(t *testing.T, sh string) (cmd *exec.Cmd, mark string, output func() string) {
	t.Helper()
	shells(t)
	mark = uuid.NewString()
	cmd = exec.Command(os.Args[0], "/bin/sh", "-c", sh)
	cmd.Env = append(os.Environ(), asProgram+"=launcher", "GOMOE_LAUNCH_MARK="+mark)
	var b buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	cmd.WaitDelay = 10 * time.Second
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	require.Eventually(t, func() bool { return strings.Count(b.String(), "\n") >= 3 }, 90*time.Second, 5*time.Millisecond, "no lines")
	return cmd, mark, b.String
}

// buffer is a bytes.Buffer for two goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) { b.mu.Lock(); defer b.mu.Unlock(); return b.b.Write(p) }
func (b *buffer) String() string              { b.mu.Lock(); defer b.mu.Unlock(); return b.b.String() }

// nothing waits until nothing of the job is left.
func nothing(t *testing.T, mark string) {
	t.Helper()
	var left []string
	for range 9000 {
		if left = marked(t, mark); len(left) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("left over: %s", strings.Join(left, "\n"))
}

// A killed launcher takes its ranks with it, and all that they have started.
func TestLauncherKilled(t *testing.T) {
	cmd, mark, _ := launcher(t, `trap : TERM INT HUP; (trap : TERM; sleep 300) & echo up; while :; do sleep 1; done`)
	if n := len(marked(t, mark)); goruntime.GOOS == "linux" && n < 7 {
		t.Fatalf("%d processes carry the mark; the scan sees nothing", n)
	}
	require.NoError(t, cmd.Process.Kill())
	cmd.Wait()
	nothing(t, mark)
}

// Ctrl-C reaches all ranks, which end as they like.
func TestInterrupt(t *testing.T) {
	for _, c := range []struct {
		signal syscall.Signal
		sh     string
		status int
		want   string
	}{
		{syscall.SIGINT, `trap 'echo bye $RANK; exit 0' INT; echo up; while :; do sleep 0.05; done`, 0, "[2] bye 2\n"},
		{syscall.SIGTERM, `trap 'echo bye $RANK; exit 5' TERM; echo up; while :; do sleep 0.05; done`, 5, "gomoe launch: ended by terminated; rank "},
		{syscall.SIGINT, `trap '[ $RANK = 0 ] || { trap - INT; kill -INT $$; }; sleep 2; echo saved; exit 0' INT; trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done`, 130, "[0] saved\n"},
		{syscall.SIGHUP, `echo up; sleep 100`, 129, "[1] up\n"},
		{syscall.SIGTERM, `trap : TERM; echo up; while :; do sleep 0.05; done`, 137, "did not end within 500ms"},
	} {
		cmd, mark, output := launcher(t, c.sh)
		require.NoError(t, cmd.Process.Signal(c.signal))
		cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != c.status {
			t.Errorf("%v to %s: status %d, want %d:\n%s", c.signal, c.sh, got, c.status, output())
		}
		want(t, c.sh, output(), c.want)
		nothing(t, mark)
	}
}

// A second Ctrl-C kills.
func TestInterruptTwice(t *testing.T) {
	cmd, mark, output := launcher(t, `trap 'echo no' INT; echo up; while :; do sleep 0.05; done`)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.Eventually(t, func() bool { return strings.Count(output(), "] no\n") == 3 }, 90*time.Second, 5*time.Millisecond, "the first Ctrl-C did not reach all")
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 137 {
		t.Errorf("status %d, want 137:\n%s", got, output())
	}
	nothing(t, mark)
}

// Ranks are told the deadline of the launcher's option, or else of its environment, also
// ranks on other machines, which do not have that environment.
func TestDeadline(t *testing.T) {
	for _, hosts := range [][]hostfile.Host{nil, {{SSH: "elsewhere", IPs: []string{"127.0.0.1"}}}} {
		o := Options{Ranks: 1, Hosts: hosts, Shell: []string{"/bin/sh", "-c", `exec env -i "PATH=$PATH" sh -c "$2"`, "ssh"}}
		t.Setenv("GOMOE_DEADLINE", "1m0s")
		want(t, "standard output", launch(t, o, "echo wait $GOMOE_DEADLINE").stdout, "wait 1m0s")
		o.Deadline = 5 * time.Second
		want(t, "standard output", launch(t, o, "echo wait $GOMOE_DEADLINE").stdout, "wait 5s")
		t.Setenv("GOMOE_DEADLINE", "5")
		o.Deadline = 0
		require.ErrorContains(t, launch(t, o, "true").err, "environ: GOMOE_DEADLINE=5: want a number with its unit")
	}
}
