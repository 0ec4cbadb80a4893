package fuzzprog

import (
	"fmt"
	"math/rand/v2"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// Program is a random program running without error on inputs in its ranges.
type Program struct {
	*graph.Program
	Seed uint64
	// Ranges bounds the integer inputs: lo to hi-1.
	Ranges map[string][2]int
	// Jumps marks a program that rounds, so that it is not a continuous function of its
	// float inputs even for constant integer values. Its derivative is not checked by
	// differences, and a sum in another order may change its results.
	Jumps bool
	// Stops marks a program stopping a gradient, which differences do not see.
	Stops bool
	// Chooses marks a program with integers or booleans depending on floats, so that at
	// ties a sum in another order may change results.
	Chooses bool
}

// New returns the program of the seed. The same seed gives the same program.
func New(seed uint64) (Program, error) {
	g := &gen{r: rand.New(rand.NewPCG(seed, 1)), p: Program{Seed: seed, Ranges: map[string][2]int{}}}
	p, err := graph.Trace(fmt.Sprintf("p%d", seed), func(t *graph.Tracer) []*graph.Value {
		g.t = t
		return g.program()
	})
	if err != nil {
		return Program{}, fmt.Errorf("fuzzprog: seed %d: %w", seed, err)
	}
	g.p.Program = p
	return g.p, nil
}

// Inputs returns random arrays for every input of q: floats and blocks in [-1, 1), and integers in
// their ranges. q has p's inputs and may have further float inputs.
func (p Program) Inputs(q *graph.Program, seed uint64) map[string]array.Array {
	in := map[string]array.Array{}
	for i, v := range q.In {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		x := make([]float64, v.Type.Len())
		lim, bounded := p.Ranges[v.Name]
		for j := range x {
			if bounded {
				x[j] = float64(lim[0] + r.IntN(lim[1]-lim[0]))
			} else {
				x[j] = r.Float64()*2 - 1
			}
		}
		in[v.Name] = of(v.Type, x)
	}
	return in
}

func of(t graph.Type, x []float64) array.Array {
	a := array.New(t)
	if err := a.SetFloat64s(x); err != nil {
		panic(err) // x has t's length
	}
	return a
}
