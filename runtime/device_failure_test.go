package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/late"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/runtime"
)

var onFour = toy.Setup{Mesh: "a=4", Place: map[string]string{"x": "a"}}

// When a kernel fails on a device, the error names that kernel, however far the host
// has come when it learns of the failure, and the other ranks stop.
func TestKernelErrorOnDevice(t *testing.T) {
	bad := errors.New("token 3 chooses expert 9 of 4")
	p, at := hooked(t, func(a *exec.Args) error {
		if a.Rank == 2 {
			return bad
		}
		return toy.Copy(a)
	})
	for _, beside := range []bool{false, true} {
		for range 10 {
			s := on(t, &late.Device{Why: except("sum"), Beside: beside}, p, onFour, runtime.Options{})
			_, err := toy.Eval(t.Context(), s, map[string]array.Array{"x": ramp(8)})
			require.EqualError(t, err, fmt.Sprintf("%s: hook: rank 2, instruction %d of plan p: token 3 chooses expert 9 of 4", at, instruction(t, s.Plan(), "hook")))
			require.ErrorIs(t, err, bad)
			_, err = toy.Eval(t.Context(), s, map[string]array.Array{"x": ramp(8)})
			require.ErrorIs(t, err, bad, "a poisoned job runs again")
		}
	}
}

// After an error on which all ranks agree, session and device work as before.
func TestAgreedErrorOnDevice(t *testing.T) {
	full := errors.New("expert 1 is full")
	var reject atomic.Bool
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F64, 8)
		y := toy.Do("trap", func(a *exec.Args) error {
			if reject.Load() {
				return &exec.AgreedError{Err: full}
			}
			return toy.Copy(a)
		}, toy.Mul(x, toy.Spread(toy.Sum(x), 8)))
		return []*graph.Value{toy.Sum(toy.Square(y)), y}
	})
	for _, host := range []string{"sum", "trap", "square", "mul", ""} {
		d := &late.Device{Why: except(host)}
		s := on(t, d, p, toy.Setup{Mesh: "a=2,b=2", Place: map[string]string{"x": "a"}}, runtime.Options{})
		in, err := toy.Put(s, map[string]array.Array{"x": ramp(8)})
		require.NoError(t, err)
		first := step(t, s, in)
		for range 20 {
			reject.Store(true)
			_, err := s.Run(t.Context(), in)
			require.ErrorIs(t, err, full)
			require.ErrorContains(t, err, ": trap: rank 0, instruction ")
			reject.Store(false)
			again := step(t, s, in)
			require.Equal(t, values(t, first[1]), values(t, again[1]))
			require.Equal(t, values(t, first[0]), values(t, again[0]))
			s.Recycle(again...)
		}
	}
}

// The host fails while the device has work, some of it not handed over yet. The step ends
// only when all that work is done, because its memory is then used for something else.
func TestHostErrorWhileDeviceWorks(t *testing.T) {
	bad := errors.New("no such token")
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F64, 8)
		y := toy.Square(x)
		s := toy.Sum(x) // makes the host hand over the work on y
		z := toy.Scale(2, y)
		h := toy.Do("hook", func(a *exec.Args) error {
			if a.Rank == 1 {
				return bad
			}
			return toy.Copy(a)
		}, x)
		return []*graph.Value{y, z, h, s}
	})
	for _, beside := range []bool{false, true} {
		d := &late.Device{Why: except("hook"), Beside: beside}
		s := on(t, d, p, toy.Setup{Mesh: "a=2", Place: map[string]string{"x": "a"}}, runtime.Options{})
		in, err := toy.Put(s, map[string]array.Array{"x": ramp(8)})
		require.NoError(t, err)
		_, err = s.Run(t.Context(), in)
		require.ErrorIs(t, err, bad)
		require.ErrorContains(t, err, ": hook: rank 1, instruction ")
		require.Equal(t, d.Count().Encode, d.Count().Done, "instructions are still to be done when the step has ended")
	}
}

// A device that refuses work, or loses it, fails the step.
func TestBrokenDevice(t *testing.T) {
	gone := errors.New("the GPU was reset")
	for _, when := range []bool{true, false} {
		d := &late.Device{Why: except("sum"), Broken: func(rank int, _ uint64, waiting bool) error {
			if rank == 1 && waiting == when {
				return gone
			}
			return nil
		}}
		p, _ := hooked(t, toy.Copy)
		s := on(t, d, p, onFour, runtime.Options{})
		_, err := toy.Eval(t.Context(), s, map[string]array.Array{"x": ramp(8)})
		require.ErrorIs(t, err, gone)
		require.ErrorContains(t, err, "rank 1, instruction ")
	}
}

// When the context ends while the host waits for the device, the step ends when the
// device has done the work that it has.
func TestCancelWhileDeviceWorks(t *testing.T) {
	for _, ends := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			p, _ := hooked(t, toy.Copy)
			d := &late.Device{Why: except("sum"), Stuck: make(chan struct{})}
			s := on(t, d, p, onFour, runtime.Options{})
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
			select {
			case err := <-done:
				t.Errorf("Run returns %v while the device works", err)
			default:
			}
			began := time.Now()
			if ends {
				close(d.Stuck)
			}
			err = <-done
			require.ErrorIs(t, err, cause)
			var e *runtime.Error
			require.ErrorAs(t, err, &e)
			if ends {
				require.Zero(t, time.Since(began))
				return
			}
			// The device never ends its work, so its memory is never used again.
			require.Equal(t, 30*time.Second, time.Since(began))
			before := d.Count()
			s.Close()
			require.Equal(t, before.Bytes, d.Count().Bytes)
			require.Zero(t, d.Count().Closed)
			close(d.Stuck)
		})
	}
}

// The failure of a rank reaches ranks whose devices are working.
func TestFailureWhileOthersWaitForDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := errors.New("no such token")
		p, _ := hooked(t, func(a *exec.Args) error {
			if a.Rank == 3 {
				return bad
			}
			return toy.Copy(a)
		})
		d := &late.Device{Why: except("hook", "sum")}
		s := on(t, d, p, onFour, runtime.Options{})
		_, err := toy.Eval(t.Context(), s, map[string]array.Array{"x": ramp(8)})
		require.ErrorIs(t, err, bad)
		require.ErrorContains(t, err, "rank 3")
		require.Equal(t, d.Count().Encode, d.Count().Done)
	})
}

// A queue that cannot be opened fails the step, and the next one tries again.
func TestQueueRefused(t *testing.T) {
	no := errors.New("rope.metal:3: no such type")
	refuse := true
	d := &late.Device{Refusing: func(rank int) error {
		if refuse && rank == 1 {
			return &exec.AgreedError{Err: no}
		}
		return nil
	}}
	p, _ := hooked(t, toy.Copy)
	s := on(t, d, p, onFour, runtime.Options{})
	_, err := toy.Eval(t.Context(), s, map[string]array.Array{"x": ramp(8)})
	require.EqualError(t, err, "runtime: rank 1: plan p on late: rope.metal:3: no such type")
	refuse = false
	_, err = toy.Eval(t.Context(), s, map[string]array.Array{"x": ramp(8)})
	require.NoError(t, err)
	require.Equal(t, 4, d.Count().Open)
}
