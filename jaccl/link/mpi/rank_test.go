//go:build (linux || darwin) && (amd64 || arm64)

package mpi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/job/watch"
	"github.com/gomoe/gomoe/jaccl/link"
)

// rankMain is what a rank of a program does.
func rankMain(name string) int {
	opts := Options{}
	switch name {
	case "unfinished":
		opts.Deadline = time.Second
	case "srun": // with what an MPI would need that this one does not know
		opts.Getenv = func(name string) string {
			return map[string]string{"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "PMIX_NAMESPACE": "slurm.pmix.0.0"}[name]
		}
	case "mismatch":
		opts.Getenv = func(name string) string { return map[string]string{"OMPI_COMM_WORLD_SIZE": "4"}[name] }
	}
	w, err := Open(opts)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("rank %d is process %d\n", w.Rank(), os.Getpid())
	programs := map[string]func(context.Context, *World) error{
		"play": playProgram, "site": siteProgram, "keys": keysProgram, "far": farProgram,
		"killed": failing(func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) }), "stopped": failing(func() { syscall.Kill(os.Getpid(), syscall.SIGSTOP) }),
		"panicked": failing(func() { panic("seeded") }), "late": failing(func() { time.Sleep(4 * time.Second) }),
		"unfinished": func(context.Context, *World) error {
			if w.Rank() == 1 {
				time.Sleep(3 * time.Second)
				os.Exit(1)
			}
			return nil
		},
	}
	if err := programs[name](context.Background(), w); err != nil {
		kind := "another error"
		for _, k := range []error{jaccl.ErrLost, jaccl.ErrDeadline, jaccl.ErrMismatch, jaccl.ErrClosed} {
			if errors.Is(err, k) {
				kind = strings.TrimPrefix(k.Error(), "jaccl: ")
			}
		}
		fmt.Printf("rank %d ended: %v (%s)\n", w.Rank(), err, kind)
		return 3
	}
	if err := w.Close(); err != nil {
		fmt.Printf("rank %d: %v\n", w.Rank(), err)
		return 4
	}
	if err := w.Close(); err != nil {
		fmt.Printf("rank %d: closed twice: %v\n", w.Rank(), err)
		return 4
	}
	fmt.Printf("rank %d is done\n", w.Rank())
	return 0
}

// communicator connects all that a job has: the link by MPI, the watch beside it.
func communicator(ctx context.Context, w *World, deadline time.Duration) (jaccl.Communicator, error) {
	link, err := Connect(ctx, w)
	if err != nil {
		return nil, err
	}
	watching, err := watch.Start(ctx, w, watch.Options{Silence: 2 * time.Second})
	if err != nil {
		return nil, err
	}
	return engine.Connect(link, watching, jaccl.Options{Deadline: deadline})
}

func playProgram(ctx context.Context, w *World) error {
	stop := make(chan struct{})
	if os.Getenv("GOGC") == "1" {
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
					runtime.GC()
					time.Sleep(time.Millisecond)
				}
			}
		}()
	}
	defer close(stop)
	if err := recovers(); err != nil {
		return err
	}
	if err := bigProgram(ctx, w); err != nil {
		return err
	}
	m, err := communicator(ctx, w, 0)
	if err != nil {
		return err
	}
	if err := jaccltest.PlayRank(ctx, m, uint64(w.Size())); err != nil {
		return err
	}
	return m.Close()
}

// bigProgram exchanges messages of several buffers, more than one of them, cut
// differently on both sides.
func bigProgram(ctx context.Context, w *World) error {
	l, err := Connect(ctx, w)
	if err != nil {
		return err
	}
	defer l.Close()
	const size = 2*messageBytes + 12345
	fill := func(rank int) []byte {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(i>>8 ^ i*(rank+3))
		}
		return b
	}
	x := link.Exchange{}
	mine := fill(l.Rank())
	for r := range l.Size() {
		if r == l.Rank() {
			continue
		}
		got := make([]byte, size)
		k := 1000003 * (l.Rank() + 1)
		x.Peers = append(x.Peers, r)
		x.Send = append(x.Send, [][]byte{mine[:7], nil, mine[7:k], mine[k:]})
		x.Recv = append(x.Recv, [][]byte{got[:2*k], got[2*k : 2*k+1], got[2*k+1:]})
	}
	if err := l.Exchange(ctx, &x); err != nil {
		return err
	}
	for i, r := range x.Peers {
		if !bytes.Equal(bytes.Join(x.Recv[i], nil), fill(r)) {
			return fmt.Errorf("what came from rank %d is not what it sent", r)
		}
	}
	return nil
}

func siteProgram(ctx context.Context, w *World) error {
	for k := range 20 {
		mine := bytes.Repeat([]byte{byte(w.Rank())}, k*w.Rank()*w.Rank()*100)
		all, err := w.Gather(ctx, fmt.Sprint(k), mine)
		if err != nil {
			return err
		}
		for r, b := range all {
			if !bytes.Equal(b, bytes.Repeat([]byte{byte(r)}, k*r*r*100)) {
				return fmt.Errorf("gather %d: %d bytes of rank %d, want %d of its own", k, len(b), r, k*r*r*100)
			}
		}
	}
	if w.Host(1) == "" || !w.SameHost(1) {
		return fmt.Errorf("rank 1 is on %q, the same host: %v", w.Host(1), w.SameHost(1))
	}
	conns, err := w.Dial(ctx, "test")
	if err != nil {
		return err
	}
	for r, c := range conns {
		if r == w.Rank() {
			continue
		}
		defer c.Close()
		if _, err := fmt.Fprintf(c, "from %d\n", w.Rank()); err != nil {
			return err
		}
		b := make([]byte, 7)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != fmt.Sprintf("from %d\n", r) {
			return fmt.Errorf("the connection to rank %d brought %q: %v", r, b, err)
		}
	}
	_, err = w.Gather(ctx, "end", nil)
	return err
}

func keysProgram(ctx context.Context, w *World) error {
	_, err := w.Gather(ctx, []string{"a", "b"}[w.Rank()], nil)
	return err
}

// failing lets rank 1 fail in the middle of a job.
func failing(fail func()) func(context.Context, *World) error {
	return func(ctx context.Context, w *World) error {
		signal.Ignore(syscall.SIGTERM) // by which mpirun ends a job when its first rank has ended
		m, err := communicator(ctx, w, 1500*time.Millisecond)
		if err != nil {
			return err
		}
		b := make([]byte, 1<<20)
		for seq := 0; ; seq++ {
			if seq == 20 && w.Rank() == 1 {
				fail()
			}
			if err := m.World().AllSum(ctx, collective.Call{Op: "all_sum", Seq: seq, DType: graph.F32, Bytes: int64(len(b))}, b, b); err != nil {
				return errors.Join(err, m.Close())
			}
		}
	}
}
