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
// not, of programs and of their pullbacks: the bits are the same, also over
// donated inputs, and no instruction touches what an exchange is at work on.
func TestOverlap(t *testing.T) {
	var plans, beside int
	check := func(t *testing.T, q *graph.Program, c tried, in arrays, what string) {
		plain, err := gomoe.Compile(q, c.config())
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
			plan, err := gomoe.Compile(q, cfg)
			require.NoError(t, err, what)
			require.NoError(t, undisturbed(plan), "%s\n%s", what, plan)
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

// undisturbed reports an instruction that touches memory that a collective
// writes, or writes what it reads, while that is under way.
func undisturbed(p *lowering.Plan) error {
	seq := 0
	for c := range p.Instrs {
		in := &p.Instrs[c]
		if !in.Communicates() {
			continue
		}
		if in.Seq != seq {
			return fmt.Errorf("collective %d has number %d, want %d", c, in.Seq, seq)
		}
		seq++
		for i := c + 1; i < in.Wait; i++ {
			k := &p.Instrs[i]
			if k.Communicates() {
				continue // comes after it
			}
			reads := append([]int{}, k.In...)
			if k.Zones >= 0 {
				reads = append(reads, k.Zones)
			}
			for _, pair := range [][2][]int{{in.Out, reads}, {in.Out, k.Out}, {in.In, k.Out}} {
				for _, a := range pair[0] {
					for _, b := range pair[1] {
						if share(p, a, b) {
							return fmt.Errorf("instruction %d touches b%d while collective %d is at work on b%d", i, b, c, a)
						}
					}
				}
			}
		}
	}
	return nil
}

// share reports whether two buffers have memory in common.
func share(p *lowering.Plan, a, b int) bool {
	a, b = p.Root(a), p.Root(b)
	x, y := &p.Bufs[a], &p.Bufs[b]
	if a == b {
		return x.Type.Bytes() > 0
	}
	return x.Storage == lowering.Temp && y.Storage == lowering.Temp &&
		x.Offset < y.Offset+y.Type.Bytes() && y.Offset < x.Offset+x.Type.Bytes()
}
