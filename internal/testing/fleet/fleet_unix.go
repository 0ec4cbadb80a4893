//go:build unix

package fleet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Fleet is the processes of a job.
type Fleet struct {
	t     *testing.T
	Procs []*Proc
}

// Proc is the process of one rank.
type Proc struct {
	Rank   int
	cmd    *exec.Cmd // nil if started by a launcher
	events chan Event
	ended  chan struct{}
	mu     sync.Mutex
	errs   strings.Builder
	status error
	pid    int // reported by a launcher's rank; guarded by mu
}

// Options configure the start of ranks.
type Options struct {
	Args map[string]string
	Env  []string // added to the test's own environment
	// EnvOf returns additions to the environment of one rank.
	EnvOf func(rank int) []string
	// In returns the words preceding the command of a rank, such as ip netns exec NAME.
	In func(rank int) []string
	// Launcher, if not nil, is a command starting all ranks at once, such as mpirun -n 3;
	// the ranks' command follows it. RankFrom is the environment variable with the number
	// of each rank.
	Launcher []string
	RankFrom string
}

// Start starts n ranks of a program. They are killed when the test ends.
func Start(t *testing.T, program string, n int, o Options) *Fleet {
	t.Helper()
	args, err := json.Marshal(o.Args)
	require.NoError(t, err)
	exe, err := os.Executable()
	require.NoError(t, err)
	f := &Fleet{t: t}
	if o.Launcher != nil {
		f.launch(program, n, string(args), exe, o)
		return f
	}
	for i := range n {
		words := []string{exe}
		if o.In != nil {
			words = append(o.In(i), exe)
		}
		p := &Proc{Rank: i, cmd: exec.Command(words[0], words[1:]...), events: make(chan Event, 1024), ended: make(chan struct{})}
		p.cmd.Env = append(append(os.Environ(), o.Env...), programVariable+"="+program, rankVariable+"="+strconv.Itoa(i),
			sizeVariable+"="+strconv.Itoa(n), argsVariable+"="+string(args), Marker+"="+t.Name())
		if o.EnvOf != nil {
			p.cmd.Env = append(p.cmd.Env, o.EnvOf(i)...)
		}
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := p.cmd.StdoutPipe()
		require.NoError(t, err)
		p.cmd.Stderr = (*tail)(p)
		require.NoError(t, p.cmd.Start())
		go func() {
			p.read(out)
			p.status = p.cmd.Wait()
			p.end()
		}()
		f.Procs = append(f.Procs, p)
	}
	t.Cleanup(func() {
		for _, p := range f.Procs {
			p.Signal(syscall.SIGKILL)
		}
		for _, p := range f.Procs {
			select {
			case <-p.ended:
			case <-time.After(2 * time.Minute):
				t.Errorf("rank %d does not end when it is killed", p.Rank)
			}
			if t.Failed() {
				t.Logf("rank %d: %v\n%s", p.Rank, p.status, p.Errors())
			}
		}
	})
	return f
}

// tail keeps the first MiB of a process's standard error.
type tail Proc

func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.errs.Len() < 1<<20 {
		w.errs.Write(b)
	}
	return len(b), nil
}

// Errors returns the standard error of the process.
func (p *Proc) Errors() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errs.String()
}

// read forwards the rank's events until its output ends.
func (p *Proc) read(from io.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			e = Event{Name: "output", At: time.Now(), Text: lines.Text()}
		}
		if e.Name == process {
			p.mu.Lock()
			p.pid, _ = strconv.Atoi(e.Text)
			p.mu.Unlock()
			continue
		}
		select {
		case p.events <- e:
		default: // the channel is full: no test reads so many events
		}
	}
}

func (p *Proc) end() {
	close(p.ended)
	close(p.events)
}

// Await returns the rank's next event with this name, dropping the events before it. It
// fails the test if there is no such event in time.
func (p *Proc) Await(t *testing.T, name string, within time.Duration) Event {
	t.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	var last []string
	for {
		select {
		case e, ok := <-p.events:
			if !ok {
				t.Fatalf("rank %d ended (%v) without saying %q; it said %q\n%s", p.Rank, p.status, name, last, p.Errors())
			}
			if e.Name == name {
				return e
			}
			last = append(last, fmt.Sprintf("%s %s", e.Name, e.Text))
		case <-timer.C:
			t.Fatalf("rank %d did not say %q within %v; it said %q\n%s", p.Rank, name, within, last, p.Errors())
		}
	}
}

// Ended waits until the process has ended, returning its status, nil if it succeeded.
func (p *Proc) Ended(t *testing.T, within time.Duration) error {
	t.Helper()
	select {
	case <-p.ended:
		return p.status
	case <-time.After(within):
		t.Fatalf("rank %d has not ended within %v\n%s", p.Rank, within, p.Errors())
		return nil
	}
}

// Signal sends a signal to the rank and all processes started by it. If a launcher has
// started the rank, only the rank gets the signal, and only after reporting the number of
// its process.
func (p *Proc) Signal(s syscall.Signal) {
	pid := p.PID()
	switch {
	case p.cmd != nil:
		syscall.Kill(-pid, s)
	case pid > 0:
		syscall.Kill(pid, s)
	}
}

// PID returns the number of the process. It is 0 for a rank that was started by a
// launcher and has not reported its number yet.
func (p *Proc) PID() int {
	if p.cmd != nil {
		return p.cmd.Process.Pid
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// CPU returns the processor time that the process has used.
func (p *Proc) CPU(t *testing.T) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(b), ") ")
	w := strings.Fields(rest)
	require.Greater(t, len(w), 12)
	user, err := strconv.ParseInt(w[11], 10, 64)
	require.NoError(t, err)
	system, err := strconv.ParseInt(w[12], 10, 64)
	require.NoError(t, err)
	return time.Duration(user+system) * (time.Second / 100) // the kernel counts in ticks of 10 ms
}
