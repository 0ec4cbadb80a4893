package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
)

// illPeer crashes when it is asked for a workload, unless CURE is the second of two variables.
const illPeer = `echo '{"peer":"ill","version":"1"}'
while read -r line; do
	case $line in
	*'"op":"open"'*)
		[ "$CURE" = 2 ] || kill -${SIGNAL:-ILL} $$
		echo '{"formulations":[{"name":"cured","error":0}],"best":"cured"}' ;;
	*) echo '{"ns":[1000]}' ;;
	esac
done
`

// A peer that crashes is started again with its fallbacks, and its row says so. If all crash, too, the row has the
// signal. One that was killed is not started again: its fallbacks are about instructions.
func TestCrash(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no sh to play the peer, nor signals that end it")
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "ill.sh")
	require.NoError(t, os.WriteFile(script, []byte(illPeer), 0o644))
	for _, c := range []struct{ signal, fallbacks, want string }{
		{"ILL", "CURE=1 CURE=2", "illegal instruction; started again with CURE=2"},
		{"ILL", "CURE=1", "illegal instruction"},
		{"ILL", "", "illegal instruction"},
		{"KILL", "CURE=1 CURE=2", "killed, as the system does when memory ends"},
	} {
		crew := newCrew(dir, time.Minute, false)
		crew.peers["ill"] = peer{"ill", "", func(string, int) (*exec.Cmd, error) {
			cmd := exec.Command("sh", script)
			cmd.Env = append(os.Environ(), "SIGNAL="+c.signal)
			return cmd, nil
		}, strings.Fields(c.fallbacks)}
		b := &bench{crew: crew, rounds: 1, seconds: 0.001, dir: dir, log: func(string, ...any) {}}
		w := workload{name: "w", title: "a workload", peers: []string{"ill"}, tolerance: 1, target: 1, open: func(int) (*subject, error) {
			return &subject{in: map[string]array.Array{}, step: func() error { return nil }, close: func() error { return nil }}, nil
		}}
		rows, err := b.run(w, 1)
		require.NoError(t, err)
		require.NoError(t, crew.dismiss())
		if cured := strings.Contains(c.want, "CURE=2"); cured {
			require.Contains(t, rows[0].Crash, c.want)
			require.Empty(t, rows[0].Note)
			require.Equal(t, "cured", rows[0].Formulation)
		} else {
			require.Contains(t, rows[0].Note, c.want)
		}
		var table strings.Builder
		require.NoError(t, report{Rows: rows}.writeMarkdown(&table))
		require.Contains(t, table.String(), c.want, fmt.Sprint(c))
	}
}
