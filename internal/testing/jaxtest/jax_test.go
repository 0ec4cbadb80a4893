package jaxtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// TestAgainstJAX runs every case, and its derivative, on one rank and on two.
func TestAgainstJAX(t *testing.T) {
	for name, f := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			for _, c := range f.Cases {
				t.Run(c.Name, func(t *testing.T) { c.test(t) })
			}
		})
	}
}

func (c *example) test(t *testing.T) {
	p, err := gomoe.Parse(c.Name, c.Text)
	require.NoError(t, err)
	in := map[string]array.Array{}
	for name, x := range c.In {
		in[name] = x.array(t)
	}
	c.run(t, p, in, c.Out, c.Rel, c.Abs)
	if c.Gradient == nil {
		return
	}
	pull, err := vjp.Pullback(p)
	require.NoError(t, err)
	cts := pull.In[len(p.In):]
	require.Len(t, cts, len(c.Cotangent), "float results")
	for i, v := range cts {
		in[v.Name] = c.Cotangent[i].array(t)
	}
	c.run(t, pull, in, c.Gradient, c.GradRel, c.GradAbs)
}

func (c *example) run(t *testing.T, p *graph.Program, in map[string]array.Array, want []tensor, rel, abs float64) {
	t.Helper()
	for _, cfg := range append([]gomoe.Config{{}}, split(t, p)...) {
		got, err := gomoe.Run(context.Background(), p, cfg, in)
		require.NoError(t, err, "placed %v\n%s", cfg.Place, p)
		require.Len(t, got, len(want))
		for i, w := range want {
			if diff := compare(got[i], w.array(t), rel, abs); diff != "" {
				t.Errorf("result %d, placed %v: %s\n%s", i, cfg.Place, diff, p)
			}
		}
	}
}

// split returns the first placement on two ranks that splits an input of p and that p
// accepts, or nothing if there is none.
func split(t *testing.T, p *graph.Program) []gomoe.Config {
	m, err := sharding.ParseMesh("a=2")
	require.NoError(t, err)
	for _, v := range p.In {
		for d, n := range v.Type.Shape {
			if n == 0 || n%2 != 0 {
				continue
			}
			s := sharding.Spec{Dims: make([][]string, d+1)}
			s.Dims[d] = []string{"a"}
			cfg := gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{v.Name: s}}
			if _, err := gomoe.Compile(t.Context(), p, cfg); err == nil {
				return []gomoe.Config{cfg}
			}
		}
	}
	return nil
}

// alone lists the primitives without a counterpart in JAX, with the reason.
var alone = map[string]string{
	"optimization_barrier":  "returns its argument",
	"remat":                 "computes what the program that it calls computes",
	"scaled_matmul":         "a product with weights in DeepSeek's layout, which primitives compares with that of the decoded weights",
	"grouped_scaled_matmul": "a product with weights in DeepSeek's layout, which primitives compares with that of the decoded weights",
	"affine_matmul":         "a product with weights in MLX's layout, which primitives compares with MLX's",
	"grouped_affine_matmul": "a product with weights in MLX's layout, which primitives compares with that of the decoded weights",
	"stochastic_round":      "JAX has no conversion that rounds at random; package random checks every choice of its bits",
	"ep_copies":             "spreads pairs among copies of experts; primitives compares layers with copies with layers without",
	"place_like":            "moves a value between ranks and computes nothing",
	"sharding_constraint":   "moves a value between ranks and computes nothing",
	"scan":                  "computes what its body does; gomoe's own tests compare it with the body written out",
}

// TestEveryPrimitive fails for a primitive that no case runs, in its program or
// in its derivative.
func TestEveryPrimitive(t *testing.T) {
	missing := map[string]bool{}
	for _, p := range append(graph.Structural(), primitives.All()...) {
		missing[p.Name()] = true
	}
	for name := range alone {
		if !missing[name] {
			t.Errorf("%s is listed as having no counterpart, but is no primitive", name)
		}
		delete(missing, name)
	}
	seen := map[string]string{}
	for file, f := range fixtures(t) {
		for _, c := range f.Cases {
			if at, ok := seen[c.Name]; ok {
				t.Errorf("case %s is in %s and in %s", c.Name, at, file)
			}
			seen[c.Name] = file
			ps, err := graph.ParseAll(c.Name, c.Text, primitives.All()...)
			require.NoError(t, err)
			if c.Gradient != nil {
				q, err := vjp.Pullback(ps[len(ps)-1])
				require.NoError(t, err)
				ps = append(ps, q)
			}
			for _, p := range ps {
				for _, e := range p.Eqns {
					delete(missing, e.Prim.Name())
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("no case runs %s; add one to testdata/make_fixtures.py, or a reason to the list above", name)
	}
}

// TestCompare checks that the comparison can fail.
func TestCompare(t *testing.T) {
	for _, tt := range []struct {
		got, want string
		rel       float64
		same      bool
	}{
		{"1", "1", 0, true}, {"1", "1.0000001", 0, false}, {"1", "1.0000001", 1e-6, true},
		{"0", "-0", 0, false}, {"0", "-0", 1e-6, true}, {"nan", "nan", 0, true}, {"nan", "0", 1e-6, false},
		{"0", "nan", 1e-6, false}, {"inf", "inf", 0, true}, {"inf", "-inf", 1, false}, {"1", "inf", 1, false},
	} {
		g, w := tensor{"f32[]", tt.got}.array(t), tensor{"f32[]", tt.want}.array(t)
		if diff := compare(g, w, tt.rel, 0); (diff == "") != tt.same {
			t.Errorf("%s and %s within %g: %q", tt.got, tt.want, tt.rel, diff)
		}
	}
	a, b := tensor{"i64[1]", "9007199254740993"}.array(t), tensor{"i64[1]", "9007199254740992"}.array(t)
	if compare(a, b, 0, 0) == "" {
		t.Error("neighbouring i64 compare as equal")
	}
	if diff := compare(a, tensor{"i32[1]", "1"}.array(t), 1, 1); diff != fmt.Sprintf("%s, want %s", a.Type, "i32[1]") {
		t.Errorf("element types: %q", diff)
	}
}
