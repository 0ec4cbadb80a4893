package fuzzprog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// exactBlocks is Config.Exact: programs have many dimensions of 4 and 8.
const exactBlocks = 4

// exactMeshes have 1 to 4 ranks, also such as have no equal parts.
func exactMeshes() []string {
	return []string{"", "dp=2", "ep=2", "dp=3", "ep=3", "dp=4", "ep=4", "dp=2,ep=2", "dp=1,ep=3"}
}

// TestExact runs programs and their derivatives under Config.Exact: what is accepted has the
// bits of one rank on every mesh. It goes on with further seeds until half as many programs as
// were asked for are accepted and a run differs without Exact.
func TestExact(t *testing.T) {
	n := exactTally{why: refusals{}}
	eachSeed(t, n.program)
	for seed := *first + uint64(*programs); !t.Failed() && (n.programs < *programs/2 || n.differ == 0); seed++ {
		n.program(t, seed) // the seeds have shown too little so far
	}
	t.Logf("%d programs in %d runs, of which %d differ without Exact", n.programs, n.runs, n.differ)
	n.why.log(t, "refused")
}

// exactTally counts what was accepted.
type exactTally struct {
	why                    refusals
	programs, runs, differ int
}

func (n *exactTally) program(t *testing.T, seed uint64) {
	p := sample(t, seed)
	pull, err := vjp.Pullback(p.Program)
	require.NoError(t, err, "seed %d:\n%s", seed, p)
	for _, q := range []*graph.Program{p.Program, pull} {
		in := p.Inputs(q, seed)
		for k := range uint64(3) {
			if n.placed(t, seed, q, exactPlace(t, p.Program, q, seed*5+k), in) || t.Failed() {
				break
			}
		}
	}
}

// exactPlace places the inputs of q, which is p or its derivative. The cotangents of the latter
// are whole.
func exactPlace(t *testing.T, p, q *graph.Program, seed uint64) map[string]sharding.Spec {
	place := Place(p, mesh(t, "dp=2,ep=2"), seed)
	for name := range place {
		if q.Input(name) == nil {
			delete(place, name)
		}
	}
	return place
}

// placed reports whether the placement was accepted on several ranks. It runs q on every mesh.
func (n *exactTally) placed(t *testing.T, seed uint64, q *graph.Program, place map[string]sharding.Spec, in arrays) bool {
	if len(place) == 0 {
		return false
	}
	var want, plain []array.Array
	several := 0
	for _, s := range exactMeshes() {
		c := tried{mesh(t, s), place}
		cfg := c.config()
		cfg.Exact = exactBlocks
		if _, err := gomoe.Compile(t.Context(), q, cfg); err != nil {
			n.why.add(err)
			if s == "" {
				return false
			}
			continue
		}
		got, err := run(q, cfg, in)
		if s == "" {
			if err != nil {
				return false // as on any mesh: an index out of range, for example
			}
			cfg.Exact = 0
			plain, err = run(q, cfg, in)
			require.NoError(t, err)
			want = got
			if err := differ(want, plain, 1e-9); err != nil {
				t.Errorf("seed %d: %s: exact: %v\n%s", seed, c, err, q)
				return false
			}
			continue
		}
		if err == nil {
			err = differ(got, want, 0)
		}
		if err != nil {
			t.Errorf("seed %d: %s: %v\n%s", seed, c, err, q)
			return false
		}
		several++
		cfg.Exact = 0
		if other, err := run(q, cfg, in); err == nil && differ(other, plain, 0) != nil {
			n.differ++
		}
	}
	n.runs += several
	if several > 0 {
		n.programs++
	}
	return several > 0
}
