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
)

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
