//go:build unix

package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// When the connection ends, so does the rank, with all that it has started.
func TestConnectionLost(t *testing.T) {
	shells(t)
	dir := t.TempDir()
	up := filepath.Join(dir, "up")
	p := place{host: twoHosts[0]}
	text := script(p, []string{"MARK=lost-" + dir}, dir, []string{"/bin/sh", "-c", `trap : TERM; sleep 300 & touch up; while :; do sleep 0.05; done`}, 300*time.Millisecond)
	cmd := exec.Command("/bin/sh", "-c", loader)
	var g group
	g.guard = &guard{in: nopCloser{}}
	g.prepare(cmd)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = in.Write([]byte(text))
	require.NoError(t, err)
	require.Eventually(t, func() bool { _, err := os.Stat(up); return err == nil }, 90*time.Second, 5*time.Millisecond)
	require.NotEmpty(t, marked(t, "lost-"+dir))
	require.NoError(t, in.Close())
	cmd.Wait()
	nothing(t, "lost-"+dir)
}

type nopCloser struct{}

func (nopCloser) Write(p []byte) (int, error) { return len(p), nil }
func (nopCloser) Close() error                { return nil }
