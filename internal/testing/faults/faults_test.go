//go:build linux

package faults_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/testing/fleet"
	"github.com/gomoe/gomoe/world"
)

// patience is how long tests wait for what a working program does soon: on a machine
// that is busy that may take long, and only a hang takes longer.
const patience = 2 * time.Minute

// survivors waits for the errors of all ranks except victim. It checks that they came in
// time and say what is wanted, and that the ranks leave nothing behind.
func survivors(t *testing.T, j *job, victim int, since time.Time, within time.Duration, want ...string) {
	t.Helper()
	for _, p := range j.Procs {
		if p.Rank == victim {
			continue
		}
		e := p.Await(t, "failed", within+patience)
		if took := e.At.Sub(since); took > within {
			t.Errorf("rank %d learned of it after %v, want within %v", p.Rank, took, within)
		}
		for _, w := range want {
			if !strings.Contains(e.Text, w) {
				t.Errorf("rank %d says %q, want %q in it", p.Rank, e.Text, w)
			}
		}
		if blame := fmt.Sprint([]int{victim}); j.transport.told && e.More["blame"] != blame {
			t.Errorf("rank %d blames %s, want %s: %s", p.Rank, e.More["blame"], blame, e.Text)
		}
		j.released(t, p)
		if err := p.Ended(t, patience); err != nil {
			t.Errorf("rank %d: %v", p.Rank, err)
		}
		d := j.recorded(t, p.Rank)
		if last := d.Ops[max(0, len(d.Ops)-1):]; !strings.HasPrefix(d.Why, "failed: ") || len(last) == 0 || last[0].State != "failed" {
			t.Errorf("rank %d has recorded, as %q, last %+v, want the operation that failed", p.Rank, d.Why, last)
		}
	}
}

// released checks that a rank has given everything back.
func (j *job) released(t *testing.T, p *fleet.Proc) {
	t.Helper()
	if !j.transport.release {
		return
	}
	r := p.Await(t, "released", patience)
	if r.More["left"] != "" || r.More["reset"] != "" {
		t.Errorf("rank %d: reset %q, leaves %s\n%s", p.Rank, r.More["reset"], r.More["left"], r.More["stacks"])
	}
}

// blames returns what the errors of survivors must say about victim and the operation.
func (j *job) blames(t *testing.T, victim int, op string) []string {
	says := []string{called(op), "model.go:42"}
	if j.transport.told {
		says = append(says, fmt.Sprintf("rank %d", victim), host(t))
	}
	return says
}

// called is how errors name an operation. When send is tested, a rank may be in recv.
func called(op string) string {
	if op == "send" {
		return " #"
	}
	return op + " #"
}

// TestKilled: if a rank's process is gone, all others learn of it long before their deadline.
func TestKilled(t *testing.T) {
	leavesNoSegments(t)
	for _, c := range cells(killed) {
		for i, op := range c.has {
			t.Run(c.name+"/"+op, func(t *testing.T) {
				t.Parallel()
				j := start(t, "loop", c, map[string]string{"op": op, "deadline": "10m"}, nil)
				for _, p := range j.Procs {
					p.Await(t, "running", patience)
				}
				victim := i % ranks
				at := time.Now()
				j.Procs[victim].Signal(syscall.SIGKILL)
				survivors(t, j, victim, at, patience, j.blames(t, victim, op)...)
			})
		}
	}
}

// TestStopped: a rank that is stopped is blamed when the deadline has passed, and a rank
// that waits for it uses almost no processor time meanwhile.
func TestStopped(t *testing.T) {
	leavesNoSegments(t)
	const deadline = 5 * time.Second
	for _, c := range cells(stopped) {
		for i, op := range c.has {
			t.Run(c.name+"/"+op, func(t *testing.T) {
				t.Parallel()
				j := start(t, "loop", c, map[string]string{"op": op, "deadline": deadline.String()}, nil)
				for _, p := range j.Procs {
					p.Await(t, "running", patience)
				}
				victim := i % ranks
				at := time.Now()
				j.Procs[victim].Signal(syscall.SIGSTOP)
				time.Sleep(deadline / 4) // all wait for the victim now
				waiting := j.Procs[(victim+1)%ranks]
				used := waiting.CPU(t)
				time.Sleep(deadline / 4)
				if used = waiting.CPU(t) - used; used > deadline/8 {
					t.Errorf("a rank that waits for a stopped one has used %v of processor time in %v", used, deadline/4)
				}
				says := j.blames(t, victim, op)
				switch {
				case c.name == "ring":
					says = append(says, "bytes to come from rank ")
				case c.name == "jaccl":
					says = append(says, "bytes to come from it")
				case c.name != "shm" && !slices.Contains([]string{"barrier", "split", "broadcast", "send"}, op):
					// Barrier and split move no bytes, and a rank that only sends may have handed everything to the system.
					says = append(says, "bytes outstanding")
				}
				survivors(t, j, victim, at, deadline+patience, says...)
			})
		}
	}
}

// TestChain: rank 0 waits for rank 2, which waits for rank 1. Nobody blames rank 2,
// whether rank 1 is stopped or does something else.
func TestChain(t *testing.T) {
	leavesNoSegments(t)
	const deadline = 5 * time.Second
	for _, over := range transports() {
		if world.TransportOf(over.name).Tag != "" && !native || !over.told || over.name == "mpi" { // ring and jaccl have no groups; MPI has one job per process
			continue
		}
		for _, stop := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stopped=%v", over.name, stop), func(t *testing.T) {
				t.Parallel()
				j := start(t, "chain", over, map[string]string{"deadline": deadline.String()}, nil)
				j.Procs[1].Await(t, "running", patience)
				want := []string{"barrier #", "model.go:42", "rank 1", host(t)}
				if stop {
					j.Procs[1].Signal(syscall.SIGSTOP)
				} else {
					want = append(want, "rank 2 (it waits in barrier #2 f32 98304 bytes (model.go:42) among ranks [1 2]) did not arrive within 5s at barrier #0", "rank 1 is waited for: it is in no operation")
				}
				survivors(t, j, 1, time.Now(), deadline+patience, want...)
			})
		}
	}
}

// TestClosed: ranks that use a group after another rank has closed it, or has closed its
// communicator, are told at once, long before their deadline.
func TestClosed(t *testing.T) {
	for _, over := range transports() {
		if world.TransportOf(over.name).Tag != "" && !native || world.TransportOf(over.name).MLX { // they have only one group, and only the connections that carry data
			continue
		}
		for what, says := range map[string]string{"group": "its end of the group of ranks [0 1 2]", "communicator": "its communicator"} {
			t.Run(over.name+"/"+what, func(t *testing.T) {
				t.Parallel()
				j := start(t, "closing", over, map[string]string{"deadline": "10m", "close": what}, nil)
				at := j.Procs[1].Await(t, "closed", patience).At
				for _, r := range []int{0, 2} {
					e := j.Procs[r].Await(t, "failed", patience)
					if took := e.At.Sub(at); took > patience {
						t.Errorf("rank %d learned of it after %v", r, took)
					}
					for _, w := range []string{"rank 1 has closed " + says + " (rank 1 is on " + host(t) + ")", "all_sum #1", "model.go:42"} {
						if !strings.Contains(e.Text, w) {
							t.Errorf("rank %d says %q, want %q in it", r, e.Text, w)
						}
					}
					if e.More["kind"] != "closed" || e.More["blame"] != "[1]" {
						t.Errorf("rank %d: %s, blame %s, want closed by rank 1", r, e.More["kind"], e.More["blame"])
					}
					j.released(t, j.Procs[r])
				}
			})
		}
	}
}

// TestDump: a signal to one rank makes all ranks write down what they are doing, and
// has no other effect.
func TestDump(t *testing.T) {
	for _, over := range transports()[:2] {
		t.Run(over.name, func(t *testing.T) {
			t.Parallel()
			j := start(t, "slow", over, map[string]string{"steps": "40", "deadline": "20s"}, nil)
			for _, p := range j.Procs {
				p.Await(t, "begun", patience)
			}
			j.Procs[1].Signal(syscall.SIGUSR1)
			for _, p := range j.Procs {
				p.Await(t, "done", patience)
				why := "rank 1 asked for it"
				if p.Rank == 1 {
					why = "signal"
				}
				if d := j.recorded(t, p.Rank); d.Why != why {
					t.Errorf("rank %d has written its record as %q, want %q", p.Rank, d.Why, why)
				}
			}
		})
	}
}

// TestRefused: operations that MLX's ring does not have are refused on the rank that calls
// them. The job goes on, and no rank writes a record as it does after a failure.
func TestRefused(t *testing.T) {
	t.Parallel()
	j := start(t, "refused", over("ring"), map[string]string{"deadline": "20s"}, nil)
	for _, p := range j.Procs {
		if e := p.Await(t, "refused", patience); e.Text != "[all_gather_v reduce_scatter all_to_all broadcast split]" {
			t.Errorf("rank %d: %s were refused", p.Rank, e.Text)
		}
		if err := p.Ended(t, patience); err != nil {
			t.Errorf("rank %d: %v", p.Rank, err)
		}
		if files, err := os.ReadDir(j.flight); err != nil || len(files) > 0 {
			t.Errorf("rank %d or another has written %v (%v), want no record", p.Rank, files, err)
		}
	}
}

// TestCutOff: soon after the deadline, the other ranks blame a rank whose packets are
// dropped, and that rank gets an error too.
func TestCutOff(t *testing.T) {
	leavesNoSegments(t)
	const deadline = 5 * time.Second
	for _, c := range cells(cutOff) {
		for i, op := range c.has {
			t.Run(c.name+"/"+op, func(t *testing.T) {
				t.Parallel()
				j := start(t, "loop", c, map[string]string{"op": op, "deadline": deadline.String()}, fleet.NewNetwork(t, ranks))
				for _, p := range j.Procs {
					p.Await(t, "running", patience)
				}
				victim := 1 + i%(ranks-1)
				at := time.Now()
				j.cut(t, victim)
				says := []string{called(op), "model.go:42"}
				if c.told {
					on := host(t)
					if c.name == "mpi" { // see mpirun
						on = fmt.Sprintf("host%d", victim+1)
					}
					says = append(says, fmt.Sprintf("rank %d", victim), on)
				}
				survivors(t, j, victim, at, deadline+patience, says...)
				e := j.Procs[victim].Await(t, "failed", deadline+patience) // to the victim the others are gone
				if took := e.At.Sub(at); took > deadline+patience {
					t.Errorf("the rank that was cut off learned of it after %v", took)
				}
				j.released(t, j.Procs[victim])
				j.net.Heal(victim) // so that a launcher can end its daemon
			})
		}
	}
}

// cut cuts a rank off from the others.
func (j *job) cut(t *testing.T, victim int) {
	t.Helper()
	j.net.Cut(victim)
	if j.wires != nil {
		j.wires.Cut(t, victim)
	}
}

// TestHealed: a cut that heals before the deadline has no effect, also if the deadline is
// long.
func TestHealed(t *testing.T) {
	for deadline, cut := range map[string]time.Duration{"20s": 700 * time.Millisecond, "60s": 17 * time.Second} {
		t.Run(deadline, func(t *testing.T) {
			t.Parallel()
			net := fleet.NewNetwork(t, ranks)
			j := start(t, "slow", over("tcp"), map[string]string{"steps": "60", "deadline": deadline}, net)
			time.Sleep(time.Second)
			net.Cut(1)
			time.Sleep(cut)
			net.Heal(1)
			for _, p := range j.Procs {
				p.Await(t, "done", patience)
			}
		})
	}
}

// TestPaused: if all ranks are stopped for longer than the deadline and then continued one
// after another, the job goes on, with ranks in processes of their own or in one process.
func TestPaused(t *testing.T) {
	const deadline = 5 * time.Second
	pause := func(t *testing.T, j *job) {
		t.Helper()
		for _, p := range j.Procs {
			p.Await(t, "begun", patience)
		}
		for range 2 {
			for _, p := range j.Procs {
				p.Signal(syscall.SIGSTOP)
			}
			time.Sleep(2 * deadline)
			for _, p := range j.Procs {
				p.Signal(syscall.SIGCONT)
				time.Sleep(30 * time.Millisecond)
			}
			time.Sleep(100 * time.Millisecond)
		}
		for _, p := range j.Procs {
			p.Await(t, "done", patience)
		}
	}
	for _, over := range transports() {
		if world.TransportOf(over.name).Tag != "" && !native || over.name == "mpi" { // mpirun itself would not be stopped
			continue
		}
		t.Run(over.name, func(t *testing.T) {
			t.Parallel()
			pause(t, start(t, "slow", over, map[string]string{"steps": "40", "deadline": deadline.String()}, nil))
		})
	}
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		pause(t, &job{Fleet: fleet.Start(t, "inside", 1, fleet.Options{Args: map[string]string{"deadline": deadline.String()}})})
	})
}

// quarrels returns the quarrels that are tested in the operations: for each job, those that
// it has one after another.
func (o transport) quarrels(ops []string) (jobs [][]quarrel) {
	var all []quarrel
	for _, op := range ops {
		for _, kind := range []string{"op", "type", "size", "order"} {
			all = append(all, quarrel{op, kind})
		}
	}
	if o.release {
		return [][]quarrel{all}
	}
	for _, q := range all { // a process can have only one job with MPI
		jobs = append(jobs, []quarrel{q})
	}
	return jobs
}

// TestQuarrels: if ranks call different operations, or with different types, sizes or
// orders, all of them get the same error, and they can set up the next job.
func TestQuarrels(t *testing.T) {
	leavesNoSegments(t)
	for _, c := range cells(another) {
		for i, job := range c.quarrels(c.has) {
			t.Run(fmt.Sprintf("%s/%d", c.name, i), func(t *testing.T) {
				t.Parallel()
				text, err := json.Marshal(job)
				require.NoError(t, err)
				j := start(t, "quarrels", c, map[string]string{"deadline": "30s", "quarrels": string(text)}, nil)
				for _, q := range job {
					j.quarrel(t, q)
				}
				for _, p := range j.Procs {
					if err := p.Ended(t, patience); err != nil {
						t.Errorf("rank %d: %v", p.Rank, err)
					}
				}
			})
		}
	}
}

// quarrel checks the errors of all ranks after a quarrel.
func (j *job) quarrel(t *testing.T, q quarrel) {
	t.Helper()
	var first string
	for _, p := range j.Procs {
		p.Await(t, "quarrel", patience)
		e := p.Await(t, "failed", patience)
		said, _, _ := strings.Cut(e.Text, "; seen by")
		if first == "" {
			first = said
		}
		if said != first && q.Op != "send_recv" && q.Op != "send" { // in these, each pair of ranks has its own error
			t.Errorf("%s, another %s: rank %d says %q, and rank 0 %q", q.Op, q.Kind, p.Rank, said, first)
		}
		if e.More["kind"] != "mismatch" {
			t.Errorf("%s, another %s: rank %d: %s, want a mismatch", q.Op, q.Kind, p.Rank, e.Text)
		}
		for _, w := range []string{fmt.Sprintf("rank %d is on %s", ranks-1, host(t)), called(q.Op) + "7", "model.go:42"} {
			if !strings.Contains(e.Text, w) {
				t.Errorf("%s, another %s: rank %d says %q, want %q in it", q.Op, q.Kind, p.Rank, e.Text, w)
			}
		}
		j.released(t, p)
	}
}

// TestSlow: ranks that take 1 to 100 ms longer than others get no error.
func TestSlow(t *testing.T) {
	for _, c := range cells(slowness) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			steps := 4 * len(c.has) // every operation four times, and every rank with every delay
			j := start(t, "slow", c, map[string]string{"steps": fmt.Sprint(steps), "deadline": "10s"}, nil)
			for _, p := range j.Procs {
				if e := p.Await(t, "done", patience); c.release && e.More["left"] != "" {
					t.Errorf("rank %d leaves %s", p.Rank, e.More["left"])
				}
				if err := p.Ended(t, patience); err != nil {
					t.Errorf("rank %d: %v", p.Rank, err)
				}
			}
		})
	}
}
