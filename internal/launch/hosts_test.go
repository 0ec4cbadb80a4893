package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

// fleet is a command that reaches hosts as standIn's does. A host that has a file of its name in dir is not reached, and the
// command says what is in the file.
func fleet(t *testing.T) (shell []string, dir string, hosts []hostfile.Host) {
	shells(t)
	dir = t.TempDir()
	path := filepath.Join(t.TempDir(), "ssh")
	text := fmt.Sprintf("#!/bin/sh\n[ -e %[1]s/$1 ] && { cat %[1]s/$1 >&2; exit 255; }\nexec env -i PATH=\"$PATH\" HOST=\"$1\" /bin/sh -c \"$2\"\n", dir)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	for i, name := range []string{"a", "b", "c", "d"} {
		row := make([][]string, 4)
		for k := range row {
			row[k] = []string{fmt.Sprintf("%d-%d", i, k)}
		}
		hosts = append(hosts, hostfile.Host{SSH: name, IPs: []string{"127.0.0.1"}, RDMA: row})
	}
	return []string{path}, dir, hosts
}

// A job is started again on the hosts that answer, with as many ranks on each, and takes hosts in again that are back.
func TestFewerHosts(t *testing.T) {
	shell, dir, hosts := fleet(t)
	// Host c goes in the first run, and is back in the third.
	r := launch(t, Options{Ranks: 8, Hosts: hosts, MinHosts: 2, Restarts: 2, Shell: shell, Dir: dir}, `
		echo "$HOST $RANK/$WORLD_SIZE $LOCAL_RANK"
		if [ $RANK = 4 ]; then
			n=$(cat count 2>/dev/null || echo 0); echo $((n+1)) > count
			case $n in 0) touch c; exit 9;; 1) rm c; exit 8;; esac
		fi
		while [ "$(cat count 2>/dev/null)" != 3 ]; do sleep 0.05; done`)
	require.NoError(t, r.err)
	if r.status != 0 {
		t.Errorf("status %d:\n%s\n%s", r.status, r.stderr, r.stdout)
	}
	for _, line := range []string{"[4] c 4/8 0\n", "[3] b 3/6 1\n", "[4] d 4/6 0\n", "[5] d 5/6 1\n"} {
		want(t, "standard output", r.stdout, line)
	}
	require.Equal(t, 2, strings.Count(r.stdout, "[6] d 6/8 0\n"), r.stdout)
	want(t, "standard error", r.stderr, "gomoe launch: no answer from c (exit status 255)\n", "gomoe launch: the job runs on 3 of 4 hosts\n")
}

// Where the ranks say that they do not run on so many hosts, the job starts on fewer, at once and as often as need be. The
// devices are those between the hosts that are left.
func TestMisfit(t *testing.T) {
	shell, dir, hosts := fleet(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), nil, 0o644))
	sh := `[ $WORLD_SIZE = 2 ] || { echo no $WORLD_SIZE; exit 78; }; echo "$HOST $GOMOE_DEVICES"`
	r := launch(t, Options{Hosts: hosts, MinHosts: 1, Shell: shell, Dir: dir}, sh)
	require.NoError(t, r.err)
	if r.status != 0 {
		t.Errorf("status %d:\n%s", r.status, r.stderr)
	}
	want(t, "standard output", r.stdout, "no 3\n", `[0] a [[["0-0"],["0-2"]],[["2-0"],["2-2"]]]`+"\n", `[1] c [[["0-0"],["0-2"]],[["2-0"],["2-2"]]]`+"\n")
	want(t, "standard error", r.stderr, "gomoe launch: no answer from b (exit status 255)\n", "the job runs on 3 of 4 hosts\n", "FAILED: rank ", "exited with status 78", "the job runs on 2 of 4 hosts\n")

	// Too few are left, and a restart would change nothing.
	r = launch(t, Options{Hosts: hosts, MinHosts: 3, Restarts: 5, Shell: shell, Dir: dir}, sh)
	require.NoError(t, r.err)
	if r.status != 78 || strings.Contains(r.stderr, "starts again") {
		t.Errorf("status %d, want 78 and no restart:\n%s", r.status, r.stderr)
	}
	r = launch(t, Options{Ranks: 3, Restarts: 5}, sh)
	require.NoError(t, r.err)
	if r.status != 78 || strings.Contains(r.stderr, "starts again") {
		t.Errorf("status %d, want 78 and no restart:\n%s", r.status, r.stderr)
	}
}

// Hosts that are too few are waited for as long as restarts say.
func TestTooFewHosts(t *testing.T) {
	shell, dir, hosts := fleet(t)
	for name, says := range map[string]string{"a": "", "b": "debug\nPermission denied (publickey).\n", "d": ""} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(says), 0o644))
	}
	r := launch(t, Options{Hosts: hosts, MinHosts: 2, Shell: shell, Dir: dir}, `echo ran`)
	require.NoError(t, r.err)
	require.Equal(t, 1, r.status)
	require.Empty(t, r.stdout)
	want(t, "standard error", r.stderr, "no answer from a (exit status 255), b (Permission denied (publickey).), d (exit status 255)\n", "1 of 4 hosts are there, want at least 2\n")

	s := &signaller{at: "starts again", signals: make(chan os.Signal, 1)}
	status, err := Run(t.Context(), Options{Command: []string{"/bin/sh", "-c", "true"}, Hosts: hosts, MinHosts: 2, Shell: shell, Dir: dir, Restarts: 9, Stderr: s, Signals: s.signals})
	require.NoError(t, err)
	require.Equal(t, 1, status)
	want(t, "standard error", s.String(), "in 1s, restart 1 of 9\n", "ended by terminated before the restart\n")

	r = launch(t, Options{Hosts: hosts, MinHosts: 1, Shell: []string{filepath.Join(dir, "no-ssh")}, Dir: dir}, `echo ran`)
	require.NoError(t, r.err)
	require.Equal(t, 1, r.status)
	want(t, "standard error", r.stderr, "no answer from a (fork/exec "+filepath.Join(dir, "no-ssh")+": no such file or directory), b (")

	// A host that hangs does not hold up a signal, after which nothing runs: that is no success.
	hang := filepath.Join(t.TempDir(), "ssh")
	require.NoError(t, os.WriteFile(hang, []byte("#!/bin/sh\necho asked >&2; exec sleep 100\n"), 0o755))
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	var stderr strings.Builder
	status, err = Run(t.Context(), Options{Command: []string{"/bin/sh", "-c", "true"}, Hosts: hosts, MinHosts: 2, Shell: []string{hang}, Dir: dir, Restarts: 9, Stderr: &stderr, Signals: signals})
	require.NoError(t, err)
	require.Equal(t, 128+int(syscall.SIGTERM), status)
	want(t, "standard error", stderr.String(), "gomoe launch: ended by terminated before the start\n")
	// So does the end of the context, whatever its cause.
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	status, err = Run(ctx, Options{Command: []string{"/bin/sh", "-c", "true"}, Hosts: hosts, MinHosts: 2, Shell: []string{hang}, Dir: dir, Restarts: 9})
	require.NoError(t, err)
	require.Equal(t, 128+int(syscall.SIGTERM), status)

	_, err = Run(t.Context(), Options{Command: []string{"/bin/sh"}, Hosts: hosts, MinHosts: 5})
	require.EqualError(t, err, "launch: at least 5 hosts of 4, want 1 to the number of hosts, or 0 for all")
	_, err = Run(t.Context(), Options{Command: []string{"/bin/sh"}, Ranks: 2, MinHosts: 1})
	require.EqualError(t, err, "launch: at least 1 hosts of 0, want 1 to the number of hosts, or 0 for all")
}
