package primitives_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	. "github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// epilogue is a product and what follows it.
type epilogue struct {
	name string
	// joined is how many products have an epilogue in the plan.
	joined int
	of     func(t *graph.Tracer, y *graph.Value) []*graph.Value
}

// bias declares an argument as long as a dimension of y, spread over the others.
func bias(t *graph.Tracer, y *graph.Value, dim int) *graph.Value {
	b := t.Input(fmt.Sprintf("bias%d", dim), y.Type.DType, y.Dim(dim))
	return BroadcastInDim(b, y.Type.Shape, dim)
}

func epilogues() []epilogue {
	residual := func(t *graph.Tracer, y *graph.Value) *graph.Value {
		return t.Input("residual", y.Type.DType, y.Type.Shape...)
	}
	last := func(y *graph.Value) int { return y.Rank() - 1 }
	one := func(v *graph.Value) []*graph.Value { return []*graph.Value{v} }
	return []epilogue{
		{"gelu", 1, func(t *graph.Tracer, y *graph.Value) []*graph.Value { return one(GELU(y)) }},
		{"bias", 1, func(t *graph.Tracer, y *graph.Value) []*graph.Value { return one(Add(y, bias(t, y, last(y)))) }},
		{"rows", 1, func(t *graph.Tracer, y *graph.Value) []*graph.Value { return one(Mul(bias(t, y, 0), y)) }},
		{"bias, gelu", 1, func(t *graph.Tracer, y *graph.Value) []*graph.Value {
			return one(GELUTanh(Add(y, bias(t, y, last(y)))))
		}},
		{"bias, silu, residual, scale", 1, func(t *graph.Tracer, y *graph.Value) []*graph.Value {
			return one(MulScalar(Add(SiLU(Add(y, bias(t, y, last(y)))), residual(t, y)), 0.5))
		}},
		{"squared relu, to bf16", 1, func(t *graph.Tracer, y *graph.Value) []*graph.Value {
			return one(ConvertElementType(Square(Max(y, ZerosLike(y))), graph.BF16))
		}},
		{"swish of the product twice, two results", 1, func(t *graph.Tracer, y *graph.Value) []*graph.Value {
			h := Mul(y, Logistic(y))
			return []*graph.Value{h, Tanh(h)}
		}},
		{"reshaped", 1, func(t *graph.Tracer, y *graph.Value) []*graph.Value {
			return one(Tanh(Reshape(y, y.Type.Len())))
		}},
		{"the product is a result", 0, func(t *graph.Tracer, y *graph.Value) []*graph.Value { return []*graph.Value{GELU(y), y} }},
		{"the product is read elsewhere", 0, func(t *graph.Tracer, y *graph.Value) []*graph.Value {
			return []*graph.Value{GELU(y), ReduceSum(y)}
		}},
		{"the product is read elsewhere before", 0, func(t *graph.Tracer, y *graph.Value) []*graph.Value {
			sum := ReduceSum(y)
			return []*graph.Value{sum, GELU(y)}
		}},
		{"the product is broadcast", 0, func(t *graph.Tracer, y *graph.Value) []*graph.Value {
			shape := append([]int{2}, y.Type.Shape...)
			dims := make([]int, y.Rank())
			for i := range dims {
				dims[i] = i + 1
			}
			return one(Tanh(BroadcastInDim(y, shape, dims...)))
		}},
	}
}

// withEpilogues returns how many instructions are products with one.
func withEpilogues(p *lowering.Plan) int {
	n := 0
	for i := range p.Instrs {
		if p.Instrs[i].Product > 0 {
			n++
		}
	}
	return n
}

// sameAsWritten runs a program as it is and as it is written, with one thread and
// with some.
func sameAsWritten(t *testing.T, p *graph.Program, cfg gomoe.Config, in map[string]array.Array, joined int) {
	t.Helper()
	cfg.Tile = 1
	plan, err := gomoe.Compile(p, cfg)
	require.NoError(t, err)
	if n := withEpilogues(plan); n != joined {
		t.Errorf("%d products have an epilogue, want %d:\n%s", n, joined, plan)
	}
	cfg.Poison = true
	cfg.NoOptimize = true
	want, err := gomoe.Run(context.Background(), p, cfg, in)
	require.NoError(t, err)
	cfg.NoOptimize = false
	for _, o := range []runtime.Options{{Threads: 1, Poison: true}, {Threads: 3}, {Threads: 2, Finite: true}} {
		cfg.Options = o
		got, err := gomoe.Run(context.Background(), p, cfg, in)
		require.NoError(t, err)
		for i := range want {
			if !array.Equal(got[i], want[i]) {
				t.Errorf("%+v: result %d is not as written: %s", o, i, firstOther(got[i], want[i]))
			}
		}
	}
}

// firstOther says where two arrays differ.
func firstOther(x, y array.Array) string {
	a, b := x.Float64s(), y.Float64s()
	n, first := 0, -1
	for i := range a {
		if a[i] != b[i] && (a[i] == a[i] || b[i] == b[i]) {
			if n++; first < 0 {
				first = i
			}
		}
	}
	if first < 0 {
		return "other bits of NaN or of zeros"
	}
	return fmt.Sprintf("%d of %d elements of %s differ, the first is %d: %v, want %v", n, len(a), x.Type, first, a[first], b[first])
}

// Products with epilogues have the bits of the equations as they are written: of
// products in one tile and in several by rows and columns, with borders, in more than
// one block of k.
func TestEpiloguesKeepBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	types := []struct{ x, z graph.DType }{{graph.F32, graph.F32}, {graph.F64, graph.F64}, {graph.BF16, graph.BF16}, {graph.F16, graph.F16}, {graph.BF16, graph.F32}}
	for _, d := range types {
		for _, m := range [][]int{{7, 3, 5}, {401, 263, 601}, {70, 130, 1300}} {
			for i, e := range epilogues() {
				if m[0] > 100 && d.x != graph.F32 && i%3 != int(d.x)%3 {
					continue // large ones of the others take turns
				}
				t.Run(fmt.Sprintf("%s/%s/%v/%s", d.x, d.z, m, e.name), func(t *testing.T) {
					p, err := graph.Trace("epilogue", func(tr *graph.Tracer) []*graph.Value {
						x, w := tr.Input("x", d.x, m[0], m[1]), tr.Input("w", d.x, m[1], m[2])
						return e.of(tr, MatMulAs(d.z, x, w))
					})
					require.NoError(t, err)
					sameAsWritten(t, p, gomoe.Config{}, gatedInputs(rng, p, 1), e.joined)
				})
			}
		}
	}
}

// Batches of products, transposed arguments, and vectors.
func TestEpiloguesOfBatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, shape := range [][]int{{3, 5, 4, 7}, {2, 300, 40, 600}, {40, 9, 16, 33}, {1, 1, 8, 1}} {
		b, m, k, n := shape[0], shape[1], shape[2], shape[3]
		for name, of := range map[string]func(*graph.Tracer) *graph.Value{
			"batch": func(tr *graph.Tracer) *graph.Value {
				return DotGeneral(tr.Input("x", graph.F32, b, m, k), tr.Input("w", graph.F32, b, n, k), []int{2}, []int{2}, []int{0}, []int{0})
			},
			"rows of matrices": func(tr *graph.Tracer) *graph.Value {
				return MatMul(tr.Input("x", graph.F32, b, m, k), tr.Input("w", graph.F32, k, n))
			},
			"transposed": func(tr *graph.Tracer) *graph.Value {
				return DotGeneral(tr.Input("x", graph.F32, k, m), tr.Input("w", graph.F32, n, k), []int{0}, []int{1}, nil, nil)
			},
			"matrix and vector": func(tr *graph.Tracer) *graph.Value {
				return DotGeneral(tr.Input("x", graph.F32, m, k), tr.Input("w", graph.F32, k), []int{1}, []int{0}, nil, nil)
			},
			"scattered": func(tr *graph.Tracer) *graph.Value {
				return DotGeneral(tr.Input("x", graph.F32, m, k, b), tr.Input("w", graph.F32, k, n), []int{1}, []int{0}, nil, nil)
			},
		} {
			t.Run(fmt.Sprintf("%s/%v", name, shape), func(t *testing.T) {
				p, err := graph.Trace("epilogue", func(tr *graph.Tracer) []*graph.Value {
					y := of(tr)
					return []*graph.Value{GELU(Add(y, bias(tr, y, y.Rank()-1)))}
				})
				require.NoError(t, err)
				sameAsWritten(t, p, gomoe.Config{}, gatedInputs(rng, p, 1), 1)
			})
		}
	}
}

// dense is two layers with bias and residual, and its gradient.
func dense(t *testing.T) (p, g *graph.Program) {
	p, err := graph.Trace("dense", func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F32, 12, 6)
		h := MatMul(x, tr.Input("up", graph.F32, 6, 10))
		h = GELU(Add(h, BroadcastInDim(tr.Input("b", graph.F32, 10), h.Type.Shape, 1)))
		y := Add(x, MatMul(h, tr.Input("down", graph.F32, 10, 6)))
		return []*graph.Value{ReduceSum(Square(y)), y}
	})
	require.NoError(t, err)
	g, err = vjp.Grad(p)
	require.NoError(t, err)
	return p, g
}

// activated is an expert layer without gate: GELU, and squared ReLU where `relu` is
// true, with a bias that every token brings along where it is wanted.
func activated(t *testing.T, d graph.DType, layer PrepareOp, relu, transposed bool, tokens, hidden, width int) *graph.Program {
	p, err := graph.Trace("activated", func(tr *graph.Tracer) []*graph.Value {
		x, ids := tr.Input("x", d, tokens, hidden), tr.Input("ids", graph.I32, tokens, 2)
		r := Prepare(layer, ids)
		rows := Dispatch(r, x)
		multiply := func(name string, rows *graph.Value, in, out int) *graph.Value {
			if transposed {
				return GroupedMatMulTransposed(r, rows, tr.Input(name, d, layer.Experts, out, in))
			}
			return GroupedMatMul(r, rows, tr.Input(name, d, layer.Experts, in, out))
		}
		h := multiply("up", rows, hidden, width)
		h = Add(h, BroadcastInDim(tr.Input("b", d, width), h.Type.Shape, 1))
		if relu {
			h = Square(Max(h, ZerosLike(h)))
		} else {
			h = GELU(h)
		}
		y := multiply("down", h, width, hidden)
		return []*graph.Value{Combine(r, Add(y, rows))}
	})
	require.NoError(t, err)
	return p
}

// Experts' products with other activations than SwiGLU, on one rank and on several,
// with and without rows that fill up zones.
func TestEpiloguesOfExperts(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	for _, d := range []graph.DType{graph.F32, graph.F64, graph.BF16, graph.F16} {
		for _, layer := range []PrepareOp{{Experts: 4}, {Experts: 4, Capacity: 3}, {Experts: 4, Align: 4}, {Experts: 4, Align: 64}} {
			for _, mesh := range []string{"", "ep=2", "dp=2,ep=2"} {
				for _, overlap := range []lowering.Overlap{lowering.OverlapOff, lowering.OverlapHalves} {
					if mesh == "" && overlap != lowering.OverlapOff {
						continue
					}
					t.Run(fmt.Sprintf("%s/%+v/%s/%s", d, layer, mesh, overlap), func(t *testing.T) {
						m, err := sharding.ParseMesh(mesh)
						require.NoError(t, err)
						cfg := gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{}, Overlap: overlap}
						if mesh != "" {
							tokens := sharding.Split("ep")
							if m.Size("dp") > 1 {
								tokens = sharding.Split("dp.ep")
							}
							cfg.Place = map[string]sharding.Spec{"x": tokens, "ids": tokens, "up": sharding.Split("ep"), "down": sharding.Split("ep")}
						}
						p := activated(t, d, layer, d != graph.F32, d == graph.F64, 12, 6, 10)
						joined := 2
						if overlap == lowering.OverlapHalves {
							joined = 4
						}
						sameAsWritten(t, p, cfg, gatedInputs(rng, p, layer.Experts), joined)
					})
				}
			}
		}
	}
	for _, transposed := range []bool{false, true} {
		p := activated(t, graph.F32, PrepareOp{Experts: 3}, false, transposed, 500, 40, 700) // several tiles
		sameAsWritten(t, p, gomoe.Config{}, gatedInputs(rng, p, 3), 2)
	}
}

// Gradients and donated arguments: an update takes the place of its weights where a
// gradient that nobody else wants is made tile by tile.
func TestEpiloguesOfTraining(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 6))
	_, g := dense(t)
	plan, err := gomoe.Compile(g, gomoe.Config{Tile: 1})
	require.NoError(t, err)
	sameAsWritten(t, g, gomoe.Config{}, gatedInputs(rng, g, 1), withEpilogues(plan))
	if n := withEpilogues(plan); n < 3 {
		t.Errorf("%d products of the gradient have an epilogue, want at least 3:\n%s", n, plan)
	}

	p, err := graph.Trace("update", func(tr *graph.Tracer) []*graph.Value {
		x, y := tr.Input("x", graph.F32, 300, 9), tr.Input("y", graph.F32, 300, 9)
		w := tr.Input("w", graph.F32, 9, 9)
		step := Sub(w, MulScalar(DotGeneral(x, y, []int{0}, []int{0}, nil, nil), 0.01))
		return []*graph.Value{step, Sub(x, MatMul(x, w))} // the second may not lie where x does
	})
	require.NoError(t, err)
	cfg := gomoe.Config{Donate: map[string]int{"w": 0, "x": 1}, Tile: 1}
	plan, err = gomoe.Compile(p, cfg)
	require.NoError(t, err)
	for _, d := range plan.Donated {
		if name := plan.In[d.In].Name; name == "x" && d.InPlace {
			t.Errorf("a product is written over its argument:\n%s", plan)
		}
	}
	sameAsWritten(t, p, cfg, gatedInputs(rng, p, 1), 2)
}

// Products that stay in a cache are left alone, unless a plan is asked for less memory.
func TestEpiloguesFrom(t *testing.T) {
	for _, c := range []struct {
		rows   int
		tile   int64
		joined int
	}{{1 << 10, 0, 0}, {1 << 13, 0, 1}, {1<<13 - 1, 0, 0}, {1 << 13, -1, 0}, {4, 1, 1}, {4, 4 * 1024 * 4, 1}, {4, 4*1024*4 + 1, 0}} {
		p, err := graph.Trace("from", func(tr *graph.Tracer) []*graph.Value {
			return []*graph.Value{GELU(MatMul(tr.Input("x", graph.F32, c.rows, 2), tr.Input("w", graph.F32, 2, 1024)))}
		})
		require.NoError(t, err)
		plan, err := gomoe.Compile(p, gomoe.Config{Tile: c.tile})
		require.NoError(t, err)
		if n := withEpilogues(plan); n != c.joined {
			t.Errorf("%+v: %d products have an epilogue", c, n)
		}
		plan, err = gomoe.Compile(p, gomoe.Config{Tile: c.tile, NoOptimize: true})
		require.NoError(t, err)
		require.Zero(t, withEpilogues(plan), "as written")
	}
}

// TestEpiloguesGolden shows plans before and after.
func TestEpiloguesGolden(t *testing.T) {
	p, g := dense(t)
	for _, c := range []struct {
		name, mesh string
		p          *graph.Program
	}{{"dense", "", p}, {"dense_gradient", "", g}, {"experts", "", activated(t, graph.F32, PrepareOp{Experts: 4}, false, false, 12, 6, 10)}} {
		t.Run(c.name, func(t *testing.T) {
			a, err := gomoe.Place(c.p, gatedPlacement(t, c.mesh))
			require.NoError(t, err)
			var b strings.Builder
			for _, fuse := range []bool{false, true} {
				plan, err := lowering.Lower(a, lowering.Options{Joins: Joins(), Fuse: fuse, Tile: 1})
				require.NoError(t, err)
				b.WriteString(sources.ReplaceAllString(plan.String(), "") + "\n")
			}
			path := filepath.Join("testdata", "epilogues", c.name+".golden")
			if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			if b.String() != string(want) {
				t.Errorf("got\n%s\nwant as in %s\n%s", b.String(), path, want)
			}
		})
	}
}
