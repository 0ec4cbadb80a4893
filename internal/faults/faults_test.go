//go:build linux

package faults_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/fleet"
)

const ranks = 3

// transports are those whose ranks the World sets up without anything that has to be
// installed.
func transports() []string { return []string{"tcp", "shm"} }

// start starts ranks of a job, at addresses of this machine or of a network.
func start(t *testing.T, program string, args map[string]string, net *fleet.Network) *fleet.Fleet {
	t.Helper()
	host := "127.0.0.1"
	o := fleet.Options{Args: args}
	if net != nil {
		host, o.In = net.Address(0), net.In
	}
	coordinator := fmt.Sprintf("%s:%d", host, freePort(t))
	o.Env = []string{"GOMOE_SECRET=a secret that is only for tests", "GOMOE_COORDINATOR=" + coordinator, fmt.Sprintf("GOMOE_SIZE=%d", ranks), "GOMOE_JOB=0d7f3c9e-8a1f-4b3e-9a52-1f5f3a6f7a11"}
	o.EnvOf = func(rank int) []string { return []string{fmt.Sprintf("GOMOE_RANK=%d", rank)} }
	return fleet.Start(t, program, ranks, o)
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// survivors waits for the errors of all ranks but one and checks that they came in
// time, say what is wanted and leave nothing.
func survivors(t *testing.T, f *fleet.Fleet, victim int, since time.Time, within time.Duration, want ...string) {
	t.Helper()
	for _, p := range f.Procs {
		if p.Rank == victim {
			continue
		}
		e := p.Await(t, "failed", within+10*time.Second)
		if took := e.At.Sub(since); took > within {
			t.Errorf("rank %d learned of it after %v, want within %v", p.Rank, took, within)
		}
		for _, w := range want {
			if !strings.Contains(e.Text, w) {
				t.Errorf("rank %d says %q, want %q in it", p.Rank, e.Text, w)
			}
		}
		released(t, p)
		if err := p.Ended(t, 10*time.Second); err != nil {
			t.Errorf("rank %d: %v", p.Rank, err)
		}
	}
}

// released checks that a rank has given everything back.
func released(t *testing.T, p *fleet.Proc) {
	t.Helper()
	r := p.Await(t, "released", 10*time.Second)
	if r.More["left"] != "" || r.More["reset"] != "" {
		t.Errorf("rank %d: reset %q, leaves %s\n%s", p.Rank, r.More["reset"], r.More["left"], r.More["stacks"])
	}
}

// segments returns the files of shared memory.
func segments(t *testing.T) []string {
	files, err := filepath.Glob("/dev/shm/*")
	require.NoError(t, err)
	return files
}

func leavesNoSegments(t *testing.T) {
	before := segments(t)
	t.Cleanup(func() {
		for _, s := range segments(t) {
			if !slices.Contains(before, s) && strings.Contains(s, "gomoe") {
				t.Errorf("%s is left behind", s)
			}
		}
	})
}

// TestKilled: a rank whose process is gone is known to all within two seconds.
func TestKilled(t *testing.T) {
	leavesNoSegments(t)
	for _, transport := range transports() {
		for i, o := range operations() {
			t.Run(transport+"/"+o.name, func(t *testing.T) {
				f := start(t, "loop", map[string]string{"transport": transport, "op": o.name, "deadline": "30s"}, nil)
				for _, p := range f.Procs {
					p.Await(t, "running", 20*time.Second)
				}
				victim := i % ranks
				at := time.Now()
				f.Procs[victim].Signal(syscall.SIGKILL)
				survivors(t, f, victim, at, 2*time.Second, fmt.Sprintf("rank %d", victim), host(t), o.name+" #", "model.go:42")
			})
		}
	}
}

func host(t *testing.T) string {
	name, err := os.Hostname()
	require.NoError(t, err)
	return name
}

// TestStopped: a rank that stands still is blamed when the deadline has passed, and
// those that wait for it use no processor meanwhile.
func TestStopped(t *testing.T) {
	leavesNoSegments(t)
	const deadline = 2 * time.Second
	for _, transport := range transports() {
		for i, o := range operations() {
			t.Run(transport+"/"+o.name, func(t *testing.T) {
				t.Parallel()
				f := start(t, "loop", map[string]string{"transport": transport, "op": o.name, "deadline": deadline.String()}, nil)
				for _, p := range f.Procs {
					p.Await(t, "running", 20*time.Second)
				}
				victim := i % ranks
				at := time.Now()
				f.Procs[victim].Signal(syscall.SIGSTOP)
				time.Sleep(deadline / 4) // all wait for it now
				waiting := f.Procs[(victim+1)%ranks]
				used := waiting.CPU(t)
				time.Sleep(deadline / 4)
				if used = waiting.CPU(t) - used; used > deadline/8 {
					t.Errorf("a rank that waits for a stopped one has used %v of processor time in %v", used, deadline/4)
				}
				survivors(t, f, victim, at, deadline+2*time.Second, fmt.Sprintf("rank %d", victim), host(t), o.name+" #", "model.go:42")
			})
		}
	}
}

// TestCutOff: a rank whose packets are dropped is blamed within the deadline, on both
// sides of the cut.
func TestCutOff(t *testing.T) {
	const deadline = 2 * time.Second
	for i, o := range operations() {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			net := fleet.NewNetwork(t, ranks)
			f := start(t, "loop", map[string]string{"transport": "tcp", "op": o.name, "deadline": deadline.String()}, net)
			for _, p := range f.Procs {
				p.Await(t, "running", 20*time.Second)
			}
			victim := 1 + i%(ranks-1)
			at := time.Now()
			net.Cut(victim)
			survivors(t, f, victim, at, deadline+2*time.Second, fmt.Sprintf("rank %d", victim), o.name+" #", "model.go:42")
			e := f.Procs[victim].Await(t, "failed", deadline+10*time.Second) // it sees the others gone
			if took := e.At.Sub(at); took > deadline+2*time.Second {
				t.Errorf("the rank that was cut off learned of it after %v", took)
			}
			released(t, f.Procs[victim])
		})
	}
}

// TestHealed: a cut that heals before the deadline has no consequence.
func TestHealed(t *testing.T) {
	t.Parallel()
	net := fleet.NewNetwork(t, ranks)
	f := start(t, "slow", map[string]string{"transport": "tcp", "steps": "60", "deadline": "20s"}, net)
	time.Sleep(time.Second)
	net.Cut(1)
	time.Sleep(700 * time.Millisecond)
	net.Heal(1)
	for _, p := range f.Procs {
		p.Await(t, "done", 40*time.Second)
	}
}

// TestQuarrels: ranks that call other operations, types, sizes or orders are told, all
// of them and in the same words, and may set up the next job.
func TestQuarrels(t *testing.T) {
	leavesNoSegments(t)
	for _, transport := range transports() {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			f := start(t, "quarrels", map[string]string{"transport": transport, "deadline": "30s"}, nil)
			for _, o := range operations() {
				for _, kind := range []string{"op", "type", "size", "order"} {
					var first string
					for _, p := range f.Procs {
						p.Await(t, "quarrel", 20*time.Second)
						e := p.Await(t, "failed", 20*time.Second)
						said, _, _ := strings.Cut(e.Text, "; seen by")
						if first == "" {
							first = said
						}
						if said != first && o.name != "send_recv" { // of which each pair has its own
							t.Errorf("%s, another %s: rank %d says %q, and rank 0 %q", o.name, kind, p.Rank, said, first)
						}
						if e.More["kind"] != "mismatch" {
							t.Errorf("%s, another %s: rank %d: %s, want a mismatch", o.name, kind, p.Rank, e.Text)
						}
						for _, w := range []string{fmt.Sprintf("rank %d", ranks-1), o.name + " #7", "model.go:42"} {
							if !strings.Contains(e.Text, w) {
								t.Errorf("%s, another %s: rank %d says %q, want %q in it", o.name, kind, p.Rank, e.Text, w)
							}
						}
						released(t, p)
					}
				}
			}
			for _, p := range f.Procs {
				if err := p.Ended(t, 10*time.Second); err != nil {
					t.Errorf("rank %d: %v", p.Rank, err)
				}
			}
		})
	}
}

// TestSlow: ranks that take 1 to 100 ms longer than others get no error.
func TestSlow(t *testing.T) {
	for _, transport := range transports() {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			f := start(t, "slow", map[string]string{"transport": transport, "steps": "44", "deadline": "10s"}, nil)
			for _, p := range f.Procs {
				if e := p.Await(t, "done", 40*time.Second); e.More["left"] != "" {
					t.Errorf("rank %d leaves %s", p.Rank, e.More["left"])
				}
				if err := p.Ended(t, 10*time.Second); err != nil {
					t.Errorf("rank %d: %v", p.Rank, err)
				}
			}
		})
	}
}
