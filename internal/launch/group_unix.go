//go:build unix

package launch

import (
	"fmt"
	"io"
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

// guard is a shell that kills the groups announced to it when its input ends, which
// happens when the launcher is gone. Then it removes the launcher's folder, if there is
// one. A group that has ended is taken off the list, because its number may be reused. A
// killed shell is replaced by another one.
type guard struct {
	folder string
	ended  chan struct{} // closed when the last shell has ended
	mu     sync.Mutex
	cmd    *exec.Cmd
	in     io.WriteCloser
	groups map[int]bool
	closed bool
}

const guardScript = `trap "" HUP INT TERM QUIT
groups=
while IFS= read -r line; do
	case $line in
	+*) groups="$groups ${line#+}" ;;
	-*) set -- $groups
		groups=
		for g; do [ "$g" = "${line#-}" ] || groups="$groups $g"; done ;;
	esac
done
for g in $groups; do kill -s KILL -- "-$g"; done
[ -z "$folder" ] || rm -rf -- "$folder"`

// newGuard starts a guard, which removes folder at the end; "" means no folder. The
// terminal's Ctrl-C does not reach the guard. If there is no shell, newGuard returns nil on
// systems where the kernel kills the ranks of a dead launcher, and an error on others.
func newGuard(folder string) (*guard, error) {
	if _, err := os.Stat("/bin/sh"); err != nil && kernelKills {
		return nil, nil
	}
	g := &guard{folder: folder, groups: map[int]bool{}, ended: make(chan struct{})}
	if err := g.start(); err != nil {
		return nil, fmt.Errorf("launch: a shell that ends ranks without a launcher: %w", err)
	}
	go g.keep()
	return g, nil
}

// start starts a shell and announces all groups to it.
func (g *guard) start() error {
	none, err := devNull()
	if err != nil {
		return err
	}
	defer none.Close()
	cmd := exec.Command("/bin/sh", "-c", "folder=$0\n"+guardScript, g.folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = none, none
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		in.Close()
		return err
	}
	g.cmd, g.in = cmd, in
	for id := range g.groups {
		fmt.Fprintf(in, "+%d\n", id)
	}
	return nil
}

// keep replaces the shell when it ends before the guard is closed. If that fails, the
// launcher continues without a shell.
func (g *guard) keep() {
	defer close(g.ended)
	for {
		g.cmd.Wait()
		g.mu.Lock()
		if g.closed || g.start() != nil {
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
	}
}

func (g *guard) add(id int) {
	g.tell("+%d\n", id, func() { g.groups[id] = true })
}

func (g *guard) drop(id int) {
	g.tell("-%d\n", id, func() { delete(g.groups, id) })
}

func (g *guard) tell(format string, id int, note func()) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	note()
	fmt.Fprintf(g.in, format, id)
}

// close ends the guard, after all groups have ended.
func (g *guard) close() {
	g.mu.Lock()
	g.closed = true
	g.in.Close()
	stop := time.AfterFunc(drain, func() { g.cmd.Process.Kill() })
	g.mu.Unlock()
	<-g.ended
	stop.Stop()
}
