package fuzzprog

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/optimize"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/vjp"
)

// TestOptimized checks what the passes promise, on programs and their pullbacks: a
// placement that is accepted without them is accepted with them, and results have the
// same placements, names and bits.
func TestOptimized(t *testing.T) {
	n := saved{why: refusals{}}
	eachSeed(t, func(t *testing.T, seed uint64) {
		p := sample(t, seed)
		pull, err := vjp.Pullback(p.Program)
		require.NoError(t, err)
		passes(t, p.Program)
		passes(t, pull)
		all := append([]tried{{}}, tries(t, p.Program, seed)...)
		for _, c := range all {
			n.compare(t, p, p.Program, c, seed)
			if _, err := gomoe.Compile(t.Context(), p.Program, c.config()); err != nil {
				continue
			}
			for _, whole := range []bool{false, true} {
				b, err := back(p.Program, pull, c, whole)
				require.NoError(t, err)
				n.compare(t, p, pull, b, seed)
			}
		}
	})
	t.Logf("%d plans: %d instructions became %d, %d collectives %d, %d bytes of arena %d; %d plans refused without passes are accepted",
		n.plans, n.instrs[0], n.instrs[1], n.collectives[0], n.collectives[1], n.arena[0], n.arena[1], n.more)
	n.why.log(t, "accepted with passes only")
	if n.instrs[1] >= n.instrs[0] {
		t.Errorf("%d instructions with passes, %d without", n.instrs[1], n.instrs[0])
	}
}

// passes checks the program after every pass, and that running all passes again changes
// nothing.
func passes(t *testing.T, p *graph.Program) {
	t.Helper()
	q, err := graph.Inline(t.Context(), p)
	require.NoError(t, err)
	for range 2 {
		before := q.String()
		for _, pass := range optimize.Passes() {
			text := q.String()
			r, err := pass.Run(t.Context(), q)
			require.NoError(t, err, "%s\n%s", pass.Name, text)
			require.NoError(t, graph.Check(r), "%s\n%s", pass.Name, text)
			require.Equal(t, text, q.String(), "pass %s wrote to its argument", pass.Name)
			q = r
		}
		if p == nil {
			require.Equal(t, before, q.String(), "a second time something changed")
		}
		p = nil
	}
}

// saved counts what plans need without the passes and with them.
type saved struct {
	why                 refusals
	plans, more         int
	instrs, collectives [2]int
	arena               [2]int64
}

// compare compares the plan of q, which was made from p, with the plan of q optimised.
func (n *saved) compare(t *testing.T, p Program, q *graph.Program, c tried, seed uint64) {
	t.Helper()
	plain := c.config()
	plain.Optimize = gomoe.Off
	a, err := gomoe.Compile(t.Context(), q, plain)
	b, optimised := gomoe.Compile(t.Context(), q, c.config())
	if err != nil {
		if optimised == nil {
			n.more++
			n.why.add(err)
		}
		return
	}
	what := fmt.Sprintf("seed %d: %s\n%s", seed, c, q)
	require.NoError(t, optimised, what)
	require.Len(t, b.Out, len(a.Out), what)
	for i := range a.Out {
		require.Equal(t, a.Out[i].Name, b.Out[i].Name, what)
		require.Equal(t, a.Out[i].Spec.Format(a.Out[i].Type), b.Out[i].Spec.Format(b.Out[i].Type), what)
	}
	n.plans++
	for i, plan := range []*lowering.Plan{a, b} {
		n.instrs[i] += len(plan.Instrs)
		n.arena[i] += plan.Arena
		for j := range plan.Instrs {
			if plan.Instrs[j].Communicates() {
				n.collectives[i]++
			}
		}
	}
	if a.Hash() == b.Hash() {
		return // one plan
	}
	in := p.Inputs(q, seed)
	want, err := run(q, plain, in)
	if err != nil {
		return // the tests of placements and pullbacks report it
	}
	got, err := run(q, c.config(), in)
	require.NoError(t, err, what)
	require.NoError(t, differ(got, want, 0), "%s\n%s\n%s", what, a, b)
}
