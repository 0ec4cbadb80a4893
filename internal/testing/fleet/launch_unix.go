//go:build unix

package fleet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
)

// launch starts all ranks with a launcher. Their events arrive through named pipes,
// because launchers mix the output of ranks.
func (f *Fleet) launch(program string, n int, args, exe string, o Options) {
	f.t.Helper()
	dir := f.t.TempDir()
	cmd := exec.Command(o.Launcher[0], append(append([]string(nil), o.Launcher[1:]...), exe)...)
	cmd.Env = append(append(os.Environ(), o.Env...), programVariable+"="+program, sizeVariable+"="+strconv.Itoa(n),
		argsVariable+"="+args, fromVariable+"="+o.RankFrom, eventsVariable+"="+dir, Marker+"="+f.t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	all := &Proc{}
	cmd.Stdout, cmd.Stderr = (*tail)(all), (*tail)(all)
	pipe := func(i int) string { return filepath.Join(dir, strconv.Itoa(i)) }
	for i := range n {
		require.NoError(f.t, syscall.Mkfifo(pipe(i), 0o600))
	}
	require.NoError(f.t, cmd.Start())
	for i := range n {
		p := &Proc{Rank: i, events: make(chan Event, 1024), ended: make(chan struct{})}
		f.Procs = append(f.Procs, p)
		go func() {
			defer p.end()
			if r, err := os.Open(pipe(i)); err == nil { // waits until the rank opens it, or the launcher has ended
				p.read(r)
				r.Close()
			}
		}()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
		for i := range n { // so that no test waits for ranks that never began
			if w, err := os.OpenFile(pipe(i), os.O_RDWR|syscall.O_NONBLOCK, 0); err == nil {
				w.Close()
			}
		}
	}()
	f.t.Cleanup(func() {
		for _, p := range f.Procs {
			p.Signal(syscall.SIGKILL)
		}
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, 0} { // mostly, the launcher ends by itself when its ranks have ended
			select {
			case <-ended:
			case <-time.After(5 * time.Second):
				syscall.Kill(-cmd.Process.Pid, s)
				continue
			}
			break
		}
		for _, p := range f.Procs {
			select {
			case <-p.ended:
			case <-time.After(10 * time.Second):
				f.t.Errorf("rank %d does not end when it is killed", p.Rank)
			}
		}
		if f.t.Failed() {
			f.t.Logf("the launcher: %v\n%s", cmd.ProcessState, all.Errors())
		}
	})
}
