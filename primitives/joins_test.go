package primitives_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// gatedExperts returns an expert layer with SwiGLU. Its first result is a number.
// Transposed matrices have the shape [E,out,in].
func gatedExperts(t *testing.T, d graph.DType, transposed bool, layer primitives.PrepareOp) *graph.Program {
	const tokens, hidden, width, k = 12, 6, 10, 2
	p, err := graph.Trace("gated", func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", d, tokens, hidden)
		ids := tr.Input("ids", graph.I32, tokens, k)
		weights := tr.Input("weights", d, tokens, k)
		matrix := func(name string, in, out int) *graph.Value {
			if transposed {
				in, out = out, in
			}
			return tr.Input(name, d, layer.Experts, in, out)
		}
		gate, up, down := matrix("gate", hidden, width), matrix("up", hidden, width), matrix("down", width, hidden)
		r := primitives.Prepare(layer, ids)
		multiply := func(rows, w *graph.Value) *graph.Value {
			return graph.Apply1(primitives.GroupedMatMulOp{Transpose: transposed}, rows, w, r.Value)
		}
		rows, rw := primitives.DispatchWeighted(r, x, weights)
		y := multiply(primitives.SwiGLU(multiply(rows, gate), multiply(rows, up)), down)
		out := primitives.Combine(r, primitives.Mul(y, primitives.BroadcastInDim(rw, y.Type.Shape, 0)))
		return []*graph.Value{primitives.ReduceSum(primitives.Square(out)), out}
	})
	require.NoError(t, err)
	return p
}

func gatedInputs(r *rand.Rand, p *graph.Program, experts int) map[string]array.Array {
	in := map[string]array.Array{}
	for _, v := range p.In {
		a := array.New(v.Type)
		switch {
		case v.Type.DType.IsBlock():
			a = uniform(-2, 2)(r, v.Type)
		case v.Type.DType == graph.I32:
			for i := range array.Data[int32](a) {
				array.Data[int32](a)[i] = int32(r.IntN(experts+1) - 1)
				if i%2 == 1 && array.Data[int32](a)[i] == array.Data[int32](a)[i-1] {
					array.Data[int32](a)[i] = -1
				}
			}
		default:
			f := array.New(v.Type.With(graph.F64))
			for i := range array.Data[float64](f) {
				array.Data[float64](f)[i] = r.NormFloat64()
			}
			a = f.As(v.Type.DType)
		}
		in[v.Name] = a
	}
	return in
}

// gatedPlacement places the inputs on a mesh: tokens over dp and ep, or, if the mesh is
// written with "whole " before it, over dp only.
func gatedPlacement(t *testing.T, mesh string) gomoe.Config {
	mesh, whole := strings.CutPrefix(mesh, "whole ")
	m, err := sharding.ParseMesh(mesh)
	require.NoError(t, err)
	cfg := gomoe.Config{Mesh: m, Options: runtime.Options{Poison: true}, Place: map[string]sharding.Spec{}}
	if mesh == "" {
		return cfg
	}
	tokens := []string{"x", "ids", "weights"}
	for _, name := range tokens {
		var axes []string
		if m.Size("dp") > 1 {
			axes = append(axes, "dp")
		}
		if !whole {
			axes = append(axes, "ep")
		}
		cfg.Place[name] = sharding.Spec{Dims: [][]string{axes}}
	}
	for _, name := range []string{"gate", "up", "down"} {
		cfg.Place[name] = sharding.Split("ep")
	}
	if m.Size("tp") > 1 {
		cfg.Place["gate"], cfg.Place["up"] = sharding.Split("ep", "", "tp"), sharding.Split("ep", "", "tp")
		cfg.Place["down"] = sharding.Split("ep", "tp")
	}
	return cfg
}

// TestJoinsKeepBits compares layers with joined instructions and without.
func TestJoinsKeepBits(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, d := range []graph.DType{graph.F32, graph.F64, graph.BF16} {
		for _, layer := range []primitives.PrepareOp{{Experts: 4}, {Experts: 4, Capacity: 3}, {Experts: 4, Align: 4, Exchange: ep.Sum}} {
			for _, mesh := range []string{"", "ep=2", "dp=2,ep=2", "ep=2,tp=2", "whole ep=2", "whole dp=2,ep=2", "whole ep=2,tp=2"} {
				for _, transposed := range []bool{false, true} {
					if transposed && strings.Contains(mesh, "tp") {
						continue // this placement is for matrices [E,in,out]
					}
					t.Run(fmt.Sprintf("%s/%+v/%s/%v", d, layer, mesh, transposed), func(t *testing.T) {
						p := gatedExperts(t, d, transposed, layer)
						in := gatedInputs(r, p, layer.Experts)
						g, err := vjp.Grad(p)
						require.NoError(t, err)
						for _, q := range []*graph.Program{p, g} {
							cfg := gatedPlacement(t, mesh)
							got, err := gomoe.Run(context.Background(), q, cfg, in)
							require.NoError(t, err)
							cfg.Optimize = gomoe.Off
							want, err := gomoe.Run(context.Background(), q, cfg, in)
							require.NoError(t, err)
							for i := range want {
								if !array.Equal(got[i], want[i]) {
									t.Errorf("%s, result %d: got %v, want as written %v", q.Name, i, got[i], want[i])
								}
							}
						}
					})
				}
			}
		}
	}
}

// Without weights of rows, both operands of a weight gradient are read through an index.
func TestIndexedOperands(t *testing.T) {
	for _, d := range []graph.DType{graph.F32, graph.F64, graph.BF16} {
		for _, mesh := range []string{"", "ep=2"} {
			p, err := gomoe.Parse("t", fmt.Sprintf(`program p(idx i32[40,2], x %[1]s[40,12], w %[1]s[4,12,10], c %[1]s[40,10]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=4
	rows = ep_dispatch(x, r) experts=4
	y = grouped_matmul(rows, w, r)
	out = ep_combine(y, r) experts=4
	z = mul(out, c)
	loss = reduce_sum(z) axes=[0,1]
	return loss
}`, d))
			require.NoError(t, err)
			g, err := vjp.Grad(p, "w", "x")
			require.NoError(t, err)
			in := row{in: gens{"idx": ints(0, 4)}}.inputs(g, 5)
			cfg := gomoe.Config{}
			if mesh != "" {
				cfg.Mesh, err = sharding.ParseMesh(mesh)
				require.NoError(t, err)
				cfg.Place = map[string]sharding.Spec{"idx": sharding.Split("ep"), "x": sharding.Split("ep"), "c": sharding.Split("ep"), "w": sharding.Split("ep")}
			}
			plan, err := gomoe.Compile(t.Context(), g, cfg)
			require.NoError(t, err)
			i := slices.IndexFunc(plan.Instrs, func(in lowering.Instr) bool { return in.Op == ops.GroupedOuter })
			require.Equal(t, []int{0, 1}, plan.Instrs[i].Indexed, "%s", plan)
			got, err := gomoe.Run(t.Context(), g, cfg, in)
			require.NoError(t, err)
			cfg.Optimize = gomoe.Off
			want, err := gomoe.Run(t.Context(), g, cfg, in)
			require.NoError(t, err)
			for i := range want {
				require.True(t, array.Equal(got[i], want[i]), "%s %s, result %d", d, mesh, i)
			}
		}
	}
}

var sources = regexp.MustCompile(` # .*`)

// TestJoinsGolden compares plans, without and with joins, with golden files.
func TestJoinsGolden(t *testing.T) {
	p := gatedExperts(t, graph.F32, false, primitives.PrepareOp{Experts: 4})
	sum := gatedExperts(t, graph.F32, false, primitives.PrepareOp{Experts: 4, Exchange: ep.Sum})
	g, err := vjp.Grad(p)
	require.NoError(t, err)
	for _, c := range []struct {
		name, mesh string
		p          *graph.Program
	}{{"forward", "", p}, {"forward_ep2", "ep=2", p}, {"backward", "", g}, {"forward_whole", "whole ep=2", p}, {"forward_whole_sum", "whole ep=2", sum}} {
		t.Run(c.name, func(t *testing.T) {
			cfg := gatedPlacement(t, c.mesh)
			a, err := gomoe.Place(t.Context(), c.p, cfg)
			require.NoError(t, err)
			checkJoins(t, a, filepath.Join("testdata", "joins", c.name+".golden"))
		})
	}
}

// checkJoins compares the plans of a program, without joins and with them, with a file.
func checkJoins(t *testing.T, a *sharding.Assignment, path string) {
	var b strings.Builder
	for _, joins := range [][][]lowering.Join{nil, primitives.Joins()} {
		plan, err := lowering.Lower(t.Context(), a, lowering.Options{Joins: joins, Check: true})
		require.NoError(t, err)
		b.WriteString(sources.ReplaceAllString(plan.String(), "") + "\n")
	}
	goldenText(t, path, b.String())
}

// An instruction with two readers stays in the plan if a join takes one of them,
// also if the other one reads a view of the result.
func TestJoinsKeepWhatIsReadTwice(t *testing.T) {
	const tokens, hidden, k, experts = 6, 3, 2, 4
	view := map[string]func(tr *graph.Tracer, v *graph.Value) *graph.Value{
		"itself":        func(_ *graph.Tracer, v *graph.Value) *graph.Value { return v },
		"barrier":       func(_ *graph.Tracer, v *graph.Value) *graph.Value { return graph.Barrier(v, v)[0] },
		"stop_gradient": func(_ *graph.Tracer, v *graph.Value) *graph.Value { return primitives.StopGradient(v) },
		"two reshapes": func(_ *graph.Tracer, v *graph.Value) *graph.Value {
			return primitives.Reshape(primitives.Reshape(v, v.Dim(0), 1, v.Dim(1)), v.Dim(0), v.Dim(1))
		},
	}
	for name, of := range view {
		for _, first := range []bool{false, true} {
			for _, layer := range []primitives.PrepareOp{{Experts: experts}, {Experts: experts, Exchange: ep.Sum}} {
				p, err := graph.Trace("twice", func(tr *graph.Tracer) []*graph.Value {
					x := tr.Input("x", graph.F32, tokens, hidden)
					ids := tr.Input("ids", graph.I32, tokens, k)
					weights := tr.Input("weights", graph.F32, tokens, k)
					r := primitives.Prepare(layer, ids)
					rows, rw := primitives.DispatchWeighted(r, x, weights)
					b := primitives.BroadcastInDim(rw, rows.Type.Shape, 0)
					y, z := b, of(tr, b)
					if first {
						y, z = z, y
					}
					return []*graph.Value{primitives.Combine(r, primitives.Mul(y, z))}
				})
				require.NoError(t, err)
				in := gatedInputs(rand.New(rand.NewPCG(1, 2)), p, experts)
				want := make([]float32, tokens*hidden)
				for i := range tokens {
					for j := range k {
						if array.Data[int32](in["ids"])[i*k+j] < 0 {
							continue
						}
						w := array.Data[float32](in["weights"])[i*k+j]
						for c := range hidden {
							want[i*hidden+c] += float32(w * w)
						}
					}
				}
				for _, mesh := range []string{"", "ep=2", "whole ep=2", "dp=2,ep=2"} {
					cfg := gatedPlacement(t, mesh)
					for _, matrix := range []string{"gate", "up", "down"} {
						delete(cfg.Place, matrix)
					}
					got, err := gomoe.Run(t.Context(), p, cfg, in)
					require.NoError(t, err)
					if g := array.Data[float32](got[0]); !slices.Equal(g, want) {
						t.Errorf("%s, first=%v, %+v on %q: got %v, want %v", name, first, layer, mesh, g, want)
					}
				}
			}
		}
	}
}
