package main

import (
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
)

// Flags for four times as many inputs and results take four times the allocations, not
// sixteen times. A result is found by its name, of several with that name the first, or by
// its index.
func TestPlacingGrows(t *testing.T) {
	allocations := func(n int) float64 {
		p, err := graph.Trace("p", func(t *graph.Tracer) []*graph.Value {
			var out []*graph.Value
			for i := range n {
				x := t.Input(fmt.Sprintf("x%d", i), graph.F32, 4)
				out = append(out, graph.Apply1(graph.AddAnyOp{}, x, x).Named(fmt.Sprintf("y%d", i)))
			}
			return append(out, out...)
		})
		require.NoError(t, err)
		place := newPlacing(flag.NewFlagSet("plan", flag.ContinueOnError), true)
		for i := range n {
			require.NoError(t, place.place.Set(fmt.Sprintf("x%d=_", i)))
			require.NoError(t, place.donate.Set(fmt.Sprintf("x%d=%s", i, map[bool]string{true: fmt.Sprintf("y%d", i), false: fmt.Sprint(n + i)}[i%2 == 0])))
		}
		return testing.AllocsPerRun(1, func() {
			cfg, err := place.config("p.graph", p)
			require.NoError(t, err)
			for i := range n {
				if want := i + i%2*n; cfg.Donate[fmt.Sprintf("x%d", i)] != want {
					t.Fatalf("x%d is donated to result %d, want %d", i, cfg.Donate[fmt.Sprintf("x%d", i)], want)
				}
			}
		})
	}
	if small, large := allocations(100), allocations(400); large > 5*small {
		t.Errorf("%.0f allocations for flags for 100 inputs and %.0f for 400, want four times as many", small, large)
	}
}
