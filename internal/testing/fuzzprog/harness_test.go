package fuzzprog

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

var (
	programs = flag.Int("programs", 50, "random programs that every test makes; make programs has 120 and more")
	first    = flag.Uint64("first", 1, "seed of the first of them")
	show     = flag.String("show", "", "stop at a backward pass that is refused with this text, and shrink it")
)

// eachSeed runs f for every seed.
func eachSeed(t *testing.T, f func(t *testing.T, seed uint64)) {
	t.Helper()
	for i := range *programs {
		f(t, *first+uint64(i))
		if t.Failed() {
			return
		}
	}
}

// sample returns the program of the seed, read from its own text, so that its
// equations are at lines of that text.
func sample(t *testing.T, seed uint64) Program {
	t.Helper()
	p, err := New(seed)
	require.NoError(t, err)
	q, err := gomoe.Parse("p.graph", p.String())
	require.NoError(t, err, "seed %d:\n%s", seed, p)
	p.Program = q
	return p
}

func mesh(t *testing.T, s string) sharding.Mesh {
	t.Helper()
	m, err := sharding.ParseMesh(s)
	require.NoError(t, err)
	return m
}

type arrays = map[string]array.Array

func run(p *graph.Program, cfg gomoe.Config, in arrays) ([]array.Array, error) {
	_, out, err := planned(p, cfg, in)
	return out, err
}

// planned is run with the plan, which is nil if there is none.
func planned(p *graph.Program, cfg gomoe.Config, in arrays) (*lowering.Plan, []array.Array, error) {
	j, err := gomoe.Open(context.Background(), p, cfg)
	if err != nil {
		return nil, nil, err
	}
	defer j.Close()
	args := arrays{}
	for _, v := range p.In {
		args[v.Name] = in[v.Name]
	}
	out, err := j.Step(context.Background(), args)
	return j.Plan(), out, err
}

// refused returns nil if err refuses a placement as it should, at a line of the program.
func refused(err error) error {
	var ge *graph.Error
	if !errors.As(err, &ge) || ge.Pos.Line == 0 {
		return fmt.Errorf("refused without a source line: %w", err)
	}
	if strings.Contains(err.Error(), "panic") || strings.Contains(err.Error(), "internal error") {
		return err
	}
	return nil
}

// sums reports whether ranks add the parts of a sum, so that the order of the additions
// depends on the mesh.
func sums(p *lowering.Plan) bool {
	return slices.ContainsFunc(p.Plans(), func(q *lowering.Plan) bool {
		return slices.ContainsFunc(q.Instrs, func(i lowering.Instr) bool {
			c, ok := i.Prim.(primitives.CombineOp)
			return i.Name() == "all_sum" && i.DType.IsFloat() || i.Name() == "reduce_scatter" || ok && c.Exchange == ep.Sum
		})
	})
}

// differ returns an error if got differs from want: in bits if tol is 0, and otherwise by
// more than tol relative to the larger of 1 and the largest element, in f32 by more than 1e-6.
func differ(got, want []array.Array, tol float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d results, want %d", len(got), len(want))
	}
	for i := range want {
		if array.Equal(got[i], want[i]) {
			continue
		}
		scale, tol := 1.0, tol
		if tol > 0 && want[i].Type.DType == graph.F32 { // the gradient of 8-bit floats
			tol = max(tol, 1e-6)
		}
		for _, x := range want[i].Float64s() {
			if !math.IsNaN(x) && !math.IsInf(x, 0) {
				scale = max(scale, math.Abs(x))
			}
		}
		if d, at := array.MaxDiff(got[i], want[i]); !(d <= tol*scale) || tol == 0 {
			return fmt.Errorf("result %d differs by %g at %d:\ngot  %v\nwant %v", i, d, at, got[i], want[i])
		}
	}
	return nil
}

func format(place map[string]sharding.Spec) string {
	var s []string
	for name, p := range place {
		s = append(s, "-place "+name+"="+p.String())
	}
	slices.Sort(s)
	return strings.Join(s, " ")
}
