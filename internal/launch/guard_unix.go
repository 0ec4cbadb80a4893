//go:build unix

package launch

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// guard is a shell that kills the groups that it was told of when its input ends, which
// happens when the launcher is gone. Then it removes the launcher's folder, if there is
// one. A group that has ended is taken off the list, because its number may be reused.
type guard struct {
	cmd *exec.Cmd
	in  io.WriteCloser
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
	none, err := devNull()
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	defer none.Close()
	cmd := exec.Command("/bin/sh", "-c", "folder=$0\n"+guardScript, folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = none, none
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("launch: a shell that ends ranks without a launcher: %w", err)
	}
	return &guard{cmd, in}, nil
}

func (g *guard) add(id int)  { g.tell("+%d\n", id) }
func (g *guard) drop(id int) { g.tell("-%d\n", id) }

func (g *guard) tell(format string, id int) {
	if g != nil {
		fmt.Fprintf(g.in, format, id)
	}
}

// close ends the guard, after all groups have ended.
func (g *guard) close() {
	g.in.Close()
	stop := time.AfterFunc(drain, func() { g.cmd.Process.Kill() })
	g.cmd.Wait()
	stop.Stop()
}
