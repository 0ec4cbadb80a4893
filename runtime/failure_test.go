package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	gort "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/runtime"
)

// hooked returns a program whose kernel "hook" runs on every rank between two sums
// over the mesh, and hook's source line.
func hooked(t *testing.T, hook exec.Kernel) (p *graph.Program, at string) {
	p = trace(t, func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F64, 8)
		before := toy.Sum(x)
		y := toy.Mul(x, toy.Spread(before, 8))
		y = toy.Do("hook", hook, y)
		at = y.Def.Pos.String()
		return []*graph.Value{toy.Sum(toy.Square(y))}
	})
	return p, at
}

func four(t *testing.T, p *graph.Program) *lowering.Plan {
	return plan(t, p, toy.Setup{Mesh: "a=4", Place: map[string]string{"x": "a"}})
}

func instruction(t *testing.T, l *lowering.Plan, name string) int {
	t.Helper()
	for i := range l.Instrs {
		if l.Instrs[i].Name() == name {
			return i
		}
	}
	t.Fatalf("no %s in\n%s", name, l)
	return 0
}

// A kernel's error on one rank stops all ranks. Run returns this error, which names the
// rank, the instruction and the line. All ranks are in one process, so the next step runs.
func TestKernelError(t *testing.T) {
	bad := errors.New("token 3 chooses expert 9 of 4")
	var wrong atomic.Bool
	p, at := hooked(t, func(a *exec.Args) error {
		if a.Rank == 2 && wrong.Load() {
			return bad
		}
		return toy.Copy(a)
	})
	l := four(t, p)
	right, err := toy.Eval(t.Context(), open(t, l, runtime.Options{}), map[string]array.Array{"x": ramp(8)})
	require.NoError(t, err)
	for range 20 {
		wrong.Store(true)
		s := open(t, l, runtime.Options{})
		_, err := toy.Eval(t.Context(), s, map[string]array.Array{"x": ramp(8)})
		want := fmt.Sprintf("%s: hook: rank 2, instruction %d of plan p: token 3 chooses expert 9 of 4", at, instruction(t, l, "hook"))
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, bad)
		var e *runtime.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, 2, e.Rank)

		ended, end := context.WithCancelCause(t.Context())
		wrong.Store(false)
		for range 2 {
			out, err := toy.Eval(t.Context(), s, map[string]array.Array{"x": ramp(8)})
			require.NoError(t, err)
			require.Equal(t, right[0].Float64s(), out[0].Float64s())
		}
		end(bad)
		_, err = toy.Eval(ended, s, map[string]array.Array{"x": ramp(8)})
		require.ErrorIs(t, err, bad)
	}
}

// An error on which all ranks agree leaves the session as it was, also if
// ranks that are in other exchanges come to it late.
func TestAgreedError(t *testing.T) {
	full := errors.New("expert 1 is full")
	var reject atomic.Bool
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F64, 8)
		slow := toy.Do("slow", func(a *exec.Args) error {
			for range 200 * (a.Rank % 2) { // one of the two groups lags behind
				gort.Gosched()
			}
			return toy.Copy(a)
		}, x)
		y := toy.Do("trap", func(a *exec.Args) error {
			if reject.Load() {
				return &exec.AgreedError{Err: full}
			}
			return toy.Copy(a)
		}, toy.Mul(x, toy.Spread(toy.Sum(slow), 8)))
		return []*graph.Value{toy.Sum(y)}
	})
	l := plan(t, p, toy.Setup{Mesh: "a=2,b=2", Place: map[string]string{"x": "a"}})
	s := open(t, l, runtime.Options{})
	in := map[string]array.Array{"x": ramp(8)}
	want, err := toy.Eval(t.Context(), s, in)
	require.NoError(t, err)
	for range 50 {
		reject.Store(true)
		_, err := toy.Eval(t.Context(), s, in)
		require.ErrorIs(t, err, full)
		require.ErrorContains(t, err, ": trap: rank 0, instruction ") // the lowest rank, not the fastest
		reject.Store(false)
		got, err := toy.Eval(t.Context(), s, in)
		require.NoError(t, err)
		require.True(t, array.Equal(got[0], want[0]))
	}
}

func TestKernelPanic(t *testing.T) {
	for _, threads := range []int{1, 4} { // with 4, the panic is in another goroutine
		p, at := hooked(t, func(a *exec.Args) error {
			a.Parallel(2, 1, func(lo, hi int) {
				if hi == 2 && a.Rank == 1 {
					var none []int
					_ = none[lo+3]
				}
			})
			return toy.Copy(a)
		})
		_, err := toy.Eval(t.Context(), open(t, four(t, p), runtime.Options{Threads: threads}), map[string]array.Array{"x": ramp(8)})
		require.ErrorContains(t, err, at+": hook: rank 1, instruction ")
		require.ErrorContains(t, err, ": internal error: runtime error: index out of range [")
		require.ErrorContains(t, err, "failure_test.go:", "the stack")
	}
}

// When the context ends while ranks wait in an exchange and compute in kernels,
// Run returns the cause and leaves no goroutine.
func TestCancel(t *testing.T) {
	defer gort.GOMAXPROCS(gort.GOMAXPROCS(0))
	for _, procs := range []int{1, 2, 8} {
		gort.GOMAXPROCS(procs)
		for _, stuck := range []int{-1, 0, 3} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				release := make(chan bool)
				p, _ := hooked(t, func(a *exec.Args) error {
					if a.Rank == stuck || stuck < 0 {
						<-release // inside a kernel, while the others wait in all_sum
					}
					return toy.Copy(a)
				})
				s := open(t, four(t, p), runtime.Options{})
				in, err := toy.Put(s, map[string]array.Array{"x": ramp(8)})
				require.NoError(t, err)
				done := make(chan error)
				go func() {
					_, err := s.Run(ctx, in)
					done <- err
				}()
				synctest.Wait() // all ranks are stuck
				cause := errors.New("the user has had enough")
				cancel(cause)
				synctest.Wait() // ranks in the exchange have returned, the others still compute
				close(release)
				err = <-done
				if !errors.Is(err, cause) {
					t.Errorf("%d processors, stuck %d: %v, want the cause", procs, stuck, err)
				}
				var e *runtime.Error
				if !errors.As(err, &e) {
					t.Errorf("%v names no rank", err)
				}
				// synctest fails the test if a goroutine of the bubble is left.
			})
		}
	}
}

// A context that has ended runs no kernel. synctest fails the test if a
// goroutine of the bubble is left.
func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p, _ := hooked(t, func(*exec.Args) error { t.Error("a kernel runs"); return nil })
		_, err := toy.Eval(ctx, open(t, four(t, p), runtime.Options{}), map[string]array.Array{"x": ramp(8)})
		require.ErrorIs(t, err, context.Canceled)
	})
}

// With Finite, the error names the first kernel that makes a NaN or an infinity of finite
// numbers, also if the result overwrites an argument.
func TestFinite(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x, y := tr.Input("x", graph.F64, 8), tr.Input("y", graph.F64, 8)
		q := toy.Div(x, y)
		return []*graph.Value{toy.Scale(2, q), q}
	})
	at := p.Eqns[0].Pos.String()
	one := f64(1, 1, 1, 1, 1, 1, 1, 1)
	for _, setup := range []toy.Setup{
		{},
		{Mesh: "a=2", Place: map[string]string{"x": "a"}},
		{Donate: map[string]int{"x": 1}},
		{Donate: map[string]int{"y": 1}},
	} {
		l := plan(t, p, setup)
		for _, d := range l.Donated {
			require.True(t, d.InPlace)
		}
		run := func(finite bool, x, y array.Array) error {
			_, err := toy.Eval(t.Context(), open(t, l, runtime.Options{Finite: finite, Threads: 1}), map[string]array.Array{"x": x, "y": y})
			return err
		}
		err := run(true, one, f64(1, 1, 1, 1, 1, 1, 0, 1))
		rank, index := 0, 6
		if setup.Mesh != "" {
			rank, index = 1, 2
		}
		want := fmt.Sprintf("%s: div: rank %d, instruction ", at, rank)
		if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), fmt.Sprintf(": made +Inf at element %d of ", index)) {
			t.Errorf("%+v: %v, want %s ... element %d", setup, err, want, index)
		}
		var nf *runtime.NotFiniteError
		require.ErrorAs(t, err, &nf)
		require.True(t, math.IsInf(nf.Value, 1))
		require.NoError(t, run(true, one, one))
		require.NoError(t, run(false, one, f64(1, 1, 1, 1, 1, 1, 0, 1)))
		// A NaN in an input is not the fault of a kernel.
		require.NoError(t, run(true, f64(1, math.NaN(), 1, 1, 1, 1, 1, 1), one))
	}
}

// A trace is one JSON document with a track per rank, and every kernel and
// exchange on it with its line.
func TestTrace(t *testing.T) {
	p, at := hooked(t, toy.Copy)
	var buf bytes.Buffer
	tr := runtime.NewTrace(&buf)
	l := four(t, p)
	s := open(t, l, runtime.Options{Trace: tr})
	for range 3 {
		_, err := toy.Eval(t.Context(), s, map[string]array.Array{"x": ramp(8)})
		require.NoError(t, err)
	}
	require.NoError(t, tr.Close())

	events := traced(t, buf.Bytes())
	tracks := map[int]any{}
	got := map[int][]event{}
	var steps []string
	for _, e := range events {
		switch {
		case e.Name == "thread_sort_index":
			require.Equal(t, float64(2*e.Tid), e.Args["sort_index"])
		case e.Ph == "M":
			require.Equal(t, "thread_name", e.Name)
			tracks[e.Tid] = e.Args["name"]
		case e.Cat == "step":
			steps = append(steps, e.Name)
		default:
			got[e.Tid] = append(got[e.Tid], e)
		}
		if e.Ts < 0 || e.Dur < 0 {
			t.Errorf("%s begins at %v and takes %v", e.Name, e.Ts, e.Dur)
		}
	}
	require.Equal(t, map[int]any{0: "rank 0", 1: "rank 1", 2: "rank 2", 3: "rank 3"}, tracks)
	require.Len(t, steps, 12)
	for rank, events := range got {
		require.Len(t, events, 3*len(l.Instrs), "rank %d", rank)
		for i, e := range events {
			in := l.Instrs[i%len(l.Instrs)]
			require.Equal(t, in.Name(), e.Name)
			require.Equal(t, in.Pos.String(), e.Args["line"])
			if in.Communicates() {
				require.Equal(t, "collective", e.Cat)
				require.Equal(t, float64(8), e.Args["bytes"])
				require.Equal(t, []any{"a"}, e.Args["axes"])
				require.Equal(t, float64(in.Seq), e.Args["seq"])
			} else {
				require.Equal(t, "kernel", e.Cat)
			}
			if e.Name == "hook" {
				require.Equal(t, at, e.Args["line"])
			}
		}
	}

	var empty bytes.Buffer
	require.NoError(t, runtime.NewTrace(&empty).Close())
	require.JSONEq(t, `{"traceEvents": []}`, empty.String())

	broken := runtime.NewTrace(failing{})
	_, err := toy.Eval(t.Context(), open(t, l, runtime.Options{Trace: broken}), map[string]array.Array{"x": ramp(8)})
	require.NoError(t, err, "a trace that cannot be written stops no step")
	require.EqualError(t, broken.Close(), "disk full")
	var none *runtime.Trace
	require.NoError(t, none.Close())
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// Without any exchange, a step still stops at the next instruction.
func TestCancelBetweenKernels(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var at string
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		y := toy.Do("first", func(a *exec.Args) error { cancel(); return toy.Copy(a) }, tr.Input("x", graph.F64, 8))
		z := toy.Do("second", func(a *exec.Args) error { t.Error("the second kernel runs"); return nil }, y)
		at = z.Def.Pos.String()
		return []*graph.Value{z}
	})
	_, err := toy.Eval(ctx, open(t, plan(t, p, toy.Setup{}), runtime.Options{}), map[string]array.Array{"x": ramp(8)})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, at+": second: rank 0, instruction 1 of plan p: ")
}

// A failure reaches ranks of other processes, here of another session, through
// the communicator.
func TestFailureElsewhere(t *testing.T) {
	bad := errors.New("token 3 chooses expert 9 of 4")
	synctest.Test(t, func(t *testing.T) {
		p, _ := hooked(t, func(a *exec.Args) error {
			if a.Rank == 0 {
				return bad
			}
			return toy.Copy(a)
		})
		l := plan(t, p, toy.Setup{Mesh: "a=2", Place: map[string]string{"x": "a"}})
		comms, err := engine.Local(2, jaccl.Options{})
		require.NoError(t, err)
		errs := make(chan error, 2)
		for i := range comms {
			s, err := runtime.Open(l, comms[i:i+1], runtime.Options{})
			require.NoError(t, err)
			go func() {
				_, err := toyRun(t.Context(), s)
				errs <- err
			}()
		}
		for range comms {
			if err := <-errs; !errors.Is(err, bad) || errors.Is(err, jaccl.ErrDeadline) {
				t.Errorf("%v, want the cause of rank 0", err)
			}
		}
	})
}

// toyRun runs one step of hooked on a session that holds some of the ranks.
func toyRun(ctx context.Context, s *runtime.Session) ([]*runtime.Array, error) {
	in, err := toy.Put(s, map[string]array.Array{"x": ramp(8)})
	if err != nil {
		return nil, err
	}
	return s.Run(ctx, in)
}
