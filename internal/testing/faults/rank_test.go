//go:build linux

package faults_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/fleet"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/world"
)

func TestMain(m *testing.M) {
	fleet.Main(map[string]fleet.Program{"loop": loop, "quarrels": quarrels, "slow": slow, "refused": refused, "closing": closing, "chain": chain, "inside": inside})
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		p.Value.Set("12") // the tests wait most of the time
	}
	done := prepare()
	code := m.Run()
	done()
	os.Exit(code)
}

// operation is a collective as the tests call it, with n bytes per rank.
type operation struct {
	name string
	run  func(ctx context.Context, g jaccl.Group, c collective.Call, n int) error
}

func operations() []operation {
	parts := func(n, size int) (p [][]byte) {
		for range size {
			p = append(p, make([]byte, n))
		}
		return p
	}
	return []operation{
		{"all_sum", func(ctx context.Context, g jaccl.Group, c collective.Call, n int) error {
			return g.AllSum(ctx, c, make([]byte, n), make([]byte, n))
		}},
		{"all_max", func(ctx context.Context, g jaccl.Group, c collective.Call, n int) error {
			return g.AllMax(ctx, c, make([]byte, n), make([]byte, n))
		}},
		{"all_min", func(ctx context.Context, g jaccl.Group, c collective.Call, n int) error {
			return g.AllMin(ctx, c, make([]byte, n), make([]byte, n))
		}},
		{"all_gather", func(ctx context.Context, g jaccl.Group, c collective.Call, n int) error {
			return g.AllGather(ctx, c, make([]byte, n*g.Size()), make([]byte, n))
		}},
		{"all_gather_v", func(ctx context.Context, g jaccl.Group, c collective.Call, n int) error {
			return g.AllGatherV(ctx, c, parts(n, g.Size()), make([]byte, n))
		}},
		{"reduce_scatter", func(ctx context.Context, g jaccl.Group, c collective.Call, n int) error {
			return g.ReduceScatter(ctx, c, make([]byte, n), make([]byte, n*g.Size()))
		}},
		{"all_to_all", func(ctx context.Context, g jaccl.Group, c collective.Call, n int) error {
			return g.AllToAll(ctx, c, parts(n, g.Size()), parts(n, g.Size()))
		}},
		{"broadcast", func(ctx context.Context, g jaccl.Group, c collective.Call, n int) error {
			return g.Broadcast(ctx, c, 0, make([]byte, n))
		}},
		{"send_recv", func(ctx context.Context, g jaccl.Group, c collective.Call, n int) error {
			next, before := (g.Rank()+1)%g.Size(), (g.Rank()+g.Size()-1)%g.Size()
			return g.SendRecv(ctx, c, next, make([]byte, n), before, make([]byte, n))
		}},
		{"send", func(ctx context.Context, g jaccl.Group, c collective.Call, n int) error { // tests recv too
			next, before := (g.Rank()+1)%g.Size(), (g.Rank()+g.Size()-1)%g.Size()
			send := func() error { c.Op = "send"; return g.Send(ctx, c, next, make([]byte, n)) }
			recv := func() error { c.Op = "recv"; return g.Recv(ctx, c, before, make([]byte, n)) }
			if g.Rank()%2 > 0 {
				send, recv = recv, send
			}
			if err := send(); err != nil {
				return err
			}
			return recv()
		}},
		{"barrier", func(ctx context.Context, g jaccl.Group, c collective.Call, n int) error { return g.Barrier(ctx, c) }},
		{"split", func(ctx context.Context, g jaccl.Group, c collective.Call, n int) error {
			_, err := g.Split(ctx, c, 0, 0)
			return err
		}},
	}
}

func named(name string) operation {
	for _, o := range operations() {
		if o.name == name {
			return o
		}
	}
	panic("no operation " + name)
}

const bytesPerRank = 96 << 10

func call(op string, seq int) collective.Call {
	return collective.Call{Op: op, Seq: seq, DType: graph.F32, Bytes: bytesPerRank, Pos: graph.Pos{File: "model.go", Line: 42}}
}

// held counts what a process holds and must give back.
type held struct{ goroutines, files int }

func holding() held {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		files = nil
	}
	return held{runtime.NumGoroutine(), len(files)}
}

// settle waits up to a minute until the process holds no more than before, and returns
// what it holds then.
func settle(before held) held {
	end := time.Now().Add(time.Minute)
	for {
		now := holding()
		if now.goroutines <= before.goroutines && now.files <= before.files || time.Now().After(end) {
			return now
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (h held) String() string { return fmt.Sprintf("%d goroutines, %d files", h.goroutines, h.files) }

// join sets the World up and returns the group of all ranks.
func join(r *fleet.Rank, w *world.World) (jaccl.Communicator, error) {
	deadline, err := time.ParseDuration(r.Args["deadline"])
	if err != nil {
		return nil, err
	}
	if err := w.Setup(context.Background(), world.Config{Mode: world.PerProcess, Transport: r.Args["transport"], Deadline: deadline}); err != nil {
		return nil, err
	}
	comms, err := w.Communicators()
	if err != nil {
		return nil, err
	}
	return comms[0], nil
}

// report tells the test how the rank's job ended, resets the World, and tells the test
// what is left of the job.
func report(r *fleet.Rank, w *world.World, err error, before held) {
	more := map[string]string{}
	for name, kind := range map[string]error{"lost": jaccl.ErrLost, "deadline": jaccl.ErrDeadline, "mismatch": jaccl.ErrMismatch, "closed": jaccl.ErrClosed} {
		if errors.Is(err, kind) {
			more["kind"] = name
		}
	}
	if e := (*jaccl.Error)(nil); errors.As(err, &e) {
		more["blame"] = fmt.Sprint(e.Blame)
		more["outstanding"] = fmt.Sprint(e.Outstanding)
	}
	text := "no error"
	if err != nil {
		text = err.Error()
	}
	r.Say("failed", text, more)
	if err := w.Reset(); err != nil {
		more["reset"] = err.Error()
	}
	if r.Args["transport"] == "mpi" { // MPI keeps what it has allocated until the process ends
		return
	}
	if now := settle(before); now.goroutines > before.goroutines || now.files > before.files {
		more["left"] = fmt.Sprintf("%v before, %v after", before, now)
		buf := make([]byte, 1<<16)
		more["stacks"] = string(buf[:runtime.Stack(buf, true)])
	}
	r.Say("released", "", more)
}

// loop calls an operation again and again until it fails.
func loop(r *fleet.Rank) error {
	o := named(r.Args["op"])
	before := warm()
	if r.Args["transport"] == "mpi" {
		signal.Ignore(syscall.SIGTERM) // mpirun sends it to the others when a rank has ended
	}
	var w world.World
	c, err := join(r, &w)
	if err != nil {
		return err
	}
	g := c.World()
	for seq := 0; ; seq++ {
		if err := o.run(context.Background(), g, call(o.name, seq), bytesPerRank); err != nil {
			report(r, &w, err, before)
			return finish(r, &w)
		}
		if seq == 20 {
			r.Say("running", "", nil)
		}
		time.Sleep(time.Millisecond) // other tests need the processor too
	}
}

// chain makes rank 0 wait for rank 2 and rank 2 wait for rank 1, which only sleeps.
func chain(r *fleet.Rank) error {
	before := warm()
	var w world.World
	c, err := join(r, &w)
	if err != nil {
		return err
	}
	if r.Rank == 1 {
		r.Say("running", "", nil)
		time.Sleep(time.Minute)
		return nil
	}
	g, err := c.Among([]int{r.Rank / 2, 2})
	if err != nil {
		return err
	}
	if r.Rank == 2 { // rank 0 has waited for longer, also on a busy machine
		deadline, err := time.ParseDuration(r.Args["deadline"])
		if err != nil {
			return err
		}
		time.Sleep(deadline / 2)
	}
	report(r, &w, g.Barrier(context.Background(), call("barrier", r.Rank)), before)
	return w.Close()
}

// inside runs two ranks in one process; one waits for the other for half of the deadline.
func inside(r *fleet.Rank) error {
	deadline, err := time.ParseDuration(r.Args["deadline"])
	if err != nil {
		return err
	}
	comms, err := engine.Local(2, jaccl.Options{Deadline: deadline})
	if err != nil {
		return err
	}
	r.Say("begun", "", nil)
	errs := make(chan error)
	for i, c := range comms {
		go func() {
			time.Sleep(time.Duration(i) * deadline / 2)
			errs <- c.World().Barrier(context.Background(), call("barrier", 0))
		}()
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		return err
	}
	r.Say("done", "", nil)
	return nil
}

// closing makes rank 1 close a group, or its communicator, while the others go on to use it.
func closing(r *fleet.Rank) error {
	before := warm()
	var w world.World
	c, err := join(r, &w)
	if err != nil {
		return err
	}
	g, o := c.World(), named("all_sum")
	if err := o.run(context.Background(), g, call("all_sum", 0), bytesPerRank); err != nil {
		return err
	}
	if r.Rank == 1 {
		closes := g.Close
		if r.Args["close"] == "communicator" {
			closes = c.Close
		}
		err := closes()
		r.Say("closed", "", nil)
		time.Sleep(5 * time.Minute) // the others learn of it; the test ends this process
		return err
	}
	report(r, &w, o.run(context.Background(), g, call("all_sum", 1), bytesPerRank), before)
	return finish(r, &w)
}

// refused calls all operations, and tells the test which of them the transport lacks.
func refused(r *fleet.Rank) error {
	var w world.World
	c, err := join(r, &w)
	if err != nil {
		return err
	}
	var none []string
	for seq, o := range operations() {
		switch err := o.run(context.Background(), c.World(), call(o.name, seq), bytesPerRank); {
		case errors.Is(err, jaccl.ErrUnsupported):
			none = append(none, o.name)
		case err != nil:
			return err
		}
	}
	r.Say("refused", fmt.Sprint(none), nil)
	return w.Close()
}

// warm makes Go start what it starts once per process, such as the poller of connections,
// and returns what the process holds then.
func warm() held {
	p, q, err := os.Pipe()
	if err == nil {
		p.SetDeadline(time.Now())
		p.Close()
		q.Close()
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGWINCH)
	signal.Stop(signals)
	return holding()
}

// quarrel is an operation that the last rank calls differently from the others. Kind says
// what differs: op, type, size or order.
type quarrel struct{ Op, Kind string }

// quarrels sets up a World for every quarrel, each after the one before has failed.
func quarrels(r *fleet.Rank) error {
	before := warm()
	var all []quarrel
	if err := json.Unmarshal([]byte(r.Args["quarrels"]), &all); err != nil {
		return err
	}
	var w world.World
	for _, q := range all {
		c, err := join(r, &w)
		if err != nil {
			return fmt.Errorf("set up for %s, another %s: %w", q.Op, q.Kind, err)
		}
		mine, x, n := named(q.Op), call(q.Op, 7), bytesPerRank
		if r.Rank == r.Size-1 {
			switch q.Kind {
			case "op":
				mine = named("all_gather")
				if q.Op == mine.name {
					mine = named("all_sum")
				}
				x.Op = mine.name
			case "type":
				x.DType = graph.I32
			case "size":
				x.Bytes, n = 2*x.Bytes, 2*n
			case "order":
				x.Seq++
			}
		}
		err = mine.run(context.Background(), c.World(), x, n)
		r.Say("quarrel", q.Op+" "+q.Kind, nil)
		report(r, &w, err, before)
	}
	return finish(r, &w)
}

// finish closes the World of a job that has failed. It drops the error of MPI, which says
// that it is not finalized.
func finish(r *fleet.Rank, w *world.World) error {
	if err := w.Close(); r.Args["transport"] != "mpi" {
		return err
	}
	return nil
}

// slow delays the ranks before each operation, each by a different time, and checks that
// no operation fails.
func slow(r *fleet.Rank) error {
	before := warm()
	var w world.World
	c, err := join(r, &w)
	if err != nil {
		return err
	}
	g := c.World()
	steps, err := strconv.Atoi(r.Args["steps"])
	if err != nil {
		return err
	}
	var has []operation
	for _, name := range over(r.Args["transport"]).has {
		has = append(has, named(name))
	}
	for seq := range steps {
		time.Sleep([]time.Duration{0, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond}[(seq+seq/len(has)+r.Rank)%4])
		o := has[seq%len(has)]
		if seq == 1 {
			r.Say("begun", "", nil)
		}
		if err := o.run(context.Background(), g, call(o.name, seq), bytesPerRank); err != nil {
			return err
		}
	}
	err = w.Close()
	more := map[string]string{}
	if now := settle(before); now.goroutines > before.goroutines || now.files > before.files {
		more["left"] = fmt.Sprintf("%v before, %v after", before, now)
	}
	r.Say("done", "", more)
	return err
}
