//go:build unix

package mesh

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// syncBuffer is a buffer that a process writes and a test reads.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// A rank is killed, or stopped for longer than the deadline: every other rank ends,
// and says which one it was.
func TestDeath(t *testing.T) {
	for _, c := range []struct {
		victim int
		signal syscall.Signal
		within time.Duration
		want   string
	}{
		{2, syscall.SIGKILL, 4 * time.Second, "rank 2 has ended, or closed its connection"}, // 2 s, and as much for a busy machine
		{0, syscall.SIGKILL, 4 * time.Second, "rank 0 has ended, or closed its connection"},
		{1, syscall.SIGSTOP, 20 * time.Second, "rank 1 ("},
	} {
		t.Run(fmt.Sprint(c.victim, c.signal), func(t *testing.T) {
			p := startProcesses(t, "victim", "", 3, 1, nil)
			outs := make([]*syncBuffer, 3)
			for r, cmd := range p.cmds {
				outs[r] = &syncBuffer{}
				cmd.Stdout = outs[r]
				if c.signal == syscall.SIGSTOP {
					cmd.Env = append(cmd.Env, "RDMA_TEST_DEADLINE=1s")
				}
			}
			p.start(t)
			require.Eventually(t, func() bool {
				for _, o := range outs {
					if !strings.Contains(o.String(), "running") {
						return false
					}
				}
				return true
			}, 30*time.Second, 5*time.Millisecond)
			start := time.Now()
			victim := p.cmds[c.victim].Process
			require.NoError(t, victim.Signal(c.signal))
			ended := make(chan int, 3)
			for r := range p.cmds {
				if r != c.victim {
					go func() {
						for syscall.Kill(p.cmds[r].Process.Pid, 0) == nil {
							time.Sleep(5 * time.Millisecond)
						}
						ended <- r
					}()
				}
			}
			for range 2 {
				select {
				case r := <-ended:
					t.Logf("rank %d has ended after %v", r, time.Since(start).Round(time.Millisecond))
				case <-time.After(c.within):
					t.Errorf("a rank is still running after %v", c.within)
				}
			}
			victim.Signal(os.Kill)
			p.wait.Wait()
			for r := range p.cmds {
				if r != c.victim && (p.end[r] == nil || !strings.Contains(p.errs[r].String(), c.want)) {
					t.Errorf("rank %d: %v: %q, want %q", r, p.end[r], p.errs[r], c.want)
				}
			}
		})
	}
}

// A device that fails on one rank ends the job on all.
func TestCompletionError(t *testing.T) {
	p := startProcesses(t, "victim", "", 3, 1, nil)
	p.cmds[1].Env = append(p.cmds[1].Env, strings.ReplaceAll(find(p.cmds[1].Env, "STANDIN="), "dir=", "fail=500,status=10,dir="))
	p.start(t)
	p.wait.Wait()
	for r := range p.cmds {
		if p.end[r] == nil || !strings.Contains(p.errs[r].String(), "on rank 1: device rdma_en") || !strings.Contains(p.errs[r].String(), "status 10, remote access error") {
			t.Errorf("rank %d: %v: %q, want the status that rank 1 got", r, p.end[r], p.errs[r])
		}
	}
}

func find(env []string, prefix string) string {
	for _, e := range env {
		if strings.HasPrefix(e, prefix) {
			return e
		}
	}
	return ""
}
