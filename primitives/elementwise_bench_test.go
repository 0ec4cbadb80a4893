package primitives_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// throughput is a primitive and the types of its arguments, of a million elements or more.
type throughput struct {
	name string
	in   []graph.Type
	make func(in []*graph.Value) []*graph.Value
}

func throughputs() []throughput {
	const rows, cols = 2048, 512
	x := graph.T(graph.F32, rows, cols)
	type vs = []*graph.Value
	one := func(name string, f func(x *graph.Value) *graph.Value) throughput {
		return throughput{name, []graph.Type{x}, func(in vs) vs { return vs{f(in[0])} }}
	}
	two := func(name string, f func(x, y *graph.Value) *graph.Value) throughput {
		return throughput{name, []graph.Type{x, x}, func(in vs) vs { return vs{f(in[0], in[1])} }}
	}
	of := func(name string, f func(in vs) vs, types ...graph.Type) throughput { return throughput{name, types, f} }
	i32, key := func(shape ...int) graph.Type { return graph.T(graph.I32, shape...) }, graph.T(graph.U32, 2)
	all := []throughput{
		two("add", primitives.Add), two("sub", primitives.Sub), two("mul", primitives.Mul), two("div", primitives.Div), two("max", primitives.Max), two("min", primitives.Min), two("rem", primitives.Rem), two("pow", primitives.Pow),
		one("neg", primitives.Neg), one("abs", primitives.Abs), one("sign", primitives.Sign), one("square", primitives.Square), one("floor", primitives.Floor), one("ceil", primitives.Ceil), one("round", primitives.Round), one("is_finite", primitives.IsFinite),
		one("sqrt", primitives.Sqrt), one("rsqrt", primitives.Rsqrt), one("exp", primitives.Exp), one("expm1", primitives.Expm1), one("log", primitives.Log), one("log1p", primitives.Log1p),
		one("sin", primitives.Sin), one("cos", primitives.Cos), one("tanh", primitives.Tanh), one("logistic", primitives.Logistic), one("erf", primitives.Erf),
		one("silu", primitives.SiLU), one("gelu", primitives.GELU), one("gelu_tanh", primitives.GELUTanh), two("swiglu", primitives.SwiGLU),
		two("lt", primitives.Lt), two("eq", primitives.Eq),
		of("select_n", func(in vs) vs { return vs{primitives.Where(in[0], in[1], in[2])} }, graph.T(graph.Bool, rows, cols), x, x),
		one("clamp", func(x *graph.Value) *graph.Value {
			return primitives.Clamp(primitives.Full(x.Tracer(), -0.5, graph.F32), x, primitives.Full(x.Tracer(), 0.5, graph.F32))
		}),
		one("f32_to_f64", func(x *graph.Value) *graph.Value { return primitives.ConvertElementType(x, graph.F64) }),
		of("f64_to_f32", func(in vs) vs { return vs{primitives.ConvertElementType(in[0], graph.F32)} }, graph.T(graph.F64, rows, cols)),
		one("f32_to_i32", func(x *graph.Value) *graph.Value { return primitives.ConvertElementType(x, graph.I32) }),
		of("i32_to_f32", func(in vs) vs { return vs{primitives.ConvertElementType(in[0], graph.F32)} }, i32(rows, cols)),
		one("transpose", func(x *graph.Value) *graph.Value { return primitives.Transpose(x, 1, 0) }),
		of("transpose_heads", func(in vs) vs { return vs{primitives.Transpose(in[0], 0, 2, 1, 3)} }, graph.T(graph.F32, 8, 256, 8, 64)),
		of("broadcast_rows", func(in vs) vs { return vs{primitives.BroadcastInDim(in[0], x.Shape, 1)} }, graph.T(graph.F32, cols)),
		of("broadcast_cols", func(in vs) vs { return vs{primitives.BroadcastInDim(in[0], x.Shape, 0)} }, graph.T(graph.F32, rows)),
		one("sum_all", func(x *graph.Value) *graph.Value { return primitives.ReduceSum(x) }),
		one("sum_last", func(x *graph.Value) *graph.Value { return primitives.ReduceSum(x, 1) }),
		one("sum_first", func(x *graph.Value) *graph.Value { return primitives.ReduceSum(x, 0) }),
		one("max_all", func(x *graph.Value) *graph.Value { return primitives.ReduceMax(x) }),
		one("max_last", func(x *graph.Value) *graph.Value { return primitives.ReduceMax(x, 1) }),
		one("max_first", func(x *graph.Value) *graph.Value { return primitives.ReduceMax(x, 0) }),
		one("argmax", func(x *graph.Value) *graph.Value { return primitives.ArgMax(x, 1) }),
		one("cumsum", func(x *graph.Value) *graph.Value { return primitives.CumSum(x, 1) }),
		one("softmax", func(x *graph.Value) *graph.Value { return primitives.Softmax(x, 1) }),
		one("softmax_first", func(x *graph.Value) *graph.Value { return primitives.Softmax(x, 0) }),
		one("log_softmax", func(x *graph.Value) *graph.Value { return primitives.LogSoftmax(x, 1) }),
		one("logsumexp", func(x *graph.Value) *graph.Value { return primitives.LogSumExp(x, 1) }),
		of("cross_entropy", func(in vs) vs { return vs{primitives.CrossEntropy(in[0], in[1])} }, x, i32(rows)),
		of("embedding", func(in vs) vs { return vs{primitives.Embedding(in[0], in[1])} }, x, i32(rows)),
		of("gather", func(in vs) vs { return vs{primitives.Gather(in[0], in[1], 0)} }, x, i32(rows)),
		of("scatter_add", func(in vs) vs { return vs{primitives.ScatterAdd(in[0], in[1], in[2], 0)} }, x, i32(rows), x),
		of("one_hot", func(in vs) vs { return vs{primitives.OneHot(in[0], cols, graph.F32)} }, i32(rows)),
		of("top_k", func(in vs) vs { v, i := primitives.TopK(in[0], 4); return vs{v, i} }, graph.T(graph.F32, 16384, 64)),
		of("random_bits", func(in vs) vs { return vs{primitives.RandomBits(in[0], graph.U32, rows, cols)} }, key),
		of("random_uniform", func(in vs) vs { return vs{primitives.RandomUniform(in[0], graph.F32, 0, 1, rows, cols)} }, key),
		of("random_normal", func(in vs) vs { return vs{primitives.RandomNormal(in[0], graph.F32, rows, cols)} }, key),
	}
	for _, score := range []string{"", primitives.SigmoidScore, primitives.SqrtSoftplusScore, primitives.TopKSoftmaxScore} {
		for _, c := range []struct {
			name       string
			experts, k int
		}{{"8_2", 8, 2}, {"64_6", 64, 6}, {"256_8", 256, 8}} {
			all = append(all, of(strings.TrimSuffix("router_"+score, "_")+"_"+c.name, func(in vs) vs {
				w, ids, s := primitives.Route(primitives.RouteOp{TopK: c.k, Score: score, Renormalize: true}, in[0], nil)
				return vs{w, ids, s}
			}, graph.T(graph.F32, 1<<20/c.experts, c.experts)))
		}
	}
	const tokens, k, experts = 2048, 2, 64
	route := func(in vs) primitives.Prepared {
		return primitives.Prepare(primitives.PrepareOp{Experts: experts}, in[1])
	}
	return append(all,
		of("ep_prepare", func(in vs) vs { r := route(in); return vs{r.Value, r.Counts} }, x, i32(1<<18, 4)),
		of("ep_dispatch", func(in vs) vs { return vs{primitives.Combine(route(in), primitives.Dispatch(route(in), in[0]))} }, graph.T(graph.F32, tokens, cols), i32(tokens, k)),
	)
}

// BenchmarkElementwise runs kernels on a million elements, one goroutine. It
// reports the time per element of the largest argument or result, and the bytes of
// all arguments and results per second. The kernels of derivatives, which end in
// _grad, are run too.
func BenchmarkElementwise(b *testing.B) {
	for _, c := range throughputs() {
		p, err := graph.Trace(c.name, func(t *graph.Tracer) []*graph.Value {
			in := make([]*graph.Value, len(c.in))
			for i, x := range c.in {
				in[i] = t.Input(string(rune('a'+i)), x.DType, x.Shape...)
			}
			return c.make(in)
		})
		require.NoError(b, err, c.name)
		b.Run(c.name, func(b *testing.B) { benchKernels(b, p, func(string) bool { return true }) })
		pull, err := vjp.Pullback(p)
		if err != nil {
			continue // nothing to differentiate
		}
		grad := func(name string) bool { return strings.HasSuffix(name, "_grad") }
		for _, e := range pull.Eqns {
			if grad(e.Prim.Name()) {
				b.Run(c.name+"_grad", func(b *testing.B) { benchKernels(b, pull, grad) })
				break
			}
		}
	}
}

// benchKernels times the kernels with passing names of a program for one rank.
func benchKernels(b *testing.B, p *graph.Program, pass func(name string) bool) {
	plan, err := gomoe.Compile(b.Context(), p, gomoe.Config{})
	require.NoError(b, err)
	bufs := make([]array.Array, len(plan.Bufs))
	for i, d := range plan.Bufs {
		if plan.Root(i) == i {
			bufs[i] = array.New(d.Type)
		}
	}
	for i, d := range plan.Bufs {
		if root := plan.Root(i); root != i {
			bufs[i] = array.Over(d.Type, bufs[root].Bytes())
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, in := range plan.In {
		fillFor(r, bufs[in.Buf])
	}
	scratch := new(exec.Scratch)
	run := func(in *lowering.Instr) {
		scratch.Reset()
		a := exec.Args{Mesh: plan.Mesh, Threads: 1, Scratch: scratch}
		for _, i := range in.In {
			a.In = append(a.In, bufs[i])
		}
		for _, i := range in.Out {
			a.Out = append(a.Out, bufs[i])
		}
		require.NoError(b, in.Kernel(&a))
	}
	var timed []*lowering.Instr
	elements, bytes := 1, 0
	for i := range plan.Instrs {
		in := &plan.Instrs[i]
		if in.Kernel == nil {
			continue
		}
		run(in)
		if !pass(in.Name()) {
			continue
		}
		timed = append(timed, in)
		for _, list := range [][]int{in.In, in.Out} {
			for _, i := range list {
				elements, bytes = max(elements, bufs[i].Type.Len()), bytes+int(bufs[i].Type.Bytes())
			}
		}
	}
	for b.Loop() {
		for _, in := range timed {
			run(in)
		}
	}
	nanoseconds := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(nanoseconds/float64(elements), "ns/element")
	b.ReportMetric(float64(bytes)/nanoseconds, "GB/s")
}

// fillFor fills an argument. Floats are normally distributed, and integers are below 64.
func fillFor(r *rand.Rand, a array.Array) {
	switch a.Type.DType {
	case graph.F32:
		for i := range a.Type.Len() {
			array.Data[float32](a)[i] = float32(r.NormFloat64())
		}
	case graph.F64:
		for i := range a.Type.Len() {
			array.Data[float64](a)[i] = r.NormFloat64()
		}
	case graph.Bool:
		for i := range a.Type.Len() {
			array.Data[bool](a)[i] = r.IntN(2) == 1
		}
	case graph.I32:
		for i := range a.Type.Len() {
			array.Data[int32](a)[i] = r.Int32N(64)
		}
	}
}
