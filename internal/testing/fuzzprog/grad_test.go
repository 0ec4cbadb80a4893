package fuzzprog

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/vjp"
)

func onOne(p *graph.Program) (vjp.Eval, error) {
	j, err := gomoe.Open(context.Background(), p, gomoe.Config{})
	if err != nil {
		return nil, err
	}
	return j.Step, nil
}

// TestDifferences compares derivatives with central differences, at a few
// elements of every input. Programs that round or
// stop gradients are left out.
func TestDifferences(t *testing.T) {
	checked, left := 0, 0
	eachSeed(t, func(t *testing.T, seed uint64) {
		p := sample(t, seed)
		if p.Jumps || p.Stops {
			return
		}
		check := func(q *graph.Program) (*vjp.Report, error) {
			return vjp.Check(context.Background(), q, p.Inputs(q, seed), onOne, vjp.CheckOptions{Elements: 3, Tolerance: 1e-5, Seed: seed})
		}
		r, err := check(p.Program)
		require.NoError(t, err, "seed %d:\n%s", seed, p)
		for _, in := range r.Inputs {
			checked += in.Checked
			left += in.Rerouted
		}
		if !r.OK() {
			small := Shrink(p.Program, func(q *graph.Program) bool {
				r, err := check(q)
				return err == nil && !r.OK()
			})
			t.Errorf("seed %d: %s\n%s\nsmaller:\n%s", seed, r, p, small)
		}
	})
	t.Logf("%d elements compared, %d left out at a choice", checked, left)
}
