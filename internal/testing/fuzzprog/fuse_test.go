package fuzzprog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/vjp"
)

// fusedRun runs q with chunks of a few elements, so that small arrays have many chunks,
// in several goroutines, and with results written over donated inputs.
func fusedRun(q *graph.Program, c tried, chunk int, donate map[string]int, in arrays, opts runtime.Options) ([]array.Array, *lowering.Plan, error) {
	a, err := gomoe.Place(context.Background(), q, c.config())
	if err != nil {
		return nil, nil, err
	}
	plan, err := lowering.Lower(context.Background(), a, lowering.Options{Fuse: chunk > 0, Chunk: chunk, Donate: donate, Check: true})
	if err != nil {
		return nil, nil, err
	}
	comms, err := engine.Local(c.mesh.Ranks(), jaccl.Options{})
	if err != nil {
		return nil, nil, err
	}
	s, err := runtime.Open(plan, comms, opts)
	if err != nil {
		return nil, nil, err
	}
	j := gomoe.Job{Session: s}
	args := arrays{}
	for _, v := range q.In {
		args[v.Name] = in[v.Name]
	}
	out, err := j.Step(context.Background(), args)
	return out, plan, err
}

// TestFused compares plans with and without fusion, of programs and of their
// pullbacks. The bits are the same, also with donated inputs, part by part, and
// with chunks of a few elements.
func TestFused(t *testing.T) {
	chains, parts, donated := 0, 0, 0
	check := func(t *testing.T, q *graph.Program, c tried, in arrays, what string) {
		want, plain, err := fusedRun(q, c, 0, nil, in, runtime.Options{})
		if err != nil {
			return // refused, or an error of the program: the tests of placements report it
		}
		for k, opts := range []runtime.Options{{Threads: 1}, {Threads: 3, Poison: true}, {Poison: true}, {Finite: true}} {
			donate := map[string]int(nil)
			if k == 2 {
				donate = donations(plain, len(in)%len(plain.Out))
			}
			got, plan, err := fusedRun(q, c, 8+8*(k%2), donate, in, opts)
			if opts.Finite {
				_, _, plainErr := fusedRun(q, c, 0, nil, in, opts)
				if plainErr != nil {
					require.Error(t, err, what)
					if c.mesh.Ranks() == 1 { // of several ranks, any may fail first
						require.Equal(t, cause(plainErr), cause(err), what)
					}
					continue
				}
			}
			require.NoError(t, err, "%s\n%s", what, plan)
			require.NoError(t, differ(got, want, 0), "%s\n%+v\n%s", what, opts, plan)
			for i := range plan.Instrs {
				if n := len(plan.Instrs[i].Chain); n > 0 {
					chains, parts = chains+1, parts+n
				}
			}
			for _, d := range plan.Donated {
				if d.InPlace {
					donated++
				}
			}
		}
	}
	eachSeed(t, func(t *testing.T, seed uint64) {
		p := sample(t, seed)
		pull, err := vjp.Pullback(p.Program)
		require.NoError(t, err)
		all := append([]tried{{}}, tries(t, p.Program, seed)...)
		for _, k := range []int{0, 1 + int(seed)%(len(all)-1)} {
			c := all[k]
			check(t, p.Program, c, p.Inputs(p.Program, seed), fmt.Sprintf("seed %d: %s\n%s", seed, c, p))
			b, err := back(p.Program, pull, c, false)
			if err != nil {
				continue
			}
			check(t, pull, b, p.Inputs(pull, seed), fmt.Sprintf("seed %d: %s\n%s", seed, b, pull))
		}
		e, in := elementwise(t, seed)
		check(t, e, tried{}, in, fmt.Sprintf("seed %d:\n%s", seed, e))
	})
	t.Logf("%d fused instructions of %d parts, %d results in place", chains, parts, donated)
	if chains == 0 || donated == 0 {
		t.Error("nothing is fused, or nothing is in place")
	}
}

// cause returns an error's text without the number of the instruction, which differs.
func cause(err error) string {
	var e *runtime.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	return fmt.Sprintf("%s %s %v", e.Pos, e.Name, e.Err)
}

// elementwise makes a random program of elementwise functions, broadcasts,
// reshapes and sums, whose values have many readers, with NaN, infinities and
// negative zeros among its inputs.
func elementwise(t *testing.T, seed uint64) (*graph.Program, arrays) {
	r := rand.New(rand.NewPCG(seed, 9))
	d := []graph.DType{graph.F32, graph.F64, graph.BF16, graph.F16}[r.IntN(4)]
	rows, cols := r.IntN(9), 1+r.IntN(13)
	p, err := graph.Trace("elementwise", func(tr *graph.Tracer) []*graph.Value {
		x, y := tr.Input("x", d, rows, cols), tr.Input("y", d, rows, cols)
		row, column, one := tr.Input("row", d, cols), tr.Input("column", d, rows), tr.Input("one", d)
		all := []*graph.Value{x, y, primitives.BroadcastInDim(row, x.Type.Shape, 1), primitives.BroadcastInDim(column, x.Type.Shape, 0), primitives.BroadcastInDim(one, x.Type.Shape), primitives.FullLike(x, 0.5)}
		for range 3 + r.IntN(20) {
			a, b, c := all[r.IntN(len(all))], all[r.IntN(len(all))], all[len(all)-1-r.IntN(3)]
			var v *graph.Value
			switch r.IntN(15) {
			case 0:
				v = primitives.Add(a, c)
			case 1:
				v = primitives.Mul(c, b)
			case 2:
				v = primitives.Div(a, c)
			case 3:
				v = primitives.Where(primitives.Lt(a, b), c, b)
			case 4:
				v = primitives.Clamp(one, c, b)
			case 5:
				v = primitives.SwiGLU(c, a)
			case 6:
				v = primitives.SiLU(c)
			case 7:
				v = primitives.ConvertElementType(primitives.ConvertElementType(c, graph.I32), d)
			case 8:
				v = primitives.ConvertElementType(primitives.ConvertElementType(c, graph.F64), d)
			case 9:
				v = primitives.Reshape(primitives.Exp(primitives.Reshape(c, rows*cols)), rows, cols)
			case 10:
				v = tr.Apply(graph.AddAnyOp{}, a, b, c)[0]
			case 11:
				v = primitives.Where(primitives.And(primitives.IsFinite(a), primitives.Not(primitives.Ge(b, c))), primitives.Max(a, c), primitives.Neg(c))
			case 12:
				v = primitives.GELU(c)
			case 13:
				v = primitives.Mul(primitives.BroadcastInDim(primitives.ReduceSum(c, 1), x.Type.Shape, 0), a)
			default:
				v = primitives.Sub(primitives.BroadcastInDim(primitives.ReduceSum(c, 0), x.Type.Shape, 1), a)
			}
			all = append(all, v)
		}
		out := []*graph.Value{all[len(all)-1]}
		for range r.IntN(3) {
			out = append(out, all[r.IntN(len(all))])
		}
		return out
	})
	require.NoError(t, err)
	in := arrays{}
	for _, v := range p.In {
		x := make([]float64, v.Type.Len())
		for i := range x {
			x[i] = r.NormFloat64()
			if r.IntN(40) == 0 {
				zero := 0.0
				x[i] = []float64{-zero, 1 / zero, -1 / zero, zero / zero, 1e30}[r.IntN(5)]
			}
		}
		a := array.New(v.Type)
		require.NoError(t, a.SetFloat64s(x))
		in[v.Name] = a
	}
	return p, in
}
