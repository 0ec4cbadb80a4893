package gomoe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// TestScanTrace reads the trace of loops, forward and backward on two ranks. The slice of a
// loop holds those of all instructions of every iteration, in the order in which the
// iterations run, one behind the other. Totals count what a loop did once.
func TestScanTrace(t *testing.T) {
	p, err := vjp.Grad(layered(t, 8, "stacked"), "w")
	require.NoError(t, err)
	m, err := sharding.ParseMesh("dp=2")
	require.NoError(t, err)
	var log bytes.Buffer
	trace := runtime.NewTrace(&log)
	_, err = gomoe.Run(context.Background(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": sharding.Split("dp")},
		Options: runtime.Options{Trace: trace}}, layeredInputs(8))
	require.NoError(t, err)
	require.NoError(t, trace.Close())
	type event struct {
		Name, Cat string
		Tid       int
		Ts, Dur   float64
		Args      struct {
			Iteration  *int
			Iterations int
			Seq        *int
		}
	}
	var all struct{ TraceEvents []event }
	require.NoError(t, json.Unmarshal(log.Bytes(), &all))
	for rank := range 2 {
		var inside []event // of the loop that ends next: a slice is written when it ends
		var loops, backwards, seq int
		for _, e := range all.TraceEvents {
			if e.Tid != rank || e.Cat == "" || e.Cat == "step" {
				continue
			}
			if e.Args.Seq != nil {
				if *e.Args.Seq < seq {
					t.Errorf("rank %d: collective %d of %s follows collective %d", rank, *e.Args.Seq, e.Name, seq)
				}
				seq = *e.Args.Seq
			}
			if e.Args.Iteration != nil {
				inside = append(inside, e)
				continue
			}
			if e.Cat != "loop" {
				if len(inside) > 0 {
					t.Errorf("rank %d: %s between the iterations of a loop and its end", rank, e.Name)
				}
				continue
			}
			loops++
			require.Equal(t, depth, e.Args.Iterations)
			require.NotEmpty(t, inside)
			each, step := len(inside)/depth, 1
			if *inside[0].Args.Iteration > 0 {
				backwards++
				step = -1
			}
			at := e.Ts
			for i, x := range inside {
				want := i / each
				if step < 0 {
					want = depth - 1 - want
				}
				if *x.Args.Iteration != want || x.Name != inside[i%each].Name {
					t.Errorf("rank %d: slice %d of a loop is %s of iteration %d, want %s of %d", rank, i, x.Name, *x.Args.Iteration, inside[i%each].Name, want)
				}
				if x.Ts < at || x.Ts+x.Dur > e.Ts+e.Dur+0.01 { // times are rounded to ns
					t.Errorf("rank %d: %s of iteration %d from %v for %v, want between %v and %v", rank, x.Name, *x.Args.Iteration, x.Ts, x.Dur, at, e.Ts+e.Dur)
				}
				at = x.Ts
			}
			inside = nil
		}
		if loops != 2 || backwards != 1 || seq < depth {
			t.Errorf("rank %d: %d loops, %d of them from the last iteration to the first, collectives up to %d, want 2, 1 and at least %d", rank, loops, backwards, seq, depth)
		}
		if x := trace.Totals(rank); x.Kernels <= 0 || x.Collectives <= 0 || x.Kernels+x.Collectives+x.Waits > x.Steps {
			t.Errorf("rank %d: kernels took %v, collectives %v and waits %v of steps of %v", rank, x.Kernels, x.Collectives, x.Waits, x.Steps)
		}
	}
}
