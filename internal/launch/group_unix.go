//go:build unix

package launch

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// group is the process group of a rank, of which its first process is the leader.
type group struct {
	guard *guard
	mu    sync.Mutex
	id    int // 0 before it is started and when it has ended
	later *time.Timer
}

func (g *group) prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
}

func (g *group) started(cmd *exec.Cmd) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.id = cmd.Process.Pid
	g.guard.add(g.id)
}

// signal signals all processes of the group.
func (g *group) signal(s os.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if sig, ok := s.(syscall.Signal); ok && g.id > 0 {
		unix.Kill(-g.id, sig)
	}
}

// signalLater kills the group when d has passed, unless it has ended.
func (g *group) signalLater(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.later == nil && g.id > 0 {
		g.later = time.AfterFunc(d, func() { g.signal(syscall.SIGKILL) })
	}
}

// end kills what is left of the group. Its number may be another's when its leader
// has been waited for and no member is left, but not within the moment until gone.
func (g *group) end() {
	g.signal(syscall.SIGKILL)
}

// gone says that the leader has been waited for.
func (g *group) gone() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.later != nil {
		g.later.Stop()
	}
	g.guard.drop(g.id)
	g.id = 0
}

// endedBy returns the signal that ended a process, 0 for none.
func endedBy(s *os.ProcessState) (int, string) {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return int(w.Signal()), unix.SignalName(w.Signal())
	}
	return 0, ""
}

// signalName is what kill calls a signal, empty for others than those that a
// launcher gets.
func signalName(s os.Signal) string {
	switch s {
	case syscall.SIGTERM:
		return "TERM"
	case syscall.SIGINT:
		return "INT"
	case syscall.SIGHUP:
		return "HUP"
	case syscall.SIGKILL:
		return "KILL"
	}
	return ""
}

// inherits reports whether processes can be given open files.
const inherits = true
