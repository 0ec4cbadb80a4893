package gomoe_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// exactStep is a step of a small model whose gradients sum over the batch in every way that
// there is: of a table, of gains and biases, of matrices and of experts.
func exactStep(t *testing.T, tokens int) *graph.Program {
	const vocab, width, inner, experts, k = 11, 12, 10, 8, 2
	p, err := graph.Trace("exact", func(tr *graph.Tracer) []*graph.Value {
		f := func(name string, shape ...int) *graph.Value { return tr.Input(name, graph.F32, shape...) }
		ids := tr.Input("ids", graph.I32, tokens)
		table, gain, bias := f("table", vocab, width), f("gain", width), f("bias", width)
		in, gate, up, down := f("in", width, width), f("gate", width, experts), f("up", experts, width, inner), f("down", experts, inner, width)
		x := primitives.Add(primitives.MatMul(primitives.RMSNorm(primitives.Embedding(table, ids), gain, 1e-6), in), primitives.BroadcastTo(bias, tokens, width))
		weights, chosen, _ := primitives.Route(primitives.RouteOp{TopK: k}, primitives.MatMul(x, gate), nil)
		r := primitives.Prepare(primitives.PrepareOp{Experts: experts, Capacity: tokens / 2}, chosen)
		rows, w := primitives.DispatchWeighted(r, x, weights)
		o := primitives.GroupedMatMul(r, primitives.SiLU(primitives.GroupedMatMul(r, rows, up)), down)
		y := primitives.Combine(r, primitives.Mul(o, primitives.BroadcastInDim(w, []int{o.Dim(0), width}, 0)))
		loss := primitives.ReduceSum(primitives.Square(primitives.LayerNorm(primitives.Add(x, y), gain, bias, 1e-6)))
		out := []*graph.Value{loss}
		ws := []*graph.Value{table, gain, bias, in, gate, up, down}
		for i, g := range vjp.Gradients(loss, ws...) {
			norm := primitives.ReduceSumUnordered(primitives.Square(g))
			out = append(out, g, norm, primitives.Sub(ws[i], primitives.Mul(g, primitives.BroadcastTo(norm, g.Type.Shape...))))
		}
		return out
	})
	require.NoError(t, err)
	return p
}

func exactPlace() map[string]sharding.Spec {
	return map[string]sharding.Spec{"ids": sharding.Split("dp.ep"), "up": sharding.Split("ep"), "down": sharding.Split("ep")}
}

func exactInputs(p *graph.Program) map[string]array.Array {
	r := rand.New(rand.NewPCG(1, 2))
	in := map[string]array.Array{}
	for _, v := range p.In {
		a := array.New(v.Type)
		if v.Type.DType == graph.I32 {
			for i := range array.Data[int32](a) {
				array.Data[int32](a)[i] = int32(r.IntN(11))
			}
		} else {
			for i := range array.Data[float32](a) {
				array.Data[float32](a)[i] = float32(r.NormFloat64())
			}
		}
		in[v.Name] = a
	}
	return in
}

// The loss, the gradients, their norms and what is made of them have the bits of one rank on
// every mesh, and without Exact some of them have not.
func TestExact(t *testing.T) {
	p := exactStep(t, 64)
	in := exactInputs(p)
	run := func(mesh string, blocks int) []array.Array {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		cfg := gomoe.Config{Mesh: m, Place: exactPlace(), Exact: blocks, Check: true}
		cfg.Poison = true
		out, err := gomoe.Run(context.Background(), p, cfg, in)
		require.NoError(t, err, mesh)
		return out
	}
	want, plain := run("", 8), run("", 0)
	for i := range want {
		for j, x := range array.Data[float32](want[i]) {
			if y := array.Data[float32](plain[i])[j]; abs32(x-y) > 1e-3*(1+abs32(y)) {
				t.Fatalf("result %d, element %d: exact %v, plain %v", i, j, x, y)
			}
		}
	}
	differ := false
	for _, mesh := range []string{"dp=2", "ep=2", "dp=4", "ep=4", "dp=2,ep=2", "ep=8", "dp=2,ep=4", "dp=4,ep=2", "dp=8", "dp=1,ep=4",
		"dp=3", "ep=3", "dp=5", "ep=5", "dp=6", "ep=6", "dp=3,ep=2", "dp=2,ep=3", "dp=7", "ep=7", "ep=2,dp=2", "ep=3,dp=2", "ep=0-4/5/6-7", "dp=2,ep=8:3/1/1"} {
		got, other := run(mesh, 8), run(mesh, 0)
		for i := range want {
			if !array.Equal(got[i], want[i]) {
				t.Errorf("mesh %s: result %d has other bits than on one rank", mesh, i)
			}
			differ = differ || !array.Equal(other[i], plain[i])
		}
	}
	if !differ {
		t.Error("without Exact all meshes have the bits of one rank, so that the test shows nothing")
	}
}

// A program is exact on every mesh that its sizes fit, also if they do not fit larger ones: blocks of InBlocks of two and
// of four tokens.
func TestExactOfFewTokens(t *testing.T) {
	for _, rows := range []int{2, 4} {
		p, err := graph.Trace("blocks", func(tr *graph.Tracer) []*graph.Value {
			ids := tr.Input("ids", graph.I32, 16)
			table, gate, up := tr.Input("table", graph.F32, 11, 6), tr.Input("gate", graph.F32, 6, 4), tr.Input("up", graph.F32, 4, 6, 6)
			x := primitives.Embedding(table, ids)
			weights, chosen, _ := primitives.Route(primitives.RouteOp{TopK: 2}, primitives.MatMul(x, gate), nil)
			y := primitives.InBlocks(rows, primitives.Prepare(primitives.PrepareOp{Experts: 4}, chosen), []*graph.Value{x, weights}, func(r primitives.Prepared, in []*graph.Value) *graph.Value {
				y, w := primitives.DispatchWeighted(r, in[0], in[1])
				y = primitives.GroupedMatMul(r, y, up)
				return primitives.Combine(r, primitives.Mul(y, primitives.BroadcastInDim(w, y.Type.Shape, 0)))
			})
			loss := primitives.ReduceSum(primitives.Square(y))
			return append([]*graph.Value{loss}, vjp.Gradients(loss, table, gate, up)...)
		})
		require.NoError(t, err)
		in := exactInputs(p)
		place := map[string]sharding.Spec{"ids": sharding.Split("dp.ep"), "up": sharding.Split("ep")}
		var want []array.Array
		for _, mesh := range []string{"", "ep=2", "dp=2"} {
			m, err := sharding.ParseMesh(mesh)
			require.NoError(t, err)
			got, err := gomoe.Run(t.Context(), p, gomoe.Config{Mesh: m, Place: place, Exact: 2, Check: true}, in)
			require.NoError(t, err, "%d rows on %q", rows, mesh)
			if want == nil {
				want = got
			}
			for i := range want {
				if !array.Equal(got[i], want[i]) {
					t.Errorf("%d rows on %s: result %d has other bits than on one rank", rows, mesh, i)
				}
			}
		}
	}
}

func abs32(x float32) float32 { return max(x, -x) }

// What has no form with the same bits is refused, with what to do instead.
func TestExactRefuses(t *testing.T) {
	p := exactStep(t, 64)
	for _, c := range []struct {
		mesh, want string
		cfg        gomoe.Config
		place      map[string]sharding.Spec
	}{
		{"dp=2,tp=2", "leave tp out", gomoe.Config{Exact: 8}, exactPlace()},
		{"dp=2", "want a power of two", gomoe.Config{Exact: 6}, exactPlace()},
		{"dp=2", "choose a batch that is a multiple of 128", gomoe.Config{Exact: 128}, exactPlace()},
		{"dp=3", "split over at most 2 ranks", gomoe.Config{Exact: 2}, exactPlace()},
		{"", "place the batch on every mesh", gomoe.Config{Exact: 8}, nil},
		{"dp=2", "gomoe: Config.Exact is 8 and Config.Sums bf16, want one of them", gomoe.Config{Exact: 8, Sums: graph.BF16}, exactPlace()},
	} {
		m, err := sharding.ParseMesh(c.mesh)
		require.NoError(t, err)
		c.cfg.Mesh, c.cfg.Place = m, c.place
		_, err = gomoe.Compile(t.Context(), p, c.cfg)
		require.ErrorContains(t, err, c.want, "mesh %s", c.mesh)
	}
	m, err := sharding.ParseMesh("ep=8:5/3")
	require.NoError(t, err)
	_, err = gomoe.Compile(t.Context(), exactStep(t, 8), gomoe.Config{Exact: 4, Mesh: m, Place: exactPlace()})
	require.ErrorContains(t, err, "the ranges of axis ep, for 8 experts, cut a dimension of 8 that is placed over ep; place it over ep:even")
}

// A batch of as many tokens as there are experts is cut into blocks if it is placed evenly,
// while the experts are cut by the ranges of the same axis.
func TestExactOfAsManyTokensAsExperts(t *testing.T) {
	p := exactStep(t, 8)
	in, place := exactInputs(p), exactPlace()
	place["ids"] = sharding.Split("dp.ep:even")
	var want []array.Array
	for _, mesh := range []string{"", "ep=2", "ep=8:5/3", "ep=0-2/3-7", "dp=2,ep=8:7/1", "ep=8:5/2/1", "ep=none/0-7"} {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		got, err := gomoe.Run(t.Context(), p, gomoe.Config{Mesh: m, Place: place, Exact: 4, Check: true}, in)
		require.NoError(t, err, mesh)
		if want == nil {
			want = got
		}
		for i := range want {
			require.True(t, array.Equal(got[i], want[i]), "mesh %s: result %d has other bits than on one rank", mesh, i)
		}
	}
}

// A sum that is only placed afterwards travels once, as the parts that its placement asks for.
func TestExactOfPlacedSum(t *testing.T) {
	mesh, err := sharding.ParseMesh("dp=2")
	require.NoError(t, err)
	for _, last := range []string{"place_like(s, m)", `sharding_constraint(s) spec="dp,_"`} {
		p, err := gomoe.Parse("p", "program p(x f32[8,16], y f32[16,8], m f32[8,8]) {\n s = dot_general(x, y) lhs_contract=[1] rhs_contract=[0]\n o = "+last+"\n return o\n}")
		require.NoError(t, err)
		plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Mesh: mesh, Exact: gomoe.ExactBlocks, Place: map[string]sharding.Spec{
			"x": sharding.Split("", "dp"), "y": sharding.Split("dp"), "m": sharding.Split("dp")}})
		require.NoError(t, err)
		require.Len(t, plan.Instrs, 2, last)
		require.Equal(t, ops.ReduceScatter, plan.Instrs[1].Op, last)
	}
}
