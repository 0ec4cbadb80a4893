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

// group is the process group of a rank. Its leader is the rank's first process.
type group struct {
	guard *guard
	mu    sync.Mutex
	id    int // 0 before starting the group and after its end
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

// signalLater kills the group after d, unless it has ended by then.
func (g *group) signalLater(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.later == nil && g.id > 0 {
		g.later = time.AfterFunc(d, func() { g.signal(syscall.SIGKILL) })
	}
}

// end kills the remaining processes of the group. The group's number may be reused once
// its leader has been waited for and no member is left, but not within the moment before
// gone is called.
func (g *group) end() {
	g.signal(syscall.SIGKILL)
}

// gone records that the leader has been waited for.
func (g *group) gone() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.later != nil {
		g.later.Stop()
	}
	g.guard.drop(g.id)
	g.id = 0
}

// endedBy returns the number and the name of the signal that ended a process, 0 if there
// was none.
func endedBy(s *os.ProcessState) (int, string) {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return int(w.Signal()), unix.SignalName(w.Signal())
	}
	return 0, ""
}

// signalName returns the kill command's name of a signal. It is empty for signals that a
// launcher does not get.
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

// inherits tells that processes can inherit open files.
const inherits = true
