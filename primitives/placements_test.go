package primitives_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// TestPlacements runs every program, and its derivative, on every placement of
// its inputs on 1-D and 2-D meshes that the rules accept, and compares with one
// rank: bit for bit, unless the row or the derivative sums over a split axis.
func TestPlacements(t *testing.T) {
	ctx := context.Background()
	eachProgram(t, func(t *testing.T, r row, i int, p *graph.Program) {
		in := r.inputs(p, uint64(i))
		accepted := 0
		for n, q := range withPullback(t, p, in) {
			args := map[string]array.Array{}
			for _, v := range q.In {
				args[v.Name] = in[v.Name]
			}
			want, err := gomoe.Run(ctx, q, gomoe.Config{}, args)
			require.NoError(t, err, "%s\n%s", r.line, q)
			flat, err := graph.Inline(t.Context(), q)
			require.NoError(t, err, r.line)
			for _, mesh := range []string{"a=2", "a=2,b=2"} {
				m, err := sharding.ParseMesh(mesh)
				require.NoError(t, err)
				for _, place := range placements(q, m) {
					var refused *graph.Error
					if _, err := sharding.Propagate(t.Context(), flat, m, place); err != nil { // without optimising the program first
						require.ErrorAs(t, err, &refused, "%s: placement %v refused without a source line", r.line, place)
						continue
					}
					cfg := gomoe.Config{Mesh: m, Place: place}
					cfg.Poison = true // turns unwritten elements into NaN
					plan, got, err := planned(ctx, q, cfg, args)
					if plan == nil {
						require.ErrorAs(t, err, &refused, "%s: placement %v refused without a source line", r.line, place)
						continue
					}
					if n == 0 {
						accepted++
					}
					require.NoError(t, err, "%s: mesh %s, placement %v\n%s", r.line, mesh, place, q)
					for k := range want {
						if array.Equal(got[k], want[k]) {
							continue
						}
						d, at := array.MaxDiff(got[k], want[k])
						if (r.reassociates || sums(plan)) && d <= 1e-12 {
							continue
						}
						t.Errorf("%s: mesh %s, placement %v: result %d differs from one rank by %g at %d\n%s\ngot %v\nwant %v", r.line, mesh, place, k, d, at, q, got[k], want[k])
						return
					}
				}
			}
		}
		if accepted == 0 && !r.whole && hasEven(p) {
			t.Errorf("%s: no placement of program %d splits anything\n%s", r.line, i, p)
		}
	})
}

// planned runs a program, and returns its plan too, which is nil if there is none.
func planned(ctx context.Context, p *graph.Program, cfg gomoe.Config, in map[string]array.Array) (*lowering.Plan, []array.Array, error) {
	j, err := gomoe.Open(ctx, p, cfg)
	if err != nil {
		return nil, nil, err
	}
	defer j.Close()
	out, err := j.Step(ctx, in)
	return j.Plan(), out, err
}

// sums reports whether ranks add the parts of a sum.
func sums(p *lowering.Plan) bool {
	return slices.ContainsFunc(p.Instrs, func(i lowering.Instr) bool { return i.Name() == "all_sum" || i.Name() == "reduce_scatter" })
}

// hasEven reports whether an input has a dimension that two ranks divide.
func hasEven(p *graph.Program) bool {
	for _, v := range p.In {
		for _, n := range v.Type.Shape {
			if n > 0 && n%2 == 0 {
				return true
			}
		}
	}
	return false
}

// placements returns every way to give each axis of the mesh to at most one
// dimension of each input, with at least one dimension split. It keeps a fixed sample of 400, or of 24 without -every, and also splits the first dimension of all that have the same size there.
func placements(p *graph.Program, m sharding.Mesh) []map[string]sharding.Spec {
	out := []map[string]sharding.Spec{{}}
	for _, v := range p.In {
		var specs []sharding.Spec
		specs = append(specs, sharding.Spec{Dims: make([][]string, v.Rank())})
		for _, a := range m.Axes {
			for _, s := range slices.Clone(specs) {
				for d := range v.Type.Shape {
					n := sharding.Spec{Dims: slices.Clone(s.Dims)}
					n.Dims[d] = append(slices.Clone(s.Dims[d]), a.Name)
					specs = append(specs, n)
				}
			}
		}
		var next []map[string]sharding.Spec
		for _, o := range out {
			for _, s := range specs {
				n := map[string]sharding.Spec{v.Name: s}
				for k, x := range o {
					n[k] = x
				}
				next = append(next, n)
			}
		}
		out = next
		most := 24
		if *every {
			most = 400
		}
		if len(out) > most {
			rand.New(rand.NewPCG(1, 2)).Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
			out = out[:most]
		}
	}
	batch := map[string]sharding.Spec{}
	for _, v := range p.In {
		if v.Rank() > 0 && p.In[0].Rank() > 0 && v.Dim(0) == p.In[0].Dim(0) {
			batch[v.Name] = sharding.Split(m.Axes[0].Name)
		}
	}
	out = append(out, batch)
	return slices.DeleteFunc(out, func(o map[string]sharding.Spec) bool {
		for _, s := range o {
			if !s.Whole() {
				return false
			}
		}
		return true
	})
}
