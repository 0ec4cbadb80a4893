package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

// standIn is a command that reaches "hosts" as ssh does: a shell of the user's runs
// the command line, without the launcher's environment. A host named down is not
// reached. What it is told is kept in args.
func standIn(t *testing.T) (shell []string, args string) {
	shells(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "ssh")
	args = filepath.Join(dir, "args")
	text := fmt.Sprintf(`#!/bin/sh
echo "$*" >> %s
shift # -T
if [ "$1" = down ]; then echo "ssh: connect to host down: No route to host" >&2; exit 255; fi
exec env -i PATH="$PATH" HOST="$1" /bin/sh -c "$2"
`, args)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	return []string{path, "-T"}, args
}

var twoHosts = []hostfile.Host{{SSH: "u@a", IPs: []string{"127.0.0.1"}}, {SSH: "b", IPs: []string{"127.0.0.1"}}}

func TestHosts(t *testing.T) {
	shell, args := standIn(t)
	dir := t.TempDir()
	odd := "it's $HOME\n\t\"and\" \\n %s *\n"
	r := launch(t, Options{Ranks: 4, Hosts: twoHosts, Shell: shell, Dir: dir, Env: []string{"ODD=" + odd},
		Command: []string{"/bin/sh", "-c", `echo "$HOST $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $(pwd) ${#GOMOE_SECRET} $MASTER_ADDR"; printf %s "$ODD" > odd$RANK; printf %s "$1" > arg$RANK; echo "$GOMOE_SECRET" > secret; echo err >&2`, "sh", odd}}, "")
	require.NoError(t, r.err)
	if r.status != 0 {
		t.Errorf("status %d:\n%s", r.status, r.stderr)
	}
	for i, host := range []string{"u@a", "u@a", "b", "b"} {
		want(t, "standard output", r.stdout, fmt.Sprintf("[%d] %s %d/4 %d/2 %s 64 127.0.0.1\n", i, host, i, i%2, dir))
		want(t, "standard error", r.stderr, fmt.Sprintf("[%d] err\n", i))
		for _, name := range []string{"odd", "arg"} {
			b, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(name, i)))
			require.NoError(t, err)
			if string(b) != odd {
				t.Errorf("rank %d got %s %q, want %q", i, name, b, odd)
			}
		}
	}
	secret, err := os.ReadFile(filepath.Join(dir, "secret"))
	require.NoError(t, err)
	told, err := os.ReadFile(args)
	require.NoError(t, err)
	if strings.Contains(string(told), strings.TrimSpace(string(secret))) {
		t.Errorf("the secret is an argument:\n%s", told)
	}
}

// What a hostfile says of devices gets to the ranks, as it is read there.
func TestHostsDevices(t *testing.T) {
	shell, _ := standIn(t)
	h, err := hostfile.ParseHosts([]byte(`[{"ssh": "a", "ips": ["127.0.0.1"], "rdma": [null, "rdma_en5"]}, {"ssh": "b", "rdma": [["rdma_en5"], null]}]`))
	require.NoError(t, err)
	r := launch(t, Options{Hosts: h.Hosts, Shell: shell}, `echo "$GOMOE_DEVICES"`)
	require.NoError(t, r.err)
	for i := range 2 {
		want(t, "standard output", r.stdout, fmt.Sprintf("[%d] [[null,[\"rdma_en5\"]],[[\"rdma_en5\"],null]]\n", i))
	}
	_, err = hostfile.ParseDevices([]byte(`[[null,["rdma_en5"]],[["rdma_en5"],null]]`))
	require.NoError(t, err)
}

func TestHostsFail(t *testing.T) {
	shell, _ := standIn(t)
	r := launch(t, Options{Hosts: twoHosts, Shell: shell}, `if [ $RANK = 1 ]; then sleep 0.2; echo oh >&2; exit 9; fi; sleep 100 & sleep 100`)
	if r.status != 9 {
		t.Errorf("status %d, want 9", r.status)
	}
	want(t, "standard error", r.stderr, "FAILED: rank 1 on b exited with status 9 after ", "\n    oh\n")

	// Ranks that ignore SIGTERM, on another host.
	r = launch(t, Options{Hosts: twoHosts, Shell: shell}, `if [ $RANK = 1 ]; then sleep 0.2; kill -9 $$; fi; trap 'echo no' TERM; while :; do sleep 0.05; done`)
	if r.status != 137 {
		t.Errorf("status %d, want 137", r.status)
	}
	want(t, "standard error", r.stderr, "FAILED: rank 1 on b exited with status 137, as by signal 9", "rank 0 did not end within 300ms and is killed")
	want(t, "standard output", r.stdout, "[0] no\n")

	// The rank that was killed is blamed, also if others end first.
	dir := t.TempDir()
	r = launch(t, Options{Hosts: twoHosts, Shell: shell, Dir: dir, Settle: time.Minute}, `if [ $RANK = 0 ]; then while [ ! -e seen ]; do sleep 0.01; done; sleep 0.1; kill -9 $$; fi; touch seen; exit 1`)
	if r.status != 137 {
		t.Errorf("status %d, want 137", r.status)
	}
	want(t, "standard error", r.stderr, "FAILED: rank 0 on u@a exited with status 137, as by signal 9")

	down := []hostfile.Host{twoHosts[0], {SSH: "down", IPs: []string{"127.0.0.1"}}}
	r = launch(t, Options{Hosts: down, Shell: shell}, `sleep 100`)
	if r.status != 255 {
		t.Errorf("status %d, want 255", r.status)
	}
	want(t, "standard error", r.stderr, "FAILED: rank 1 on down: ", "exited with status 255, as ssh does when it does not get there", "    ssh: connect to host down: No route to host\n")

	r = launch(t, Options{Hosts: twoHosts, Shell: shell, Command: []string{"no-such-program"}}, "")
	if r.status != 127 {
		t.Errorf("status %d, want 127", r.status)
	}
	r = launch(t, Options{Hosts: twoHosts, Shell: shell, Dir: "/no/such/folder"}, "true")
	if r.status == 0 || !strings.Contains(r.stderr, "/no/such/folder") {
		t.Errorf("status %d:\n%s", r.status, r.stderr)
	}

	// A shell that swallows what it should read is no success.
	r = launch(t, Options{Hosts: twoHosts, Shell: []string{"/bin/sh", "-c", `cat >/dev/null & exec /bin/sh -c "$2" </dev/null`, "sh"}}, "true")
	if r.status != 70 {
		t.Errorf("status %d, want 70", r.status)
	}
}
