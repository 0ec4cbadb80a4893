package nn_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

type mixer interface {
	Apply(s *nn.Scope, x *graph.Value, st *nn.Step) *graph.Value
}

func mixers() map[string]mixer {
	return map[string]mixer{
		"gated_delta": nn.GatedDelta{KeyHeads: 2, ValueHeads: 4, Key: 6, Value: 5, Kernel: 4, Epsilon: 1e-5},
		"mamba2":      nn.Mamba2{Heads: 4, Width: 6, Groups: 2, State: 5, Kernel: 3, ConvBias: true, Bias: true, Epsilon: 1e-5},
	}
}

// layerFixture is a layer of transformers with its parameters, results and gradients.
type layerFixture struct {
	X, Y, DX []float32
	Params   map[string]struct {
		Shape       []int
		Value, Grad []float32
	}
}

func fixtures(t *testing.T) (all map[string]layerFixture) {
	text, err := os.ReadFile("testdata/mixers.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	return all
}

// inputs returns the parameters and x[b,n,8] of a fixture.
func (f layerFixture) inputs(t *testing.T) map[string]array.Array {
	in := map[string]array.Array{}
	for name, p := range f.Params {
		a, err := array.Of(p.Value, p.Shape...)
		require.NoError(t, err)
		in[name] = a
	}
	x, err := array.Of(f.X, 2, 12, 8)
	require.NoError(t, err)
	in["x"] = x
	return in
}

func compile(t *testing.T, trace func(tr *graph.Tracer, s *nn.Scope) []*graph.Value, mesh string) (*graph.Program, []nn.Param, gomoe.Config) {
	var params []nn.Param
	p, err := graph.Trace("layer", func(tr *graph.Tracer) []*graph.Value {
		s := nn.New(tr, nn.Options{})
		out := trace(tr, s)
		params = s.Params()
		return out
	})
	require.NoError(t, err)
	m, err := sharding.ParseMesh(mesh)
	require.NoError(t, err)
	return p, params, gomoe.Config{Mesh: m, Place: nn.Places(params, m)}
}

func nearly(t *testing.T, what string, got array.Array, want []float32) {
	t.Helper()
	require.Equal(t, len(want), got.Type.Len(), what)
	most := 0.0
	for _, w := range want {
		most = max(most, math.Abs(float64(w)))
	}
	for i, x := range array.Data[float32](got) {
		if !(math.Abs(float64(x-want[i])) <= 2e-5*most) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, x, want[i])
		}
	}
}

// Layers with a state have transformers' results and gradients, on every mesh.
func TestRecurrent(t *testing.T) {
	all := fixtures(t)
	for name, layer := range mixers() {
		f := all[name]
		var names []string
		for _, mesh := range []string{"", "tp=2", "dp=2,tp=2"} {
			p, params, cfg := compile(t, func(tr *graph.Tracer, s *nn.Scope) []*graph.Value {
				x := tr.Input("x", graph.F32, 2, 12, 8)
				y := layer.Apply(s, x, &nn.Step{})
				at := primitives.ConvertElementType(primitives.Reshape(primitives.Iota(tr, graph.I32, 0, 192), 2, 12, 8), graph.F32)
				loss := primitives.ReduceSum(primitives.Mul(y, primitives.Cos(primitives.MulScalar(at, 0.37))), 0, 1, 2)
				names = names[:0]
				for _, p := range s.Params() {
					names = append(names, p.Name)
				}
				return append([]*graph.Value{y}, vjp.Gradients(loss, append([]*graph.Value{x}, s.Values()...)...)...)
			}, mesh)
			require.Len(t, params, len(f.Params))
			if cfg.Mesh.Size("dp") > 0 {
				cfg.Place["x"] = sharding.Split("dp")
			}
			got, err := gomoe.Run(t.Context(), p, cfg, f.inputs(t))
			require.NoError(t, err, "%s on mesh %q", name, mesh)
			nearly(t, name+" y "+mesh, got[0], f.Y)
			nearly(t, name+" dx "+mesh, got[1], f.DX)
			for i, param := range names {
				nearly(t, fmt.Sprint(name, " gradient of ", param, " ", mesh), got[2+i], f.Params[param].Grad)
			}
		}
	}
}

// A text in parts, with the states of the part before, has the bits of the whole one, and the last tokens alone as well.
func TestRecurrentInParts(t *testing.T) {
	for name, layer := range mixers() {
		in := fixtures(t)[name].inputs(t)
		x := in["x"]
		p, _, cfg := compile(t, func(tr *graph.Tracer, s *nn.Scope) []*graph.Value {
			return []*graph.Value{layer.Apply(s, tr.Input("x", graph.F32, 2, 12, 8), &nn.Step{})}
		}, "")
		want, err := gomoe.Run(t.Context(), p, cfg, in)
		require.NoError(t, err)
		states := map[string]array.Array{}
		for at, n := 0, 5; at < 12; at, n = at+n, 1+at%3 {
			n = min(n, 12-at)
			var kept []nn.State
			queries := 1 + at%n
			p, _, cfg := compile(t, func(tr *graph.Tracer, s *nn.Scope) []*graph.Value {
				st := &nn.Step{Start: tr.Input("start", graph.I32, 2), Room: 12, Queries: queries}
				out := []*graph.Value{layer.Apply(s, tr.Input("x", graph.F32, 2, n, 8), st)}
				kept = st.States()
				for _, x := range kept {
					out = append(out, x.Out)
				}
				return out
			}, "")
			require.Len(t, kept, 4)
			step := map[string]array.Array{"start": array.New(graph.T(graph.I32, 2)), "x": part(x, at, n)}
			for k, v := range in {
				if k != "x" {
					step[k] = v
				}
			}
			for _, k := range kept {
				require.Equal(t, nn.Carried, k.Kind)
				if step[k.In.Name] = states[k.In.Name]; at == 0 {
					step[k.In.Name] = array.New(k.In.Type)
				}
			}
			if p.Input("start") == nil {
				delete(step, "start")
			}
			got, err := gomoe.Run(t.Context(), p, cfg, step)
			require.NoError(t, err)
			require.Equal(t, array.Data[float32](part(want[0], at+n-queries, queries)), array.Data[float32](got[0]), "%s at %d", name, at)
			for i, k := range kept {
				states[k.In.Name] = got[1+i]
			}
		}
	}
}

// part returns rows [at, at+n) of x[2,12,8].
func part(x array.Array, at, n int) array.Array {
	y := array.New(graph.T(graph.F32, 2, n, 8))
	for b := range 2 {
		copy(array.Data[float32](y)[b*n*8:], array.Data[float32](x)[(b*12+at)*8:][:n*8])
	}
	return y
}

// Documents in one row have the results and gradients of documents by themselves.
func TestRecurrentDocuments(t *testing.T) {
	for name, layer := range mixers() {
		f := fixtures(t)[name]
		run := func(b, n int, at []int32, x []float32) []array.Array {
			p, _, cfg := compile(t, func(tr *graph.Tracer, s *nn.Scope) []*graph.Value {
				st := &nn.Step{}
				if at != nil {
					st.At = tr.Input("at", graph.I32, b, n)
				}
				x := tr.Input("x", graph.F32, b, n, 8)
				y := layer.Apply(s, x, st)
				loss := primitives.ReduceSum(primitives.Mul(y, primitives.Sin(y)), 0, 1, 2)
				return append([]*graph.Value{y}, vjp.Gradients(loss, append([]*graph.Value{x}, s.Values()...)...)...)
			}, "")
			in := f.inputs(t)
			var err error
			in["x"], err = array.Of(x, b, n, 8)
			require.NoError(t, err)
			if at != nil {
				in["at"], err = array.Of(at, b, n)
				require.NoError(t, err)
			}
			got, err := gomoe.Run(t.Context(), p, cfg, in)
			require.NoError(t, err)
			return got
		}
		// One row of 12 is documents of 2, 7 and 3 tokens.
		var at []int32
		var want [][]float32
		for from, n := range map[int]int{0: 2, 2: 7, 9: 3} {
			one := run(1, n, nil, f.X[from*8:][:n*8])
			if want == nil {
				for _, a := range one {
					want = append(want, make([]float32, max(a.Type.Len(), 12*8)))
				}
			}
			for i, a := range one {
				for j, v := range array.Data[float32](a) {
					if i < 2 {
						j += from * 8
					}
					want[i][j] += v
				}
			}
		}
		for _, n := range []int{2, 7, 3} {
			for i := range n {
				at = append(at, int32(i))
			}
		}
		for i, a := range run(1, 12, at, f.X[:12*8]) {
			nearly(t, fmt.Sprint(name, " result ", i), a, slices.Clone(want[i][:a.Type.Len()]))
		}
	}
}

func TestRecurrentErrors(t *testing.T) {
	for want, layer := range map[string]mixer{
		"3 heads of keys with 6 columns and 4 of values with 5": nn.GatedDelta{KeyHeads: 3, ValueHeads: 4, Key: 6, Value: 5, Kernel: 4},
		"4 heads of 6 columns in 3 groups with states of 5":     nn.Mamba2{Heads: 4, Width: 6, Groups: 3, State: 5, Kernel: 3},
	} {
		_, err := graph.Trace("layer", func(tr *graph.Tracer) []*graph.Value {
			return []*graph.Value{layer.Apply(nn.New(tr, nn.Options{}), tr.Input("x", graph.F32, 2, 12, 8), &nn.Step{})}
		})
		require.ErrorContains(t, err, want)
	}
}
