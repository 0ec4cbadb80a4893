package primitives_test

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// Products with a precision have the bits of gemm.MultiplyParts, whatever the layout, the batch and the
// number of threads; those of other types ignore it.
func TestPrecisionIsParts(t *testing.T) {
	const m, n, k = 70, 130, 600
	r := rand.New(rand.NewPCG(1, 2))
	random := func(shape ...int) array.Array {
		a := array.New(graph.T(graph.F32, shape...))
		for i := range array.Data[float32](a) {
			array.Data[float32](a)[i] = float32(r.NormFloat64())
		}
		return a
	}
	x, y, xt, yt := random(m, k), random(k, n), random(k, m), random(n, k)
	for _, precision := range []string{primitives.HighPrecision, primitives.DefaultPrecision} {
		dot := func(x, y *graph.Value, l, r int, d graph.DType, precision string) *graph.Value {
			return graph.Apply1(primitives.DotGeneralOp{LHSContract: []int{l}, RHSContract: []int{r}, DType: d, Precision: precision}, x, y)
		}
		p, err := graph.Trace("p", func(t *graph.Tracer) []*graph.Value {
			in := func(name string, a array.Array) *graph.Value { return t.Input(name, graph.F32, a.Type.Shape...) }
			vx, vy, vxt, vyt := in("x", x), in("y", y), in("xt", xt), in("yt", yt)
			bx, by := primitives.ConvertElementType(vx, graph.BF16), primitives.ConvertElementType(vy, graph.BF16)
			batch := primitives.DotGeneralOp{LHSContract: []int{2}, RHSContract: []int{1}, LHSBatch: []int{0}, RHSBatch: []int{0}, Precision: precision}
			return []*graph.Value{
				dot(vx, vy, 1, 0, 0, precision), dot(vx, vyt, 1, 1, 0, precision), dot(vxt, vy, 0, 0, 0, precision),
				dot(vx, vy, 1, 0, graph.BF16, precision),
				primitives.Reshape(graph.Apply1(batch, primitives.Reshape(vx, 1, m, k), primitives.Reshape(vy, 1, k, n)), m, n),
				dot(bx, by, 1, 0, 0, precision), dot(bx, by, 1, 0, 0, ""),
				primitives.MatMulAt(precision, vx, vy),
			}
		})
		require.NoError(t, err)
		parts := func(a array.Array) gemm.Parts {
			x := array.Data[float32](a)
			p := gemm.Parts{High: make([]array.Brain, len(x))}
			if precision == primitives.HighPrecision {
				p.Low = make([]array.Brain, len(x))
			}
			p.Split(x)
			return p
		}
		product := func(x, y array.Array, ars, acs, brs, bcs int) array.Array {
			z := array.New(graph.T(graph.F32, m, n))
			gemm.MultiplyParts(nil, m, n, k, parts(x), ars, acs, parts(y), brs, bcs, array.Data[float32](z), n)
			return z
		}
		a, b, c := product(x, y, k, 1, n, 1), product(x, yt, k, 1, 1, k), product(xt, y, 1, m, n, 1)
		for _, threads := range []int{1, 3} {
			got := runThreads(t, p, threads, map[string]array.Array{"x": x, "y": y, "xt": xt, "yt": yt})
			for i, want := range []array.Array{a, b, c, a.As(graph.BF16), a, got[6]} {
				if !array.Equal(got[i], want) {
					t.Errorf("%s, %d threads: result %d differs from gemm.MultiplyParts", precision, threads, i)
				}
			}
			require.True(t, array.Equal(got[7], a))
		}
	}
}

// A layer of experts with a precision has the same bits on every mesh, is as near to the layer of the highest
// precision as its bound allows and no nearer, and its cotangents have the precision, too.
func TestPrecisionOfExperts(t *testing.T) {
	const tokens, hidden, ffn, experts = 64, 48, 40, 4
	program := func(precision string) *graph.Program {
		p, err := graph.Trace("moe", func(tr *graph.Tracer) []*graph.Value {
			x, router := tr.Input("x", graph.F32, tokens, hidden), tr.Input("router", graph.F32, hidden, experts)
			up, down := tr.Input("up", graph.F32, experts, hidden, ffn), tr.Input("down", graph.F32, experts, hidden, ffn)
			_, ids, _ := primitives.Route(primitives.RouteOp{TopK: 2}, primitives.MatMul(x, router), nil)
			r := primitives.Prepare(primitives.PrepareOp{Experts: experts}, ids)
			h := primitives.SiLU(primitives.GroupedMatMulAt(precision, r, primitives.Dispatch(r, x), up))
			y := primitives.Combine(r, graph.Apply1(primitives.GroupedMatMulOp{Transpose: true, Precision: precision}, h, down, r.Value))
			return []*graph.Value{primitives.ReduceSum(primitives.Square(y)), y}
		})
		require.NoError(t, err)
		g, err := vjp.Grad(p, "up", "down", "x")
		require.NoError(t, err)
		return g
	}
	r := rand.New(rand.NewPCG(3, 4))
	in := map[string]array.Array{}
	for name, shape := range map[string][]int{"x": {tokens, hidden}, "router": {hidden, experts}, "up": {experts, hidden, ffn}, "down": {experts, hidden, ffn}} {
		a := array.New(graph.T(graph.F32, shape...))
		for i := range array.Data[float32](a) {
			array.Data[float32](a)[i] = float32(r.NormFloat64())
		}
		in[name] = a
	}
	run := func(precision, mesh string) []array.Array {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		out, err := gomoe.Run(context.Background(), program(precision), gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{
			"x": sharding.Split("ep"), "up": sharding.Split("ep"), "down": sharding.Split("ep")}}, in)
		require.NoError(t, err)
		return out
	}
	off := func(x, y array.Array) float64 {
		d, size := 0.0, 0.0
		for i, v := range array.Data[float32](y) {
			d, size = max(d, math.Abs(float64(array.Data[float32](x)[i]-v))), max(size, math.Abs(float64(v)))
		}
		return d / size
	}
	want := run("", "ep=1")
	for _, c := range []struct {
		precision   string
		least, most float64 // errors of results and gradients
	}{{primitives.HighPrecision, 1e-7, 1e-4}, {primitives.DefaultPrecision, 1e-4, 3e-2}} {
		one, two := run(c.precision, "ep=1"), run(c.precision, "ep=2")
		if !array.Equal(one[1], two[1]) {
			t.Errorf("%s: the layer has other bits on two ranks", c.precision)
		}
		for i := range want {
			d, between := off(one[i], want[i]), off(two[i], one[i])
			if i > 0 && d < c.least || d > c.most || between > c.most {
				t.Errorf("%s: result %d is off by %.1g of its size from that of the highest precision, want %.0g to %.0g; on two ranks by %.1g from that on one", c.precision, i, d, c.least, c.most, between)
			}
		}
	}
}

// A precision is written in a program's text, is kept by gradients, and is an error if it is unknown or combined with a tree.
func TestPrecisionText(t *testing.T) {
	p, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		return []*graph.Value{primitives.ReduceSum(primitives.MatMulAt(primitives.HighPrecision, tr.Input("x", graph.F32, 3, 4), tr.Input("y", graph.F32, 4, 5)))}
	})
	require.NoError(t, err)
	g, err := vjp.Grad(p)
	require.NoError(t, err)
	if got := strings.Count(g.String(), ` precision="high"`); got != 3 {
		t.Errorf("%d products of high precision, want 3:\n%s", got, g)
	}
	back, err := graph.Parse("p", g.String(), primitives.All()...)
	require.NoError(t, err)
	require.Equal(t, g.String(), back.String())
	f := graph.T(graph.F32, 4, 4)
	for _, c := range []struct {
		op   graph.Primitive
		in   []graph.Type
		want string
	}{
		{primitives.DotGeneralOp{Precision: "highest"}, []graph.Type{f, f}, `precision="highest", want "high" or "default", or no precision for the highest`},
		{primitives.GroupedMatMulOp{Precision: "bf16"}, []graph.Type{f, f, f}, `precision="bf16", want`},
		{primitives.GroupedOuterOp{Precision: "bf16"}, []graph.Type{f, f, f}, `precision="bf16", want`},
		{primitives.DotGeneralOp{LHSContract: []int{0}, RHSContract: []int{0}, Tree: 2, Precision: "high"}, []graph.Type{f, f}, `precision="high" with tree=2, want no precision`},
		{primitives.GroupedOuterOp{Tree: 2, Precision: "high"}, []graph.Type{f, f, f}, `precision="high" with tree=2, want no precision`},
	} {
		_, err := c.op.Infer(c.in)
		require.ErrorContains(t, err, c.want)
	}
}
