package ring_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/jaccl/mlx/ring"
)

func sum(ctx context.Context, m jaccl.Communicator, n int) error {
	c := collective.Call{Op: "all_sum", Seq: 7, DType: graph.F32, Bytes: int64(4 * n), Pos: graph.Pos{File: "moe.go", Line: 3}}
	b := make([]byte, 4*n)
	return m.World().AllSum(ctx, c, b, b)
}

// problem checks that err is an *Error of this rank, blames these ranks, is of this
// kind and says all words.
func problem(t *testing.T, err error, rank int, blame []int, kind error, words ...string) {
	t.Helper()
	var e *jaccl.Error
	if !errors.As(err, &e) {
		t.Errorf("rank %d got %v, want a *jaccl.Error", rank, err)
		return
	}
	if e.Rank != rank || !slices.Equal(e.Blame, blame) || !errors.Is(err, kind) {
		t.Errorf("%v: rank %d, blames %v, is %q: %v; want rank %d, %v, true", err, e.Rank, e.Blame, kind, errors.Is(err, kind), rank, blame)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// A rank that never comes: the others give up after the deadline, and say for what
// they wait.
func TestDeadline(t *testing.T) {
	comms := open(t, 3, 1, jaccl.Options{Deadline: 3 * time.Second})
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for r := range errs {
		wg.Go(func() { errs[r] = sum(t.Context(), comms[r], 300) })
	}
	wg.Wait()
	// Rank 0's neighbour on the left is 2, which is stuck; 1 waits for what 0 has
	// not got. Who gives up first closes its connections.
	late := 0
	for r, err := range errs {
		require.Error(t, err)
		if errors.Is(err, jaccl.ErrDeadline) {
			late++
		} else if !errors.Is(err, jaccl.ErrLost) {
			t.Errorf("rank %d: %v, want late or lost", r, err)
		}
		for _, w := range []string{"all_sum #7 f32 1200 bytes (moe.go:3)", " bytes to come from rank ", "127.0.0.1:"} {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not say %q", err, w)
			}
		}
	}
	if late == 0 {
		t.Errorf("%v: nobody noticed the deadline", errs)
	}
	// The late one finds its connections closed.
	err := sum(t.Context(), comms[2], 300)
	if !errors.Is(err, jaccl.ErrLost) {
		t.Errorf("%v, want lost", err)
	}
	problem(t, sum(t.Context(), comms[2], 1), 2, err.(*jaccl.Error).Blame, jaccl.ErrLost, "seen by rank 2 in all_sum #7")
}

// A deadline is without progress: what takes longer goes on as long as bytes come.
func TestSlowIsNotLate(t *testing.T) {
	const deadline, count = 2 * time.Second, 300
	nodes := addresses(t, 2, 1)
	l, err := net.Listen("tcp", nodes[0][0])
	require.NoError(t, err)
	defer l.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		if a, err := l.Accept(); err == nil {
			defer a.Close()
		}
		b := dial(t, nodes[1][0]) // its left
		if b == nil {
			return
		}
		defer b.Close()
		for range 6 {
			time.Sleep(deadline / 4)
			if _, err := b.Write(make([]byte, 4*count/6)); err != nil {
				t.Errorf("the rank left: %v", err)
				return
			}
		}
	})
	m, err := ring.Connect(t.Context(), nodes, 1, jaccl.Options{Deadline: deadline})
	require.NoError(t, err)
	defer m.Close()
	require.NoError(t, m.World().Recv(t.Context(), collective.Call{Op: "recv", DType: graph.F32}, 0, make([]byte, 4*count)))
	wg.Wait()
}

func TestLost(t *testing.T) {
	comms := open(t, 4, 2, jaccl.Options{})
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for _, r := range []int{0, 1, 3} {
		wg.Go(func() { errs[r] = sum(t.Context(), comms[r], 1000) })
	}
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, comms[2].Close())
	wg.Wait()
	for _, r := range []int{1, 3} {
		if errs[r] == nil || !errors.Is(errs[r], jaccl.ErrLost) {
			t.Errorf("rank %d: %v, want lost", r, errs[r])
		}
	}
	// Rank 0 has no connection to rank 2, and learns of it by its neighbours.
	var e *jaccl.Error
	require.ErrorAs(t, errs[0], &e)
	if !errors.Is(e, jaccl.ErrLost) || !slices.Equal(e.Blame, []int{1}) && !slices.Equal(e.Blame, []int{3}) {
		t.Errorf("rank 0: %v blames %v, want lost and a neighbour", e, e.Blame)
	}
	problem(t, sum(t.Context(), comms[2], 1), 2, []int{2}, jaccl.ErrClosed, "rank 2 has closed its communicator")
}

func TestCancel(t *testing.T) {
	comms := open(t, 3, 1, jaccl.Options{})
	cause := errors.New("the step was given up")
	ctx, cancel := context.WithCancelCause(t.Context())
	errs := make([]error, 2)
	var wg sync.WaitGroup
	wg.Go(func() { errs[0] = sum(ctx, comms[0], 1000) })
	wg.Go(func() { errs[1] = sum(t.Context(), comms[1], 1000) })
	time.Sleep(20 * time.Millisecond)
	cancel(cause)
	wg.Wait()
	problem(t, errs[0], 0, []int{0}, cause, "ring: rank 0 left all_sum #7 f32 4000 bytes (moe.go:3) with", "bytes to come from rank 2 (127.0.0.1:", "the step was given up")
	problem(t, errs[1], 1, []int{0}, jaccl.ErrLost, "the connection of rank 1 to rank 0 (127.0.0.1:", "all_sum #7")
	problem(t, sum(ctx, comms[2], 1), 2, []int{2}, cause, "rank 2 left all_sum #7 f32 4 bytes (moe.go:3): the step")
	problem(t, sum(ctx, comms[1], 1), 1, []int{0}, cause, "the context of rank 1 ended: the step was given up")
}

func TestFail(t *testing.T) {
	comms := open(t, 2, 1, jaccl.Options{})
	cause := errors.New("device lost")
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { err = sum(t.Context(), comms[0], 10) })
	time.Sleep(20 * time.Millisecond)
	comms[0].Fail(cause)
	comms[0].Fail(nil)
	wg.Wait()
	problem(t, err, 0, []int{0}, cause, "ring: rank 0 failed: device lost")
	problem(t, sum(t.Context(), comms[1], 10), 1, []int{0}, jaccl.ErrLost, "rank 0 (127.0.0.1:")
	_, err = comms[0].Group([]int{0, 1})
	if !errors.Is(err, cause) {
		t.Errorf("a group of a failed ring: %v, want its cause", err)
	}
}

func TestArguments(t *testing.T) {
	shared := make([]byte, 64)
	call := func(op string, d graph.DType) collective.Call { return collective.Call{Op: op, DType: d} }
	for want, f := range map[string]func(ctx context.Context, g jaccl.Group) error{
		"want equal lengths": func(ctx context.Context, g jaccl.Group) error {
			return g.AllSum(ctx, call("all_sum", graph.F32), make([]byte, 4), make([]byte, 8))
		},
		"elements of none": func(ctx context.Context, g jaccl.Group) error {
			return g.AllMax(ctx, call("all_max", graph.NoDType), make([]byte, 8), make([]byte, 8))
		},
		"want whole elements of 2": func(ctx context.Context, g jaccl.Group) error {
			return g.AllMin(ctx, call("all_min", graph.BF16), make([]byte, 7), make([]byte, 7))
		},
		"the method of all_sum": func(ctx context.Context, g jaccl.Group) error {
			return g.AllSum(ctx, call("all_max", graph.F32), nil, nil)
		},
		"the method of barrier": func(ctx context.Context, g jaccl.Group) error { return g.Barrier(ctx, call("all_sum", graph.F32)) },
		"overlaps a part of src": func(ctx context.Context, g jaccl.Group) error {
			return g.AllSum(ctx, call("all_sum", graph.F32), shared[4:20], shared[:16])
		},
		"want 8 of dst for 2": func(ctx context.Context, g jaccl.Group) error {
			return g.AllGather(ctx, call("all_gather", graph.F32), make([]byte, 12), make([]byte, 4))
		},
		"overlaps src, want separate": func(ctx context.Context, g jaccl.Group) error {
			return g.AllGather(ctx, call("all_gather", graph.F32), shared[:8], shared[4:8])
		},
		"rank 2 at the other side": func(ctx context.Context, g jaccl.Group) error { return g.Send(ctx, call("send", graph.F32), 2, nil) },
		"rank 0 at the other side": func(ctx context.Context, g jaccl.Group) error { return g.Recv(ctx, call("recv", graph.F32), 0, nil) },
		"a dst that overlaps src": func(ctx context.Context, g jaccl.Group) error {
			return g.SendRecv(ctx, call("send_recv", graph.F32), 1, shared[:8], 1, shared[4:8])
		},
	} {
		comms := open(t, 2, 1, jaccl.Options{})
		problem(t, f(t.Context(), comms[0].World()), 0, []int{0}, jaccl.ErrArgument, want)
		problem(t, sum(t.Context(), comms[1], 4), 1, []int{0}, jaccl.ErrLost)
	}
}

func TestTwoGoroutines(t *testing.T) {
	comms := open(t, 2, 1, jaccl.Options{})
	var first error
	var wg sync.WaitGroup
	wg.Go(func() { first = sum(t.Context(), comms[0], 10) })
	time.Sleep(50 * time.Millisecond)
	second := sum(t.Context(), comms[0], 10)
	wg.Wait()
	for _, err := range []error{first, second} {
		problem(t, err, 0, []int{0}, jaccl.ErrArgument, "another collective in progress")
	}
}

func TestConnectErrors(t *testing.T) {
	nodes := addresses(t, 3, 1)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("given up"))
	before := runtime.NumGoroutine()
	for _, c := range []struct {
		ctx   context.Context
		nodes hostfile.Nodes
		rank  int
		opts  jaccl.Options
		want  []string
	}{
		{t.Context(), nil, 0, jaccl.Options{}, []string{"no ranks"}},
		{t.Context(), nodes, 3, jaccl.Options{}, []string{"rank 3, want 0 to 2"}},
		{t.Context(), nodes, -1, jaccl.Options{}, []string{"rank -1, want 0 to 2"}},
		{t.Context(), nodes, 0, jaccl.Options{Deadline: -1}, []string{"deadline -1ns"}},
		{t.Context(), hostfile.Nodes{{taken.Addr().String()}, nodes[0]}, 0, jaccl.Options{}, []string{"rank 0 of 2", "this machine's, and free"}},
		{t.Context(), nodes, 1, jaccl.Options{Deadline: 2 * time.Second}, []string{"rank 1 of 3", "no connection to rank 2 at " + nodes[2][0], "not within 2s", "refused", "rank 0 did not connect to " + nodes[1][0]}},
		{t.Context(), hostfile.Nodes{nodes[0], {taken.Addr().String()}}, 0, jaccl.Options{Deadline: 2 * time.Second}, []string{"rank 1 did not connect to " + nodes[0][0], "not within 2s"}},
		{ended, nodes, 1, jaccl.Options{}, []string{"given up"}},
	} {
		m, err := ring.Connect(c.ctx, c.nodes, c.rank, c.opts)
		if err == nil {
			t.Errorf("%v gives %v, want an error", c, m)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not say %q", err, w)
			}
		}
	}
	settled(t, before)
}

// A rank that only sends to a neighbour learns that it has left, and a rank that
// is late finds what was sent to it meanwhile.
func TestListen(t *testing.T) {
	comms := open(t, 3, 1, jaccl.Options{})
	var wg sync.WaitGroup
	for r, m := range comms {
		wg.Go(func() {
			for i, o := range []task{{"all_sum", "f32", 1000, 1, 0}, {"all_sum", "f32", 2, 2, 0}, {"all_gather", "u8", 7, 3, 0}, {"send_recv", "u8", 9, 3, 0}} {
				if i == r {
					time.Sleep(250 * time.Millisecond)
				}
				got, err := o.run(t.Context(), m.World(), i)
				if want := expected(o, 3, 1, r); err != nil || string(got) != string(want) {
					t.Errorf("rank %d: %+v gives another result (%v)", r, o, err)
				}
			}
		})
	}
	wg.Wait()
	wg.Go(func() { // goes to the left: 0 receives from 1, and 2 sends to 1
		problem(t, sum(t.Context(), comms[2], 1000), 2, []int{1}, jaccl.ErrLost, "the connection of rank 2 to rank 1")
	})
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, comms[1].Close())
	wg.Wait()
}
