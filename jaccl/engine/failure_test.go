package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
)

func call(op string, seq int) collective.Call {
	return collective.Call{Op: op, Seq: seq, DType: graph.F32, Bytes: 8, Pos: graph.Pos{File: "/src/moe.go", Line: 10 + seq}}
}

func local(t *testing.T, n int, deadline time.Duration) []jaccl.Communicator {
	comms, err := engine.Local(n, jaccl.Options{Deadline: deadline})
	require.NoError(t, err)
	return comms
}

func group(t *testing.T, c collective.Communicator, ranks ...int) collective.Group {
	g, err := c.Group(ranks)
	require.NoError(t, err)
	return g
}

// problem checks that err is an *Error of this rank and call, blames these
// ranks, is of this kind and says all words.
func problem(t *testing.T, err error, rank int, c collective.Call, blame []int, kind error, words ...string) {
	t.Helper()
	var e *jaccl.Error
	if !errors.As(err, &e) {
		t.Errorf("rank %d got %v, want a *jaccl.Error", rank, err)
		return
	}
	if e.Rank != rank || e.Call != c || !slices.Equal(e.Blame, blame) || !errors.Is(err, kind) {
		t.Errorf("%v: rank %d, call %s, blames %v, is %q: %v; want rank %d, %s, %v, true", err, e.Rank, e.Call, e.Blame, kind, errors.Is(err, kind), rank, c, blame)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestDeadline(t *testing.T) {
	for _, d := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			comms := local(t, 4, d)
			want := d
			if want == 0 {
				want = jaccl.DefaultDeadline
			}
			start := time.Now()
			var wg sync.WaitGroup
			errs := make([]error, 4)
			for _, rank := range []int{0, 2} {
				g := group(t, comms[rank], 0, 1, 2, 3)
				wg.Go(func() { errs[rank] = g.AllSum(t.Context(), call("all_sum", 3), make([]byte, 8), make([]byte, 8)) })
			}
			wg.Wait()
			if took := time.Since(start); took != want {
				t.Errorf("gave up after %v, want %v", took, want)
			}
			for _, rank := range []int{0, 2} {
				problem(t, errs[rank], rank, call("all_sum", 3), []int{1, 3}, jaccl.ErrDeadline,
					"rank 1, rank 3 did not arrive within "+want.String()+" at all_sum #3 f32 8 bytes (moe.go:13) among ranks [0 1 2 3]")
			}
			// The ranks that come late get the same error at once.
			err := group(t, comms[1], 0, 1, 2, 3).AllSum(t.Context(), call("all_sum", 3), make([]byte, 8), make([]byte, 8))
			problem(t, err, 1, call("all_sum", 3), []int{1, 3}, jaccl.ErrDeadline, "rank 1, rank 3 did not arrive")
			if took := time.Since(start); took != want {
				t.Errorf("a call on a poisoned job took %v, want none", took-want)
			}
		})
	}
}

// A deadline counts from the arrival of the rank that waits, in every operation anew.
func TestDeadlineIsPerCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		comms := local(t, 2, time.Second)
		var wg sync.WaitGroup
		for rank, c := range comms {
			g := group(t, c, 0, 1)
			wg.Go(func() {
				for seq := range 10 {
					time.Sleep(time.Duration(rank*900) * time.Millisecond)
					if err := g.Barrier(t.Context(), call("barrier", seq)); err != nil {
						t.Errorf("rank %d: %v", rank, err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// Ranks that took different turns wait for each other in different groups: the
// error says where the missing rank is.
func TestStuckElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		comms := local(t, 3, time.Second)
		a, b := group(t, comms[0], 0, 1), group(t, comms[1], 1, 2)
		var errA, errB error
		var wg sync.WaitGroup
		wg.Go(func() { errA = a.Barrier(t.Context(), call("barrier", 1)) })
		wg.Go(func() {
			time.Sleep(time.Millisecond)
			errB = b.AllGather(t.Context(), call("all_gather", 2), make([]byte, 16), make([]byte, 8))
		})
		wg.Wait()
		text := "rank 1 (it waits in all_gather #2 f32 8 bytes (moe.go:12) among ranks [1 2]) did not arrive within 1s at barrier #1"
		const more = "; rank 2 is waited for: it is in no operation"
		problem(t, errA, 0, call("barrier", 1), []int{2}, jaccl.ErrDeadline, text, more)
		problem(t, errB, 1, call("all_gather", 2), []int{2}, jaccl.ErrDeadline, text, more)
	})
}

// If every rank waits in an operation, the ranks that are missing are blamed.
func TestStuckInCircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		comms := local(t, 3, time.Second)
		errs := make([]error, 3)
		var wg sync.WaitGroup
		for i, c := range comms {
			g := group(t, c, min(i, (i+1)%3), max(i, (i+1)%3))
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				errs[i] = g.Barrier(t.Context(), call("barrier", i))
			})
		}
		wg.Wait()
		for i, err := range errs {
			problem(t, err, i, call("barrier", i), []int{1}, jaccl.ErrDeadline, "rank 1 (it waits in barrier #1 f32 8 bytes (moe.go:11) among ranks [1 2]) did not arrive within 1s at barrier #0")
		}
	})
}

// The bubble of synctest.Test ends only when all of its goroutines have ended: none leaks.
func TestCancelWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		comms := local(t, 3, time.Hour)
		cause := errors.New("the step was given up")
		ctx, cancel := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for rank := range errs {
			g := group(t, comms[rank], 0, 1, 2)
			own := t.Context()
			if rank == 1 {
				own = ctx
			}
			wg.Go(func() { errs[rank] = g.Barrier(own, call("barrier", rank)) })
		}
		synctest.Wait()
		cancel(cause)
		wg.Wait()
		for rank, err := range errs {
			problem(t, err, rank, call("barrier", rank), []int{1}, cause, "rank 1 left barrier #1 f32 8 bytes (moe.go:11): the step was given up")
		}
	})
}

// A context that has ended stops even a call that would wait for nobody.
func TestEndedContext(t *testing.T) {
	cause := errors.New("too late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	comms := local(t, 1, time.Hour)
	err := group(t, comms[0], 0).Barrier(ctx, call("barrier", 2))
	problem(t, err, 0, call("barrier", 2), []int{0}, cause, "rank 0 left barrier #2", "too late")
}

// A context that ends on a job that failed before wraps both causes.
func TestCancelAfterFailure(t *testing.T) {
	comms := local(t, 2, time.Hour)
	cause, failure := errors.New("no more patience"), errors.New("out of memory")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	comms[1].Fail(failure)
	err := group(t, comms[0], 0, 1).Barrier(ctx, call("barrier", 0))
	problem(t, err, 0, call("barrier", 0), []int{1}, failure, "rank 1 failed: out of memory")
	problem(t, err, 0, call("barrier", 0), []int{1}, cause, "the context of rank 0 ended: no more patience")
}

func TestFailWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		comms := local(t, 4, time.Hour)
		cause := errors.New("device lost")
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for rank, ranks := range [][]int{{0, 3}, {1, 2, 3}, {1, 2, 3}} {
			g := group(t, comms[rank], ranks...)
			wg.Go(func() { errs[rank] = g.Barrier(t.Context(), call("barrier", rank)) })
		}
		synctest.Wait()
		comms[3].Fail(cause)
		comms[3].Fail(nil)
		wg.Wait()
		errs[3] = group(t, comms[3], 3).Barrier(t.Context(), call("barrier", 3))
		for rank, err := range errs {
			problem(t, err, rank, call("barrier", rank), []int{3}, cause, "rank 3 failed: device lost")
		}
	})
}

func TestFailWithoutCause(t *testing.T) {
	comms := local(t, 1, time.Hour)
	comms[0].Fail(nil)
	err := group(t, comms[0], 0).Barrier(t.Context(), call("barrier", 0))
	if err == nil || !strings.Contains(err.Error(), "rank 0 failed: no cause given") {
		t.Errorf("%v, want a failure of rank 0", err)
	}
}

func TestCloseWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		comms := local(t, 3, time.Hour)
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for rank := range errs {
			g := group(t, comms[rank], 0, 1, 2)
			wg.Go(func() { errs[rank] = g.Barrier(t.Context(), call("barrier", 0)) })
		}
		synctest.Wait()
		require.NoError(t, comms[2].Close())
		wg.Wait()
		for rank, err := range errs {
			problem(t, err, rank, call("barrier", 0), []int{2}, jaccl.ErrClosed, "rank 2 has closed")
		}
	})
}

func TestMismatchIsTyped(t *testing.T) {
	comms := local(t, 3, time.Hour)
	group(t, comms[1], 1, 2) // alike, but another group
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for rank, c := range comms[:2] {
		g := group(t, c, 1, 0)
		wg.Go(func() { errs[rank] = g.Barrier(t.Context(), call("barrier", rank)) })
	}
	wg.Wait()
	// Member 0 is rank 1: errors name ranks of the job.
	for rank, err := range errs {
		problem(t, err, rank, call("barrier", rank), []int{0, 1}, jaccl.ErrMismatch,
			"rank 0 calls barrier #0 f32 8 bytes (moe.go:10) where rank 1 calls barrier #1 f32 8 bytes (moe.go:11); seen by rank")
	}
}

func TestTwoGoroutinesOfOneRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		comms := local(t, 2, time.Hour)
		g := group(t, comms[0], 0, 1)
		var first error
		var wg sync.WaitGroup
		wg.Go(func() { first = g.Barrier(t.Context(), call("barrier", 0)) })
		synctest.Wait()
		second := g.Barrier(t.Context(), call("barrier", 1))
		wg.Wait()
		problem(t, first, 0, call("barrier", 0), []int{0}, jaccl.ErrArgument, "another collective of the same group in progress")
		problem(t, second, 0, call("barrier", 1), []int{0}, jaccl.ErrArgument, "one goroutine per rank")
	})
}

// Leaving and arriving race: whichever wins, no member hangs, and an operation
// succeeds either for all or for none. On one processor the last member arrives
// after the context of a waiting member has ended and before that member has
// noticed: the waiting member has to stay.
func TestLeaveAgainstArrival(t *testing.T) {
	for _, procs := range []int{1, 2} {
		t.Run(fmt.Sprint(procs), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			for round := range 500 {
				n := 8 << (10 * (round % 2)) // summed by one member, and by all
				synctest.Test(t, func(t *testing.T) { leaveAgainstArrival(t, n) })
				if t.Failed() {
					return
				}
			}
		})
	}
}

func leaveAgainstArrival(t *testing.T, n int) {
	comms := local(t, 3, time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	errs := make([]error, 3)
	sum := func(rank int, ctx context.Context) {
		dst, src := make([]byte, n), make([]byte, n)
		for i := range src {
			src[i] = byte(rank)
		}
		g := group(t, comms[rank], 0, 1, 2)
		errs[rank] = g.AllSum(ctx, collective.Call{Op: "all_sum", DType: graph.U8}, dst, src)
		if errs[rank] == nil && (dst[0] != 3 || dst[n-1] != 3) {
			t.Errorf("rank %d: sum %d and %d, want 3", rank, dst[0], dst[n-1])
		}
		clear(src) // peers must not read src any more, which the race detector checks, too
	}
	var wg sync.WaitGroup
	wg.Go(func() { sum(0, ctx) })
	wg.Go(func() { sum(1, t.Context()) })
	synctest.Wait()
	cancel()
	sum(2, t.Context())
	wg.Wait()
	for rank, err := range errs {
		if (err == nil) != (errs[0] == nil) {
			t.Errorf("%d bytes: rank 0: %v, rank %d: %v; want all or none to fail", n, errs[0], rank, err)
		}
	}
}
