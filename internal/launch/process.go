package launch

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// process is a rank that was started: the rank's first process, or the command that
// reaches the rank on another machine.
type process struct {
	place
	cmd      *exec.Cmd
	out, err *lines
	began    time.Time
	copies   sync.WaitGroup // of out and err
	reads    []*os.File     // what copies read from
	control  io.WriteCloser // of a rank on another machine: carries names of signals; its end ends the rank
	group    group
}

// ended says how a rank ended.
type ended struct {
	*process
	state *os.ProcessState
	took  time.Duration
}

// start starts the command with an environment. The process inherits files, from
// descriptor 3 on.
func (p *process) start(command, env []string, dir string, files []*os.File, text string) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = dir, env, files
	p.cmd, p.began = cmd, time.Now()
	p.group.prepare(cmd)
	var closeAfter []*os.File
	defer func() {
		for _, f := range closeAfter {
			f.Close()
		}
	}()
	fail := func(err error) error {
		for _, f := range p.reads {
			f.Close()
		}
		return err
	}
	var writes [2]*os.File
	for i := range writes {
		r, w, err := os.Pipe()
		if err != nil {
			return fail(err)
		}
		p.reads, closeAfter = append(p.reads, r), append(closeAfter, w)
		writes[i] = w
	}
	cmd.Stdout, cmd.Stderr = writes[0], writes[1]
	if !p.local {
		r, w, err := os.Pipe()
		if err != nil {
			return fail(err)
		}
		cmd.Stdin, p.control = r, w
		closeAfter = append(closeAfter, r)
	}
	if err := cmd.Start(); err != nil {
		if p.control != nil {
			p.control.Close()
		}
		return fail(err)
	}
	p.group.started(cmd)
	p.copies.Go(func() { p.out.copy(p.reads[0]) })
	p.copies.Go(func() { p.err.copy(p.reads[1]) })
	if p.control != nil {
		// If the process ends without reading it all, its exit status says so.
		p.copies.Go(func() { io.WriteString(p.control, text) })
	}
	return nil
}

// wait returns when the rank, and everything that it started on this machine, has
// ended.
func (p *process) wait() ended {
	p.cmd.Wait() // the process state has its error
	took := time.Since(p.began)
	p.group.end()
	p.group.gone()
	if p.control != nil {
		p.control.Close()
	}
	// Processes that have left the group on purpose may still hold the pipes.
	stop := time.AfterFunc(drain, func() {
		for _, r := range p.reads {
			r.Close()
		}
	})
	p.copies.Wait()
	stop.Stop()
	for _, r := range p.reads {
		r.Close()
	}
	return ended{p, p.cmd.ProcessState, took}
}

// drain is how long output may still arrive after a rank's end.
const drain = 2 * time.Second

// signal passes a signal on to the rank and everything that it started.
func (p *process) signal(s os.Signal) {
	if p.control == nil {
		p.group.signal(s)
		return
	}
	if name := signalName(s); name != "" {
		// A few names of signals fit into the pipe. If the other side does not
		// read any more, kill ends it.
		if f, ok := p.control.(*os.File); ok {
			f.SetWriteDeadline(time.Now().Add(time.Second))
		}
		io.WriteString(p.control, name+"\n")
	}
}

// kill ends the rank. On another machine the end of its input ends it; the command
// that reaches that machine is killed here.
func (p *process) kill() {
	if p.control == nil {
		p.group.end()
		return
	}
	p.signal(os.Kill)
	p.control.Close()
	p.group.signalLater(killRemote)
}

// killRemote is how long the command that reaches another machine has to return
// the exit status of a rank that was killed there.
const killRemote = 2 * time.Second

// ok reports whether the rank succeeded.
func (e ended) ok() bool { return e.state.ExitCode() == 0 }

// status returns the exit status of the job if this rank decides it.
func (e ended) status() int {
	if n, _ := endedBy(e.state); n > 0 {
		return 128 + n
	}
	return e.state.ExitCode()
}

// String says how the rank ended.
func (e ended) String() string {
	n, name := endedBy(e.state)
	code := e.state.ExitCode()
	switch {
	case n > 0 && e.local:
		return fmt.Sprintf("rank %d was ended by %s", e.job.Rank, name)
	case n > 0:
		return fmt.Sprintf("rank %d on %s: %s was ended by %s", e.job.Rank, e.where(), e.cmd.Args[0], name)
	case code == 0:
		return fmt.Sprintf("rank %d is done", e.job.Rank)
	case e.local:
		return fmt.Sprintf("rank %d exited with status %d", e.job.Rank, code)
	case code == 255:
		return fmt.Sprintf("rank %d on %s: %s exited with status 255, as ssh does when it does not get there", e.job.Rank, e.where(), strings.Join(e.cmd.Args[:len(e.cmd.Args)-1], " "))
	case code > 128 && code < 128+65:
		return fmt.Sprintf("rank %d on %s exited with status %d, as by signal %d", e.job.Rank, e.where(), code, code-128)
	}
	return fmt.Sprintf("rank %d on %s exited with status %d", e.job.Rank, e.where(), code)
}
