package launch

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/gomoe/gomoe/world"
)

// process is a started rank: the rank's first process, or the remote command.
type process struct {
	place
	cmd      *exec.Cmd
	out, err *lines
	began    time.Time
	on       []int          // the processors on which it may run; nil means any
	copies   sync.WaitGroup // the copies of out and err
	copied   chan struct{}  // closed when the copies have ended
	reads    []*os.File     // the sources of copies
	control  io.WriteCloser // of a rank on another machine: carries names of signals; its end ends the rank
	group    group
}

// ended describes the end of a rank.
type ended struct {
	*process
	state *os.ProcessState
	took  time.Duration
}

// start starts the command with an environment. The process inherits files, starting at
// descriptor 3.
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
	if p.local {
		none, err := devNull()
		if err != nil {
			return fail(err)
		}
		cmd.Stdin = none
		closeAfter = append(closeAfter, none)
	} else {
		r, w, err := os.Pipe()
		if err != nil {
			return fail(err)
		}
		cmd.Stdin, p.control = r, w
		closeAfter = append(closeAfter, r)
	}
	begin := cmd.Start
	if p.on != nil {
		begin = func() error { return startOn(cmd, p.on) }
	}
	if err := begin(); err != nil {
		if p.control != nil {
			p.control.Close()
		}
		return fail(err)
	}
	p.group.started(cmd)
	for i, l := range []*lines{p.out, p.err} {
		p.copies.Go(func() {
			l.copy(p.reads[i])
			l.copyRest(p.reads[i])
			l.end()
		})
	}
	if p.control != nil {
		// If the process ends without reading all of it, its exit status tells.
		p.copies.Go(func() { io.WriteString(p.control, text) })
	}
	return nil
}

// devNull returns a file from which nothing can be read: /dev/null or, without one, as in
// a bare container, a pipe without a writer.
func devNull() (*os.File, error) {
	if f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		return f, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return r, w.Close()
}

// wait returns when the rank, and everything that it started on this machine, has ended.
// Its output has been forwarded then, unless there is no reader.
func (p *process) wait() ended {
	p.cmd.Wait() // the process state has its error
	took := time.Since(p.began)
	p.group.end()
	p.group.gone()
	if p.control != nil {
		p.control.Close()
	}
	for _, r := range p.reads {
		r.SetReadDeadline(time.Now()) // ends copy. On Windows it does nothing, but there no process leaves the job object.
	}
	go func() {
		p.copies.Wait()
		for _, r := range p.reads {
			r.Close()
		}
		close(p.copied)
	}()
	select {
	case <-p.copied:
	case <-time.After(drain):
	}
	return ended{p, p.cmd.ProcessState, took}
}

// drain is the time for output to arrive after a rank's end, and the time that an ending
// job waits for a reader of its output.
const drain = 2 * time.Second

// signal forwards a signal to the rank and everything that it started.
func (p *process) signal(s os.Signal) {
	if p.control == nil {
		p.group.signal(s)
		return
	}
	if name := signalName(s); name != "" {
		// A few names of signals fit into the pipe. If the other side no longer reads,
		// kill ends it.
		if f, ok := p.control.(*os.File); ok {
			f.SetWriteDeadline(time.Now().Add(time.Second))
		}
		io.WriteString(p.control, name+"\n")
	}
}

// kill ends the rank. On another machine the end of its input ends it; the remote command
// is killed here.
func (p *process) kill() {
	if p.control == nil {
		p.group.end()
		return
	}
	p.signal(os.Kill)
	p.control.Close()
	p.group.signalLater(killRemote)
}

// killRemote is the time for the remote command to return the exit status of a rank
// killed there.
const killRemote = 2 * time.Second

// signalled returns the number of the signal that ended the rank, 0 if there was none. A
// shell starting a rank, as on another machine, reports it by an exit status above 128.
func (e ended) signalled() int {
	if n, _ := endedBy(e.state); n > 0 {
		return n
	}
	if n := e.state.ExitCode() - 128; n > 0 && n <= 64 {
		return n
	}
	return 0
}

// ok reports whether the rank succeeded.
func (e ended) ok() bool { return e.state.ExitCode() == 0 }

// elsewhere reports whether the rank's status blames another rank.
func (e ended) elsewhere() bool { return e.state.ExitCode() == world.StatusElsewhere }

// end returns the time of the rank's end.
func (e ended) end() time.Time { return e.began.Add(e.took) }

// status returns the exit status of the job if this rank determines it. It is 1 if all
// ranks have ended because of others.
func (e ended) status() int {
	if n, _ := endedBy(e.state); n > 0 {
		return 128 + n
	}
	if e.elsewhere() {
		return 1
	}
	return e.state.ExitCode()
}

// String describes the end of the rank.
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
	case code == 255 && !e.local:
		return fmt.Sprintf("rank %d on %s: %s exited with status 255, as ssh does when it does not get there", e.job.Rank, e.where(), strings.Join(e.cmd.Args[:len(e.cmd.Args)-1], " "))
	}
	text := fmt.Sprintf("rank %d", e.job.Rank)
	if !e.local {
		text += " on " + e.where()
	}
	text += fmt.Sprintf(" exited with status %d", code)
	if e.elsewhere() {
		text += ", because of another rank"
	}
	if n := e.signalled(); n > 0 {
		text += fmt.Sprintf(", as by signal %d", n)
	}
	return text
}

// loader is the command running on another machine. It is an argument there, visible to
// all its users; everything else is sent on its standard input, as lines for the shell.
// Its quotes and other characters mean the same in every login shell. If the input ends
// before the script's last line, which exits, the exit status is not 0.
const loader = `exec /bin/sh -c 'while IFS= read -r l; do eval "$l"; done; exit 70'`

// script returns the loader's input for a rank. Its last line is followed by names of
// signals for the rank, one per line; the end of the input ends the rank.
//
// The rank runs in the foreground, because a shell's background commands ignore SIGINT. A
// second shell concurrently reads the input. All are in the process group made by sshd,
// which kill calls 0; the shells ignore the signals that they send to it.
func script(p place, env []string, dir string, command []string, grace time.Duration) string {
	var b strings.Builder
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		fmt.Fprintf(&b, "%s; export %s\n", assign(name, value), name)
	}
	fmt.Fprintf(&b, "%s; cd \"$d\" || exit 126\n", assign("d", dir))
	b.WriteString("set --\n")
	for _, a := range command {
		fmt.Fprintf(&b, "%s; set -- \"$@\" \"$a\"\n", assign("a", a))
	}
	// In tenths of a second: the interval at which the script checks whether the rank has
	// ended.
	tenths := max(int(grace/(100*time.Millisecond)), 1)
	fmt.Fprintf(&b, `exec 3<&0; trap : TERM HUP INT; `+
		`(trap "" TERM HUP INT; while IFS= read -r s <&3; do kill -"$s" 0; done; `+
		`kill -TERM 0; i=0; while [ $i -lt %d ] && kill -0 $$ 2>/dev/null; do sleep 0.1; i=$((i+1)); done; kill -KILL 0) >/dev/null 2>&1 & `+
		`"$@" </dev/null 3<&-; exit $?`+"\n", tenths)
	return b.String()
}

// assign returns a shell command in one line that sets a variable to any text without
// zero bytes.
func assign(name, value string) string {
	if !strings.Contains(value, "\n") {
		return name + "='" + strings.ReplaceAll(value, "'", `'\''`) + "'"
	}
	// printf undoes the backslashes. The x protects trailing newlines, which the shell
	// would drop.
	escaped := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "'", `'\''`, "%", "%%").Replace(value)
	return name + "=$(printf '" + escaped + "x'); " + name + "=${" + name + "%x}"
}
