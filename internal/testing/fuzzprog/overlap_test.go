package fuzzprog

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/vjp"
)

// TestOverlap compares plans that compute during collectives with those that do
// not, of programs and of their pullbacks. The bits are the same, also with donated
// inputs, and lowering.Plan.Check accepts plans after every pass.
func TestOverlap(t *testing.T) {
	var plans, beside int
	check := func(t *testing.T, q *graph.Program, c tried, in arrays, what string) {
		plain, err := gomoe.Compile(t.Context(), q, c.config())
		if err != nil || len(plain.Report(1).Comm.Collectives) == 0 {
			return
		}
		want, err := run(q, c.config(), in)
		require.NoError(t, err, what)
		for k, opts := range []runtime.Options{{}, {Threads: 2}, {Poison: true}, {Finite: true}} {
			cfg := c.config()
			cfg.Overlap, cfg.Options = lowering.OverlapCollectives, opts
			if k == 1 {
				cfg.Donate = donations(plain, len(in)%len(plain.Out))
			}
			plan, err := gomoe.Compile(t.Context(), q, cfg)
			require.NoError(t, err, what)
			require.Len(t, plan.Bufs, len(plain.Bufs), what)
			got, err := run(q, cfg, in)
			if opts.Finite && err != nil {
				continue // as it stands
			}
			require.NoError(t, err, "%s\n%s", what, plan)
			require.NoError(t, differ(got, want, 0), "%s\n%+v\n%s", what, opts, plan)
			plans++
			for i := range plan.Instrs {
				if plan.Instrs[i].Wait > 0 {
					beside++
				}
			}
		}
	}
	eachSeed(t, func(t *testing.T, seed uint64) {
		p := sample(t, seed)
		pull, err := vjp.Pullback(p.Program)
		require.NoError(t, err)
		all := tries(t, p.Program, seed)
		for _, k := range []int{int(seed) % len(all), int(seed*5+1) % len(all)} {
			c := all[k]
			check(t, p.Program, c, p.Inputs(p.Program, seed), fmt.Sprintf("seed %d: %s\n%s", seed, c, p))
			if b, err := back(p.Program, pull, c, false); err == nil {
				check(t, pull, b, p.Inputs(pull, seed), fmt.Sprintf("seed %d: %s\n%s", seed, b, pull))
			}
		}
	})
	t.Logf("%d plans, %d collectives beside kernels", plans, beside)
	if beside == 0 {
		t.Error("no collective runs beside kernels")
	}
}
