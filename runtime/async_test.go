package runtime_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	gort "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/runtime"
)

// beside returns a plan on four ranks in which the kernels "hook" and "tail" run while the
// sums #0 and #1 are under way. #0 is waited for after hook, and #1 at the end.
func beside(t *testing.T, hook, tail exec.Kernel) *lowering.Plan {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F64, 8)
		sum := toy.Sum(x)
		early := toy.Sum(toy.Square(x))
		y := toy.Mul(toy.Do("hook", hook, x), toy.Spread(sum, 8))
		return []*graph.Value{toy.Do("tail", tail, y), early}
	})
	l := plan(t, p, toy.Setup{Mesh: "a=4", Place: map[string]string{"x": "a"}, Overlap: lowering.OverlapCollectives})
	var waits []int
	for i := range l.Instrs {
		if l.Instrs[i].Communicates() {
			waits = append(waits, l.Instrs[i].Wait)
			require.Less(t, i, instruction(t, l, "hook"), l.String())
		}
	}
	require.Len(t, waits, 2, l.String())
	require.Greater(t, waits[0], instruction(t, l, "hook"), l.String())
	require.Greater(t, instruction(t, l, "tail"), waits[0], l.String())
	require.Equal(t, len(l.Instrs), waits[1], l.String())
	return l
}

// wired opens a session whose exchanges wait for travel.
func wired(t *testing.T, l *lowering.Plan, o runtime.Options, travel func(ctx context.Context, rank int, c collective.Call) error) *runtime.Session {
	comms, err := engine.Local(l.Mesh.Ranks(), jaccl.Options{})
	require.NoError(t, err)
	wires := make([]collective.Communicator, len(comms))
	for i := range comms {
		wires[i] = toy.Wire(comms[i], travel)
	}
	s, err := runtime.Open(l, wires, o)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func fluent(context.Context, int, collective.Call) error { return nil }

// A kernel runs while a collective of its rank is under way, and the trace shows
// this. In this test no collective can end before the kernel has run.
func TestKernelBesideCollective(t *testing.T) {
	var ran [4]chan bool
	for i := range ran {
		ran[i] = make(chan bool)
	}
	l := beside(t, func(a *exec.Args) error {
		close(ran[a.Rank])
		return toy.Copy(a)
	}, toy.Copy)
	var buf bytes.Buffer
	tr := runtime.NewTrace(&buf)
	s := wired(t, l, runtime.Options{Trace: tr}, func(ctx context.Context, rank int, c collective.Call) error {
		select {
		case <-ran[rank]:
			time.Sleep(50 * time.Millisecond) // so that the rank has to wait for it
		case <-ctx.Done():
		}
		return nil
	})
	_, err := toy.Eval(t.Context(), s, map[string]array.Array{"x": ramp(8)})
	require.NoError(t, err)
	require.NoError(t, tr.Close())
	sum := tr.Totals(0)
	require.Positive(t, sum.Kernels)
	require.Positive(t, sum.Beside)
	require.Positive(t, sum.Waits)
	require.LessOrEqual(t, sum.Kernels+sum.Collectives+sum.Waits, sum.Steps, "they do not overlap")
	events := traced(t, buf.Bytes())
	track := map[string]int{}
	for _, e := range events {
		if e.Name == "thread_name" {
			track[e.Args["name"].(string)] = e.Tid
		}
	}
	require.Len(t, track, 8)
	find := func(tid int, name string) event {
		for _, e := range events {
			if e.Tid == tid && e.Name == name {
				return e
			}
		}
		t.Fatalf("no %s on track %d:\n%s", name, tid, &buf)
		return event{}
	}
	for rank := range 4 {
		kernel := find(track[fmt.Sprintf("rank %d", rank)], "hook")
		sum := find(track[fmt.Sprintf("rank %d communication", rank)], "all_sum")
		find(track[fmt.Sprintf("rank %d", rank)], "wait")
		if kernel.Cat != "kernel" || sum.Cat != "collective" || kernel.Ts >= sum.Ts+sum.Dur {
			t.Errorf("rank %d: the kernel begins at %v, the sum ends at %v", rank, kernel.Ts, sum.Ts+sum.Dur)
		}
	}
}

// Run returns a kernel's error even if collectives are under way that cannot end.
// None of their goroutines are left behind.
func TestKernelErrorBesideCollective(t *testing.T) {
	bad := errors.New("token 3 chooses expert 9 of 4")
	for _, name := range []string{"hook", "tail"} {
		fail := func(a *exec.Args) error {
			if a.Rank == 2 {
				return bad
			}
			return toy.Copy(a)
		}
		hook, tail := fail, exec.Kernel(toy.Copy)
		if name == "tail" {
			hook, tail = tail, fail
		}
		l := beside(t, hook, tail)
		for range 20 {
			synctest.Test(t, func(t *testing.T) {
				s := wired(t, l, runtime.Options{}, func(ctx context.Context, rank int, c collective.Call) error {
					if rank == 0 && (name == "hook" || c.Seq == 1) {
						<-ctx.Done()
						return context.Cause(ctx)
					}
					return nil
				})
				_, err := toy.Eval(t.Context(), s, map[string]array.Array{"x": ramp(8)})
				require.ErrorIs(t, err, bad)
				require.ErrorContains(t, err, fmt.Sprintf(": %s: rank 2, instruction %d of plan p: token 3", name, instruction(t, l, name)))
				_, err = toy.Eval(t.Context(), s, map[string]array.Array{"x": ramp(8)})
				require.ErrorIs(t, err, bad, "a poisoned job runs again")
			})
		}
	}
}

// A collective that fails or panics is named, and stops the rank's kernels at the
// next instruction.
func TestCollectiveErrorBesideKernel(t *testing.T) {
	broken := errors.New("the cable is broken")
	for _, panics := range []bool{false, true} {
		var failed atomic.Bool
		l := beside(t, func(a *exec.Args) error {
			if a.Rank == 1 {
				for !failed.Load() { // the kernel runs until the collective has failed
					gort.Gosched()
				}
			}
			return toy.Copy(a)
		}, func(a *exec.Args) error {
			if a.Rank == 1 {
				t.Error("a kernel runs that comes after a failed collective")
			}
			return toy.Copy(a)
		})
		synctest.Test(t, func(t *testing.T) {
			failed.Store(false)
			s := wired(t, l, runtime.Options{}, func(ctx context.Context, rank int, c collective.Call) error {
				if rank != 1 || c.Seq != 0 {
					return nil
				}
				defer failed.Store(true)
				if panics {
					panic(broken)
				}
				return broken
			})
			_, err := toy.Eval(t.Context(), s, map[string]array.Array{"x": ramp(8)})
			require.ErrorContains(t, err, fmt.Sprintf(": all_sum: rank 1, instruction %d of plan p: ", instruction(t, l, "all_sum")))
			require.ErrorContains(t, err, broken.Error())
			require.Equal(t, panics, strings.Contains(err.Error(), "internal error: "), err)
		})
	}
}

// An error on which all ranks agree lets the collectives end that were started
// before it: the next step finds the communicators in order.
func TestAgreedErrorBesideCollective(t *testing.T) {
	full := errors.New("expert 1 is full")
	var reject atomic.Bool
	var rejected atomic.Int32
	l := beside(t, func(a *exec.Args) error {
		if reject.Load() {
			rejected.Add(1)
			return &exec.AgreedError{Err: full}
		}
		return toy.Copy(a)
	}, toy.Copy)
	s := wired(t, l, runtime.Options{}, func(ctx context.Context, rank int, c collective.Call) error {
		if !reject.Load() || rank%2 == 0 {
			return nil
		}
		for rejected.Load() < 4 { // until every rank has come to the error
			gort.Gosched()
		}
		select {
		case <-ctx.Done():
			return errors.New("cancelled")
		case <-time.After(5 * time.Millisecond):
			return nil
		}
	})
	in := map[string]array.Array{"x": ramp(8)}
	want, err := toy.Eval(t.Context(), s, in)
	require.NoError(t, err)
	for range 5 {
		rejected.Store(0)
		reject.Store(true)
		_, err := toy.Eval(t.Context(), s, in)
		require.ErrorIs(t, err, full)
		require.ErrorContains(t, err, ": hook: rank 0, instruction ")
		reject.Store(false)
		got, err := toy.Eval(t.Context(), s, in)
		require.NoError(t, err)
		for i := range want {
			require.True(t, array.Equal(got[i], want[i]))
		}
	}
}

// When the context ends, Run returns the cause and leaves no goroutine, whatever ranks
// are doing. synctest fails the test if a goroutine is left.
func TestCancelBesideCollective(t *testing.T) {
	for _, stuck := range []string{"travel", "hook"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			release := make(chan bool)
			l := beside(t, func(a *exec.Args) error {
				if stuck == "hook" {
					<-release
				}
				return toy.Copy(a)
			}, toy.Copy)
			s := wired(t, l, runtime.Options{}, func(ctx context.Context, rank int, c collective.Call) error {
				if stuck == "travel" {
					<-ctx.Done()
					return context.Cause(ctx)
				}
				return nil
			})
			in, err := toy.Put(s, map[string]array.Array{"x": ramp(8)})
			require.NoError(t, err)
			done := make(chan error)
			go func() {
				_, err := s.Run(ctx, in)
				done <- err
			}()
			synctest.Wait()
			cause := errors.New("the user has had enough")
			cancel(cause)
			synctest.Wait()
			close(release)
			require.ErrorIs(t, <-done, cause)
		})
	}
}

// With Finite and Poison, collectives run where they stand in the plan, and the options
// do what they do without overlap.
func TestWatchedBesideCollective(t *testing.T) {
	l := beside(t, toy.Copy, func(a *exec.Args) error {
		a.Out[0].Fill(1)
		if a.Rank == 3 {
			inf := array.Data[float64](a.Out[0])
			inf[1] = 1 / (inf[1] - 1)
		}
		return nil
	})
	var mu sync.Mutex
	goroutines := 0
	s := wired(t, l, runtime.Options{Finite: true, Poison: true}, func(context.Context, int, collective.Call) error {
		mu.Lock()
		defer mu.Unlock()
		stack := make([]byte, 1<<14)
		if strings.Contains(string(stack[:gort.Stack(stack, false)]), "lane") {
			goroutines++
		}
		return nil
	})
	_, err := toy.Eval(t.Context(), s, map[string]array.Array{"x": ramp(8)})
	require.ErrorContains(t, err, ": tail: rank 3, instruction ")
	var nf *runtime.NotFiniteError
	require.ErrorAs(t, err, &nf)
	require.Zero(t, goroutines, "collectives beside kernels")
}

// TestManySteps runs many steps of one session, with collectives that end in all orders.
func TestManySteps(t *testing.T) {
	l := beside(t, toy.Copy, toy.Copy)
	s := wired(t, l, runtime.Options{Threads: 2}, fluent)
	var want []array.Array
	for step := range 200 {
		got, err := toy.Eval(t.Context(), s, map[string]array.Array{"x": ramp(8)})
		require.NoError(t, err)
		if want == nil {
			want = got
		}
		for i := range want {
			require.True(t, array.Equal(got[i], want[i]), "step %d", step)
		}
	}
}

// event is an event of a trace.
type event struct {
	Name, Cat, Ph string
	Ts, Dur       float64
	Tid           int
	Args          map[string]any
}

// traced returns the events of a trace.
func traced(t *testing.T, trace []byte) []event {
	t.Helper()
	var doc struct{ TraceEvents []event }
	require.NoError(t, json.Unmarshal(trace, &doc), string(trace))
	return doc.TraceEvents
}
