package launch

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A job that fails is started again, with the same command and flight records of its own, until it does not fail
// or has been started again as often as was asked for.
func TestRestarts(t *testing.T) {
	t.Setenv("GOMOE_FLIGHT", "/flights")
	again := `[ $RANK = 1 ] && exit 0; n=$(cat count 2>/dev/null || echo 0); echo $((n+1)) > count; echo run $n in $GOMOE_FLIGHT; [ $n -ge 2 ] || exit 7`
	for _, c := range []struct {
		restarts, status int
		stdout, said     []string
	}{
		{0, 7, []string{"run 0 in /flights\n"}, nil},
		{1, 7, []string{"run 0 in /flights\n", "run 1 in /flights/restart-1\n"}, []string{"in 1s, restart 1 of 1"}},
		{3, 0, []string{"run 0 in /flights\n", "run 1 in /flights/restart-1\n", "run 2 in /flights/restart-2\n"}, []string{"in 1s, restart 1 of 3", "in 2s, restart 2 of 3"}},
	} {
		r := launch(t, Options{Ranks: 2, Restarts: c.restarts, Dir: t.TempDir()}, again)
		require.NoError(t, r.err)
		failures := len(c.stdout)
		if c.status == 0 {
			failures--
		}
		if got := strings.Join(c.stdout, "[0] "); r.status != c.status || r.stdout != "[0] "+got || strings.Count(r.stderr, "FAILED: rank 0 exited with status 7") != failures || strings.Count(r.stderr, "starts again") != len(c.said) {
			t.Errorf("%d restarts: status %d, want %d; standard output:\n%s\nstandard error:\n%s", c.restarts, r.status, c.status, r.stdout, r.stderr)
		}
		want(t, "standard error", r.stderr, c.said...)
	}
	// A folder that ranks are given by hand is theirs, and none stays none.
	for flight, want := range map[string]string{"/mine": "/mine/restart-1", "off": "off", "": ""} {
		r := launch(t, Options{Ranks: 1, Restarts: 1, Env: []string{"GOMOE_FLIGHT=" + flight}}, `echo "<$GOMOE_FLIGHT>"; exit 1`)
		require.NoError(t, r.err)
		require.Equal(t, "[0] <"+flight+">\n[0] <"+want+">\n", r.stdout)
	}
	_, err := Run(t.Context(), Options{Command: []string{"/bin/sh"}, Ranks: 1, Restarts: -1})
	require.EqualError(t, err, "launch: -1 restarts, want at least 0")
}

// signaller sends a signal when a text is written.
type signaller struct {
	bytes.Buffer
	at      string
	once    sync.Once
	signals chan os.Signal
}

func (s *signaller) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(s.at)) {
		s.once.Do(func() { s.signals <- syscall.SIGTERM })
	}
	return s.Buffer.Write(p)
}

// A job that is ended by a signal is not started again, neither while it runs nor before a restart.
func TestRestartsInterrupted(t *testing.T) {
	shells(t)
	for at, c := range map[string]struct{ sh, said string }{
		"running":      {"echo running >&2; sleep 100", "gomoe launch: ended by terminated; rank 0 was ended by SIGTERM"},
		"starts again": {"exit 7", "gomoe launch: ended by terminated before the restart\n"},
	} {
		s := &signaller{at: at, signals: make(chan os.Signal, 1)}
		status, err := Run(t.Context(), Options{Command: []string{"/bin/sh", "-c", c.sh}, Ranks: 1, Restarts: 20, Stderr: s, Signals: s.signals})
		require.NoError(t, err)
		if want := map[string]int{"running": 143, "starts again": 7}[at]; status != want || !strings.Contains(s.String(), c.said) {
			t.Errorf("a signal at %q: status %d, want %d and %q:\n%s", at, status, want, c.said, s)
		}
	}
}

// go run builds once for all restarts, and nothing of it is left.
func TestRestartsBuildOnce(t *testing.T) {
	dir := t.TempDir()
	tool := filepath.Join(dir, "go")
	script := "#!/bin/sh\necho build >> built\nwhile [ \"$1\" != -o ]; do shift; done\nprintf '#!/bin/sh\\necho hello; exit 1\\n' > $2\nchmod +x $2\n"
	require.NoError(t, os.WriteFile(tool, []byte(script), 0o755))
	r := launch(t, Options{Command: []string{tool, "run", "./hello"}, Ranks: 1, Restarts: 1, Dir: dir}, "")
	require.NoError(t, r.err)
	built, err := os.ReadFile(filepath.Join(dir, "built"))
	require.NoError(t, err)
	if r.stdout != "[0] hello\n[0] hello\n" || string(built) != "build\n" {
		t.Errorf("built %q; standard output:\n%s\nstandard error:\n%s", built, r.stdout, r.stderr)
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "gomoe-launch-*", "hello"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// FAILED is the rank whose own message says what has gone wrong, not one that says that another has failed, whichever ends first.
func TestElsewhere(t *testing.T) {
	other := `echo "seen elsewhere" >&2; exit 75`
	for _, c := range []struct {
		name, sh string
		status   int
		stderr   []string
	}{
		{"one says what", `[ $GOMOE_RANK != 2 ] || { sleep 0.2; echo "no space" >&2; exit 9; }; ` + other, 9,
			[]string{"gomoe launch: FAILED: rank 2 exited with status 9 after", "the last lines of rank 2's standard error:\n", "    no space\n"}},
		{"one is killed", `[ $GOMOE_RANK != 1 ] || { sleep 0.2; kill -9 $$; }; ` + other, 128 + 9,
			[]string{"gomoe launch: FAILED: rank 1 was ended by SIGKILL after"}},
		{"one is stopped", `[ $GOMOE_RANK != 3 ] || kill -STOP $$; ` + other, 128 + 9,
			[]string{"gomoe launch: FAILED: rank 3 did not end when the others had failed because of another rank; rank 3 was ended by SIGKILL after", "standard error:\n", "    seen elsewhere\n"}},
		{"all say that it is another", other, 1,
			[]string{"exited with status 75, because of another rank after", "    seen elsewhere\n"}},
	} {
		r := launch(t, Options{Ranks: 4, Settle: 2 * time.Second}, c.sh)
		require.NoError(t, r.err)
		if r.status != c.status {
			t.Errorf("%s: status %d, want %d", c.name, r.status, c.status)
		}
		want(t, c.name, r.stderr, c.stderr...)
	}
}
