package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// BenchmarkCompile goes from what a user writes to the text and the report of the plan,
// at sizes that double. ns/eqn stays where it is if that takes time in proportion to the
// program: to its equations, inputs and results.
func BenchmarkCompile(b *testing.B) {
	for _, c := range compileCases() {
		for _, n := range c.sizes {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				size := 0
				for b.Loop() {
					var err error
					if size, err = c.compile(n); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(size), "ns/eqn")
			})
		}
	}
}

// TestCompileGrows compares what compiling allocates for programs of two sizes, of which
// one is four times the other. Work that grows with the square of the program, and
// allocates, shows as up to four times as much for each equation.
func TestCompileGrows(t *testing.T) {
	for _, c := range compileCases() {
		t.Run(c.name, func(t *testing.T) {
			n := c.sizes[0] / 8
			small, large := allocatedBy(t, c, n), allocatedBy(t, c, 4*n)
			for i, what := range []string{"allocations", "bytes"} {
				if large[i] > 1.5*small[i] {
					t.Errorf("%.0f %s for each equation of size %d, %.0f of size %d, want as many", small[i], what, n, large[i], 4*n)
				}
			}
		})
	}
}

// allocatedBy returns the allocations and the bytes of them for each equation.
func allocatedBy(t *testing.T, c compileCase, n int) [2]float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	size, err := c.compile(n)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	return [2]float64{float64(after.Mallocs-before.Mallocs) / float64(size), float64(after.TotalAlloc-before.TotalAlloc) / float64(size)}
}

// compileCase is a kind of program that grows.
type compileCase struct {
	name  string
	sizes []int
	trace func(n int) (*graph.Program, error)
	cfg   func(p *graph.Program) (gomoe.Config, error)
}

func compileCases() []compileCase {
	whole := func(*graph.Program) (gomoe.Config, error) { return gomoe.Config{}, nil }
	return []compileCase{
		{"chain", []int{2500, 5000, 10000}, chainOf, whole},
		{"chain_of_inputs", []int{2500, 5000, 10000}, sumOf, whole},
		{"chain_grad", []int{2500, 5000, 10000}, chainGrad, whole},
		{"chains_interleaved", []int{2500, 5000, 10000}, chainsOf, whole},
		{"chain_donated", []int{1000, 2000, 4000}, updatesOf, donated},
		{"cotangent_names", []int{2500, 5000, 10000}, cotangentsOf, whole},
		{"results", []int{4000, 8000, 16000}, resultsOf, whole},
		{"inputs", []int{25000, 50000, 100000}, inputsOf, whole},
		{"layers", []int{16, 32, 64}, layersOf, whole},
		{"layers_mesh", []int{16, 32, 64}, layersOf, onRanks(lowering.OverlapOff)},
		{"layers_overlap", []int{16, 32, 64}, layersOf, onRanks(lowering.OverlapCollectives)},
		{"loop", []int{16, 32, 64}, loopOf, whole},
		{"loop_overlap", []int{16, 32, 64}, loopOf, onRanksDeep},
	}
}

// compile returns the size of the program.
func (c compileCase) compile(n int) (int, error) {
	p, err := c.trace(n)
	if err != nil {
		return 0, err
	}
	size := len(p.In) + len(p.Eqns) + len(p.Out)
	if p, err = gomoe.Parse("p.graph", p.String()); err != nil {
		return 0, err
	}
	cfg, err := c.cfg(p)
	if err != nil {
		return 0, err
	}
	plan, err := gomoe.Compile(context.Background(), p, cfg)
	if err != nil {
		return 0, err
	}
	if plan.String() == "" || plan.Report(2).String() == "" {
		return 0, fmt.Errorf("no text")
	}
	return size, nil
}

// chainOf is n additions, one after another.
func chainOf(n int) (*graph.Program, error) {
	return graph.Trace("chain", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", graph.F32, 64)
		v := x
		for range n {
			v = primitives.Add(v, x)
		}
		return []*graph.Value{v}
	})
}

// chainsOf is two chains of n/2 operations, one operation of each in turn.
func chainsOf(n int) (*graph.Program, error) {
	return graph.Trace("chains", func(t *graph.Tracer) []*graph.Value {
		v, w := t.Input("x", graph.F32, 64), t.Input("y", graph.F32, 32)
		for range n / 2 {
			v, w = primitives.Tanh(v), primitives.Neg(w)
		}
		return []*graph.Value{v, w}
	})
}

// updatesOf is n/3 numbers and as many updates of them, which one instruction computes.
func updatesOf(n int) (*graph.Program, error) {
	return graph.Trace("updates", func(t *graph.Tracer) []*graph.Value {
		var out []*graph.Value
		for i := range n / 3 {
			out = append(out, primitives.Tanh(t.Input(fmt.Sprintf("x%d", i), graph.F32, 64)))
		}
		return out
	})
}

// donated gives each result the memory of the input that it is made of.
func donated(p *graph.Program) (gomoe.Config, error) {
	cfg := gomoe.Config{Donate: map[string]int{}}
	for i, v := range p.In {
		cfg.Donate[v.Name] = i
	}
	return cfg, nil
}

// cotangentsOf is a pullback of n/4 inputs that have the names of cotangents.
func cotangentsOf(n int) (*graph.Program, error) {
	p, err := graph.Trace("named", func(t *graph.Tracer) []*graph.Value {
		list := []*graph.Value{t.Input("ct_0", graph.F32, 4)}
		for i := range n / 4 {
			list = append(list, t.Input(fmt.Sprintf("ct%d_0", i+2), graph.F32, 4))
		}
		return []*graph.Value{graph.Apply1(graph.AddAnyOp{}, list...)}
	})
	if err != nil {
		return nil, err
	}
	return vjp.Pullback(p, "ct_0")
}

// chainGrad is the gradient of a third as many functions, one after another.
func chainGrad(n int) (*graph.Program, error) {
	return graph.Trace("chain", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", graph.F32, 64)
		v := x
		for range n / 4 {
			v = primitives.Tanh(v)
		}
		return vjp.Gradients(primitives.ReduceSum(v), x)
	})
}

// sumOf adds n products with matrices of their own.
func sumOf(n int) (*graph.Program, error) {
	return graph.Trace("sum", func(t *graph.Tracer) []*graph.Value {
		w := t.Input("w", graph.F32, 8, 8)
		v := t.Input("x", graph.F32, 8, 8)
		var list []*graph.Value
		for i := range n / 3 {
			list = append(list, primitives.MatMul(w, primitives.MulScalar(w, float64(i))))
		}
		for _, y := range list {
			v = primitives.Add(v, y)
		}
		return []*graph.Value{v}
	})
}

// resultsOf has n results.
func resultsOf(n int) (*graph.Program, error) {
	return graph.Trace("results", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", graph.F32, 64)
		var out []*graph.Value
		for i := range n {
			out = append(out, primitives.MulScalar(x, float64(i)))
		}
		return out
	})
}

// inputsOf has n inputs, of which it adds ten at a time.
func inputsOf(n int) (*graph.Program, error) {
	return graph.Trace("inputs", func(t *graph.Tracer) []*graph.Value {
		var list, out []*graph.Value
		for i := range n {
			if list = append(list, t.Input(fmt.Sprintf("x%d", i), graph.F32, 8)); len(list) == 10 {
				out = append(out, graph.Apply1(graph.AddAnyOp{}, list...))
				list = nil
			}
		}
		return out[:1+len(out)/100]
	})
}

// onRanks splits the batch over dp and ep, and the experts over ep.
func onRanks(overlap lowering.Overlap) func(p *graph.Program) (gomoe.Config, error) {
	return func(p *graph.Program) (gomoe.Config, error) {
		m, err := sharding.ParseMesh("dp=2,ep=2")
		cfg := gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{}, Overlap: overlap}
		for _, v := range p.In {
			switch {
			case v.Name == "x":
				cfg.Place[v.Name] = sharding.Split("dp.ep")
			case len(v.Type.Shape) == 3:
				cfg.Place[v.Name] = sharding.Split("ep")
			}
		}
		return cfg, err
	}
}

// layersOf is the gradient of a model of n layers of attention and experts, with 321
// equations each, the gradient's among them.
func layersOf(n int) (*graph.Program, error) {
	return graph.Trace("layers", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", graph.F32, layerBatch, layerSeq, layerWidth)
		var weights, losses []*graph.Value
		for l := range n {
			var both []*graph.Value
			x, both = layerOf(x, fmt.Sprintf("moe%d", l), func(name string, dims ...int) *graph.Value {
				v := t.Input(fmt.Sprintf("l%d_%s", l, name), graph.F32, dims...)
				weights = append(weights, v)
				return v
			})
			losses = append(losses, both...)
		}
		loss := primitives.ReduceSum(x)
		for _, l := range losses {
			loss = primitives.Add(loss, l)
		}
		return append([]*graph.Value{loss}, vjp.Gradients(loss, weights...)...)
	})
}

const layerBatch, layerSeq, layerWidth = 4, 8, 16

// layerOf is a layer as moe_lm has, with weights from w, and the two losses of its router.
func layerOf(x *graph.Value, label string, w func(name string, dims ...int) *graph.Value) (*graph.Value, []*graph.Value) {
	const heads, ffn, experts, topK = 2, 32, 4, 2
	h := primitives.RMSNorm(x, w("norm1", layerWidth), 1e-5)
	head := func(name string) *graph.Value {
		return primitives.Reshape(primitives.MatMul(h, w(name, layerWidth, layerWidth)), layerBatch, layerSeq, heads, layerWidth/heads)
	}
	y, _ := primitives.Attention(primitives.RoPE(head("wq"), nil, primitives.RoPEOp{}), primitives.RoPE(head("wk"), nil, primitives.RoPEOp{}), head("wv"), primitives.AttentionParams{})
	x = primitives.Add(x, primitives.MatMul(primitives.Reshape(y, layerBatch, layerSeq, layerWidth), w("wo", layerWidth, layerWidth)))
	h = primitives.RMSNorm(x, w("norm2", layerWidth), 1e-5)
	logits := primitives.MatMul(h, w("router", layerWidth, experts))
	shares, ids, scores := primitives.Route(primitives.RouteOp{TopK: topK, Renormalize: true}, logits, nil)
	r := primitives.Prepare(primitives.PrepareOp{Experts: experts, Label: label}, ids)
	rows, rowShares := primitives.DispatchWeighted(r, h, shares)
	z := primitives.SwiGLU(primitives.GroupedMatMul(r, rows, w("gate", experts, layerWidth, ffn)), primitives.GroupedMatMul(r, rows, w("up", experts, layerWidth, ffn)))
	z = primitives.GroupedMatMul(r, z, w("down", experts, ffn, layerWidth))
	x = primitives.Add(x, primitives.Combine(r, primitives.Mul(z, primitives.BroadcastInDim(rowShares, z.Type.Shape, 0))))
	losses := []*graph.Value{primitives.LoadBalanceLoss(scores, r.Demand, topK), primitives.RouterZLoss(logits)}
	for range 12 {
		x = primitives.Add(x, primitives.MulScalar(primitives.Mul(primitives.Tanh(x), x), 0.5))
	}
	return x, losses
}
