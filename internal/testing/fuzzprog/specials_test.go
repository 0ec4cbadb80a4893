package fuzzprog

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/vjp"
)

// TestSpecials compares optimised plans with plans as they are written on inputs with
// NaNs, infinities, zeros of both signs and numbers that overflow, of programs and of
// their pullbacks: the numbers are the same, and NaNs are in the same places.
func TestSpecials(t *testing.T) {
	compared, wild := 0, 0
	check := func(p Program, q *graph.Program, c tried, seed uint64) {
		plain := c.config()
		plain.Optimize = gomoe.Off
		in := withSpecials(p.Inputs(q, seed), seed)
		want, err := run(q, plain, in)
		if err != nil {
			return // refused, or a router's error, which names a NaN
		}
		what := fmt.Sprintf("seed %d: %s\n%s", seed, c, q)
		got, err := run(q, c.config(), in)
		require.NoError(t, err, what)
		for i := range want {
			x, y := want[i].Float64s(), got[i].Float64s()
			for j := range x {
				if math.IsNaN(x[j]) || math.IsInf(x[j], 0) {
					wild++
				}
				if x[j] != y[j] && !(math.IsNaN(x[j]) && math.IsNaN(y[j])) {
					t.Fatalf("%s\nelement %d of result %d is %v, as it is written %v", what, j, i, y[j], x[j])
				}
			}
			compared++
		}
	}
	eachSeed(t, func(t *testing.T, seed uint64) {
		p := sample(t, seed)
		pull, err := vjp.Pullback(p.Program)
		require.NoError(t, err)
		all := tries(t, p.Program, seed)
		for _, c := range []tried{{}, all[int(seed)%len(all)]} {
			check(p, p.Program, c, seed)
			if b, err := back(p.Program, pull, c, false); err == nil {
				check(p, pull, b, seed)
			}
		}
	})
	t.Logf("%d results compared, with %d elements that are not finite", compared, wild)
	if wild < compared {
		t.Error("too few elements are not finite")
	}
}

// withSpecials replaces about one float in eight.
func withSpecials(in arrays, seed uint64) arrays {
	r := rand.New(rand.NewPCG(seed, 77))
	special := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1e300, -1e300, 5e-324}
	out := arrays{}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		a := in[name]
		if a.Type.DType.IsFloat() {
			x := a.Float64s()
			for i := range x {
				if r.IntN(8) == 0 {
					x[i] = special[r.IntN(len(special))]
				}
			}
			a = of(a.Type, x)
		}
		out[name] = a
	}
	return out
}

// TestSecondDerivatives compares the derivatives of gradients with central differences of
// the gradients, at a few elements of every input, and one rank with a mesh.
func TestSecondDerivatives(t *testing.T) {
	checked, placed := 0, 0
	eachSeed(t, func(t *testing.T, seed uint64) {
		p := sample(t, seed)
		if p.Jumps || p.Stops || p.Chooses || seed%2 == 0 { // half of them, for time
			return
		}
		pull, err := vjp.Pullback(p.Program)
		require.NoError(t, err)
		if len(pull.Eqns) > 150 {
			return
		}
		in := p.Inputs(pull, seed)
		r, err := vjp.Check(t.Context(), pull, in, onOne, vjp.CheckOptions{Elements: 2, Tolerance: 1e-4, Seed: seed})
		require.NoError(t, err, "seed %d:\n%s", seed, pull)
		for _, x := range r.Inputs {
			checked += x.Checked
		}
		if !r.OK() {
			t.Errorf("seed %d: %s\n%s", seed, r, pull)
		}
		twice, err := vjp.Pullback(pull)
		require.NoError(t, err)
		all := tries(t, p.Program, seed)
		c, err := back(p.Program, pull, all[int(seed)%len(all)], false)
		if err == nil {
			c, err = back(pull, twice, c, false)
		}
		if err != nil {
			return
		}
		in = p.Inputs(twice, seed)
		want, err := run(twice, gomoe.Config{}, in)
		require.NoError(t, err)
		got, err := run(twice, c.config(), in)
		if err != nil {
			return // refused
		}
		require.NoError(t, differ(got, want, 1e-9), "seed %d: %s\n%s", seed, c, twice)
		placed++
	})
	t.Logf("%d elements compared, %d placed on a mesh", checked, placed)
	if checked == 0 {
		t.Error("nothing is compared")
	}
}
