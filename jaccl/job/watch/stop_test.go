//go:build linux || darwin

package watch

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/link"
)

// A process that is stopped is lost when it has been silent for long enough, and not
// before. A process that continues before that is not lost.
func TestStopped(t *testing.T) {
	t.Parallel()
	j := processes(t, 3, 5*time.Second)
	stopped := j.cmds[0].Process
	require.NoError(t, stopped.Signal(syscall.SIGSTOP))
	up(t, j.w, time.Second)
	require.NoError(t, stopped.Signal(syscall.SIGCONT))
	up(t, j.w, 5*time.Second)

	begin := time.Now()
	require.NoError(t, stopped.Signal(syscall.SIGSTOP))
	n := down(t, j.w)
	if n.Kind != link.KindLost || !slices.Equal(n.Blame, []int{1}) || !strings.HasPrefix(n.Text, "rank 1 (host1) does not answer: nothing has come from it for ") {
		t.Errorf("%+v", n)
	}
	if d := time.Since(begin); d < 2*time.Second {
		t.Errorf("it was known after %v, want 5 s but for a heartbeat", d)
	}
	if s := j.out[1]; !s.Scan() || !strings.HasPrefix(s.Text(), fmt.Sprint("down ", link.KindLost, " rank 1 (host1) does not answer")) {
		t.Errorf("rank 2 says %q", s.Text())
	}
}
