package primitives_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// contraction is dot_general by its definition, one element at a time.
func contraction(p primitives.DotGeneralOp, x, y array.Array, out graph.Type) []float64 {
	free := func(t graph.Type, lists ...[]int) (f []int) {
		for d := range t.Shape {
			used := false
			for _, l := range lists {
				for _, u := range l {
					used = used || u == d
				}
			}
			if !used {
				f = append(f, d)
			}
		}
		return f
	}
	lf, rf := free(x.Type, p.LHSContract, p.LHSBatch), free(y.Type, p.RHSContract, p.RHSBatch)
	xs, ys, z := x.Float64s(), y.Float64s(), make([]float64, out.Len())
	flat := func(t graph.Type, idx []int) (n int) {
		for d, i := range idx {
			n = n*t.Shape[d] + i
		}
		return n
	}
	var k graph.Type
	for _, d := range p.LHSContract {
		k.Shape = append(k.Shape, x.Type.Shape[d])
	}
	unflat := func(t graph.Type, n int) []int {
		idx := make([]int, t.Rank())
		for d := len(idx) - 1; d >= 0; d-- {
			idx[d], n = n%t.Shape[d], n/t.Shape[d]
		}
		return idx
	}
	for o := range z {
		at := unflat(out, o)
		xi, yi := make([]int, x.Type.Rank()), make([]int, y.Type.Rank())
		nb := len(p.LHSBatch)
		for i := range nb {
			xi[p.LHSBatch[i]], yi[p.RHSBatch[i]] = at[i], at[i]
		}
		for i, d := range lf {
			xi[d] = at[nb+i]
		}
		for i, d := range rf {
			yi[d] = at[nb+len(lf)+i]
		}
		for c := range k.Len() {
			for i, v := range unflat(k, c) {
				xi[p.LHSContract[i]], yi[p.RHSContract[i]] = v, v
			}
			z[o] += xs[flat(x.Type, xi)] * ys[flat(y.Type, yi)]
		}
	}
	return z
}

// apply runs one primitive on arrays, with that many threads.
func apply(t *testing.T, p graph.Primitive, threads int, in ...array.Array) array.Array {
	t.Helper()
	args := map[string]array.Array{}
	prog, err := graph.Trace("apply", func(tr *graph.Tracer) []*graph.Value {
		var vs []*graph.Value
		for i, a := range in {
			name := fmt.Sprintf("x%d", i)
			args[name] = a
			vs = append(vs, tr.Input(name, a.Type.DType, a.Type.Shape...))
		}
		return graph.Apply(p, vs...)
	})
	require.NoError(t, err)
	out, err := gomoe.Run(context.Background(), prog, gomoe.Config{Options: runtime.Options{Threads: threads}}, args)
	require.NoError(t, err)
	return out[0]
}

// TestDotGeneralDefinition compares random contractions of random layouts, some of
// which are views and some packed, with the definition. Results are exact, because
// the elements are small integers.
func TestDotGeneralDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		var p primitives.DotGeneralOp
		sizes := []int{1, 2, 3, 5}
		if r.IntN(10) == 0 {
			sizes[0] = 0
		}
		type dim struct{ kind, pair, size int } // kind 0 batch, 1 contracted, 2 free
		var lhs, rhs []dim
		for pair := range r.IntN(5) {
			d := dim{r.IntN(2), pair, sizes[r.IntN(4)]}
			lhs, rhs = append(lhs, d), append(rhs, d)
		}
		pairs := len(lhs)
		for range r.IntN(3) {
			lhs = append(lhs, dim{2, -1, sizes[r.IntN(4)]})
		}
		for range r.IntN(3) {
			rhs = append(rhs, dim{2, -1, sizes[r.IntN(4)]})
		}
		r.Shuffle(len(lhs), func(i, j int) { lhs[i], lhs[j] = lhs[j], lhs[i] })
		if r.IntN(2) == 0 {
			r.Shuffle(len(rhs), func(i, j int) { rhs[i], rhs[j] = rhs[j], rhs[i] })
		}
		find := func(ds []dim, pair int) int {
			for i, d := range ds {
				if d.pair == pair {
					return i
				}
			}
			return -1
		}
		for _, pair := range r.Perm(pairs) {
			i, j := find(lhs, pair), find(rhs, pair)
			if lhs[i].kind == 0 {
				p.LHSBatch, p.RHSBatch = append(p.LHSBatch, i), append(p.RHSBatch, j)
			} else {
				p.LHSContract, p.RHSContract = append(p.LHSContract, i), append(p.RHSContract, j)
			}
		}
		d := []graph.DType{graph.F64, graph.F32, graph.BF16, graph.F16, graph.I32, graph.I64}[r.IntN(6)]
		shape := func(ds []dim) (s []int) {
			for _, d := range ds {
				s = append(s, d.size)
			}
			return s
		}
		x, y := ints(-1, 2)(r, graph.T(d, shape(lhs)...)), ints(-1, 2)(r, graph.T(d, shape(rhs)...))
		out, err := p.Infer([]graph.Type{x.Type, y.Type})
		require.NoError(t, err)
		got, want := apply(t, p, 1+r.IntN(3), x, y).Float64s(), contraction(p, x, y, out[0])
		require.Equal(t, len(want), len(got))
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%s%s of %s and %s: element %d is %v, want %v", p.Name(), graph.ParamString(p), x.Type, y.Type, i, got[i], want[i])
			}
		}
	}
}

// TestDotGeneralElementTypes checks wrapping integers, and products that are
// summed in a wider type and rounded once.
func TestDotGeneralElementTypes(t *testing.T) {
	inner := primitives.DotGeneralOp{LHSContract: []int{0}, RHSContract: []int{0}}
	wide := func(d graph.DType) primitives.DotGeneralOp { p := inner; p.DType = d; return p }
	for _, c := range []struct {
		p    primitives.DotGeneralOp
		x, y graph.DType
		a, b []float64
		want string
	}{
		{inner, graph.U8, graph.U8, []float64{200, 3}, []float64{2, 7}, "u8[] 165"},
		{inner, graph.U32, graph.U32, []float64{1 << 31, 1}, []float64{2, 5}, "u32[] 5"},
		{inner, graph.I32, graph.I32, []float64{1 << 30, -7}, []float64{2, 1}, "i32[] 2147483641"},
		{inner, graph.I64, graph.I64, []float64{1 << 40, -7}, []float64{2, 1}, "i64[] 2199023255545"},
		{wide(graph.I32), graph.U8, graph.U8, []float64{200, 3}, []float64{2, 7}, "i32[] 421"},
		{wide(graph.F32), graph.BF16, graph.BF16, []float64{256, 1}, []float64{1, 1}, "f32[] 257"},
		{inner, graph.BF16, graph.BF16, []float64{256, 1, 1}, []float64{1, 1, 1}, "bf16[] 258"}, // 256 if rounded each time
		{wide(graph.F32), graph.F32, graph.BF16, []float64{0.1, 1}, []float64{1, 1}, "f32[] 1.1"},
		{wide(graph.F64), graph.F32, graph.F32, []float64{1 << 24, 1}, []float64{1, 1}, "f64[] 1.6777217e+07"},
		{wide(graph.BF16), graph.F32, graph.F32, []float64{256, 1, 1}, []float64{1, 1, 1}, "bf16[] 258"},
		{inner, graph.F32, graph.F32, []float64{0, 1}, []float64{math.Inf(1), 1}, "f32[] NaN"},
		{inner, graph.F32, graph.F32, nil, nil, "f32[] 0"},
	} {
		x, y := of(graph.T(c.x, len(c.a)), c.a), of(graph.T(c.y, len(c.b)), c.b)
		got := apply(t, c.p, 1, x, y)
		if text := strings.ToLower(got.String()); text != strings.ToLower(c.want) {
			t.Errorf("%v·%v with%s is %s, want %s", x, y, graph.ParamString(c.p), got, c.want)
		}
	}
}

// TestDotGeneralAccuracy sums over many tokens in f32, as gradients of weights
// do: the blocks keep the error far below that of one running sum.
func TestDotGeneralAccuracy(t *testing.T) {
	const n = 1 << 18
	x := make([]float64, n)
	sum, running := 0.0, float32(0)
	for i := range x {
		v := float32(0.1 + 0.01*math.Sin(float64(i)))
		x[i] = float64(v)
		sum += x[i]
		running += v
	}
	got := apply(t, primitives.DotGeneralOp{LHSContract: []int{0}, RHSContract: []int{0}}, 1,
		of(graph.T(graph.F32, n), x), func() array.Array { a := array.New(graph.T(graph.F32, n)); a.Fill(1); return a }())
	d := math.Abs(got.Float64s()[0]-sum) / sum
	if bad := math.Abs(float64(running)-sum) / sum; d > 2e-6 || bad < 1e-4 {
		t.Errorf("relative error %g, of one running sum %g, want at most 2e-6 and more than 1e-4", d, bad)
	}
}

// TestDotGeneralRows checks that a row has the same bits however many are
// beside it and however many threads there are.
func TestDotGeneralRows(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for _, d := range []graph.DType{graph.F32, graph.BF16} {
		x, w := uniform(-1, 1)(r, graph.T(d, 70, 300)), uniform(-1, 1)(r, graph.T(d, 300, 530))
		p := primitives.DotGeneralOp{LHSContract: []int{1}, RHSContract: []int{0}}
		all := apply(t, p, 1, x, w)
		for _, threads := range []int{2, 3, 16} {
			if got := apply(t, p, threads, x, w); !array.Equal(got, all) {
				t.Errorf("%s: %d threads give other bits", d, threads)
			}
		}
		for _, rows := range [][2]int{{0, 1}, {3, 4}, {5, 9}, {30, 70}} {
			for _, threads := range []int{1, 4} {
				if got := apply(t, p, threads, x.Rows(rows[0], rows[1]), w); !array.Equal(got, all.Rows(rows[0], rows[1])) {
					t.Errorf("%s: rows %v by themselves have other bits", d, rows)
				}
			}
		}
	}
}

func TestDotGeneralErrors(t *testing.T) {
	for _, c := range []struct{ args, params, want string }{
		{"x f32[4,6], y f32[5,2]", "lhs_contract=[1] rhs_contract=[0]", "dimension 1 of f32[4,6] has size 6 and dimension 0 of f32[5,2] has size 5, want one size for the two of a contract pair"},
		{"x f32[4,6], y f32[5,2]", "lhs_batch=[0] rhs_batch=[0]", "want one size for the two of a batch pair"},
		{"x f32[4,6], y f32[6,2]", "lhs_contract=[1]", "lhs_contract [1] and rhs_contract [], want as many of one as of the other"},
		{"x f32[4,6], y f32[6,2]", "lhs_batch=[1]", "lhs_batch [1] and rhs_batch [], want as many"},
		{"x f32[4,6], y f32[6,4]", "lhs_contract=[1] rhs_contract=[0] lhs_batch=[1] rhs_batch=[1]", "contracted [1] and batch [1] dimensions of argument 0: axes [1 1], want them distinct"},
		{"x f32[4,6], y f32[6,4]", "lhs_contract=[1] rhs_contract=[2]", "argument 1: axis 2 of f32[6,4], want 0 to 1"},
		{"x f32[4,6], y f32[6,4]", "lhs_contract=[-1] rhs_contract=[0]", "argument 0: axis -1"},
		{"x f32[4,6], y bf16[6,4]", "lhs_contract=[1] rhs_contract=[0]", "element types f32 and bf16 differ; convert one with convert_element_type, or give the result's type as dtype"},
		{"x f32[4], y i32[4]", "lhs_contract=[0] rhs_contract=[0] dtype=f32", "want floats or integers for all"},
		{"x f32[4], y f32[4]", "lhs_contract=[0] rhs_contract=[0] dtype=i32", "want floats or integers for all"},
		{"x bool[4], y bool[4]", "lhs_contract=[0] rhs_contract=[0]", "element type bool has no products"},
	} {
		_, err := gomoe.Parse("test", "program p("+c.args+") {\n z = dot_general(x, y) "+c.params+"\n return z\n}")
		require.ErrorContains(t, err, c.want, c.params)
	}
	_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F32, 2, 3, 4)
		return []*graph.Value{primitives.MatMul(x, x)}
	})
	require.ErrorContains(t, err, "matmul of f32[2,3,4] and f32[2,3,4], want x[..,K] and y[K,N]; use DotGeneral for batches")
	require.ErrorContains(t, err, "dot_general_test.go:")
}

// MatMulTransposed contracts the last dimension of both, as checkpoints have their weights.
func TestMatMulTransposed(t *testing.T) {
	p, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		x, w := tr.Input("x", graph.BF16, 2, 3, 4), tr.Input("w", graph.BF16, 5, 4)
		return []*graph.Value{primitives.MatMulTransposed(x, w), primitives.MatMulTransposedAs(graph.F32, x, w)}
	})
	require.NoError(t, err)
	require.Contains(t, p.String(), "bf16[2,3,5] = dot_general(x, w) lhs_contract=[2] rhs_contract=[1]\n")
	require.Contains(t, p.String(), "f32[2,3,5] = dot_general(x, w) lhs_contract=[2] rhs_contract=[1] dtype=f32\n")
	_, err = graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F32, 2, 3, 4)
		return []*graph.Value{primitives.MatMulTransposed(x, x)}
	})
	require.ErrorContains(t, err, "matmul of f32[2,3,4] and f32[2,3,4] transposed, want x[..,K] and y[N,K]; use DotGeneral for batches")
	require.ErrorContains(t, err, "dot_general_test.go:")
}

// collectives lists the exchanges of a plan: "all_sum tp".
func collectives(t *testing.T, p *graph.Program, cfg gomoe.Config) []string {
	t.Helper()
	plan, err := gomoe.Compile(t.Context(), p, cfg)
	require.NoError(t, err, "%s", p)
	list := []string{}
	for _, in := range plan.Instrs {
		if in.Communicates() {
			list = append(list, in.Name()+" "+strings.Join(in.Axes, "."))
		}
	}
	return list
}

// TestMegatron splits a block of two linear layers by columns and then by rows:
// the plan has the exchanges of Megatron-LM (Shoeybi et al. 2019, section 3) and
// no others, and its results match one rank.
func TestMegatron(t *testing.T) {
	const block = " a = dot_general(%s, w1) lhs_contract=[1] rhs_contract=[0]\n h = exp(a)\n z = dot_general(h, w2) lhs_contract=[1] rhs_contract=[0]\n%s\n}"
	head := "program p(x f32[8,6], w1 f32[6,12], w2 f32[12,6]) {\n"
	plain := head + fmt.Sprintf(block, "x", " return z")
	sequence := head + " xs = sharding_constraint(x)\n" + fmt.Sprintf(block, "xs", " y = sharding_constraint(z) spec=\"tp\"\n return y")
	weights := map[string]sharding.Spec{"w1": sharding.Split("", "tp"), "w2": sharding.Split("tp")}
	for _, c := range []struct {
		name, src, mesh, x, ct string
		forward, backward      []string
	}{
		{"tp", plain, "tp=2", "", "", []string{"all_sum tp"}, []string{"all_sum tp"}},
		{"tp=4", plain, "tp=4", "", "", []string{"all_sum tp"}, []string{"all_sum tp"}},
		{"dp and tp", plain, "dp=2,tp=2", "dp", "dp", []string{"all_sum tp"}, []string{"all_sum tp", "all_sum dp"}},
		{"sequence", sequence, "tp=2", "tp", "tp", []string{"all_gather tp", "reduce_scatter tp"}, []string{"all_gather tp", "all_gather tp", "reduce_scatter tp"}},
	} {
		p, err := gomoe.Parse("megatron", c.src)
		require.NoError(t, err)
		pull, err := vjp.Pullback(p)
		require.NoError(t, err)
		mesh, err := sharding.ParseMesh(c.mesh)
		require.NoError(t, err)
		place := map[string]sharding.Spec{"x": sharding.Split(c.x), "w1": weights["w1"], "w2": weights["w2"]}
		in := row{}.inputs(p, 1)
		for i, q := range []*graph.Program{p, pull} {
			want := [][]string{c.forward, c.backward}[i]
			if i == 1 {
				place["ct_0"] = sharding.Split(c.ct)
				in["ct_0"] = uniform(-1, 1)(rand.New(rand.NewPCG(3, 4)), p.Out[0].Type)
			}
			cfg := gomoe.Config{Mesh: mesh, Place: place}
			got := collectives(t, q, cfg)
			require.ElementsMatch(t, want, got, "%s: exchanges of\n%s", c.name, q)
			one, err := gomoe.Run(context.Background(), q, gomoe.Config{}, in)
			require.NoError(t, err)
			many, err := gomoe.Run(context.Background(), q, cfg, in)
			require.NoError(t, err)
			for k := range one {
				scale := 1.0
				for _, v := range one[k].Float64s() {
					scale = max(scale, math.Abs(v))
				}
				if d, at := array.MaxDiff(one[k], many[k]); d > 1e-6*scale {
					t.Errorf("%s: result %d of\n%s\ndiffers by %g at %d from one rank", c.name, k, q, d, at)
				}
			}
		}
	}
}

// TestDotGeneralPending checks that a pending sum of one argument passes through a
// product, and that sums are added before if both arguments have one, the two in one exchange.
func TestDotGeneralPending(t *testing.T) {
	mesh, err := sharding.ParseMesh("a=2")
	require.NoError(t, err)
	for _, c := range []struct {
		src  string
		want []string
	}{
		{"s = reduce_sum(x) axes=[0] unordered=true\n z = dot_general(s, y) lhs_contract=[1] rhs_contract=[1]\n return z", []string{"reduce_sum", "dot_general", "all_sum"}},
		{"s = reduce_sum(x) axes=[0] unordered=true\n z = dot_general(y, s) lhs_contract=[1] rhs_contract=[1]\n w = dot_general(z, y) lhs_contract=[0] rhs_contract=[0]\n return w", []string{"reduce_sum", "dot_general", "dot_general", "all_sum"}},
		{"s = reduce_sum(x) axes=[0] unordered=true\n z = dot_general(s, s) lhs_contract=[1] rhs_contract=[1]\n return z", []string{"reduce_sum", "all_sum", "dot_general"}},
		{"s = reduce_sum(x) axes=[0] unordered=true\n r = neg(s)\n z = dot_general(s, r) lhs_contract=[1] rhs_contract=[1]\n return z", []string{"reduce_sum", "neg", "copy", "all_sum", "dot_general"}},
	} {
		p, err := gomoe.Parse("pending", "program p(x f64[2,4,3], y f64[4,3]) {\n "+c.src+"\n}")
		require.NoError(t, err)
		cfg := gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"x": sharding.Split("a")}}
		plan, err := gomoe.Compile(t.Context(), p, cfg)
		require.NoError(t, err)
		var steps []string
		for _, i := range plan.Instrs {
			steps = append(steps, i.Name())
		}
		require.Equal(t, c.want, steps, "%s", p)
		in := row{}.inputs(p, 2)
		one, err := gomoe.Run(context.Background(), p, gomoe.Config{}, in)
		require.NoError(t, err)
		many, err := gomoe.Run(context.Background(), p, cfg, in)
		require.NoError(t, err)
		if d, _ := array.MaxDiff(one[0], many[0]); d > 1e-12 {
			t.Errorf("%s\ndiffers by %g from one rank", p, d)
		}
	}
}

// TestDotGeneralUsedMemory runs a chain whose later products are written to
// memory that earlier ones have used.
func TestDotGeneralUsedMemory(t *testing.T) {
	for _, d := range []string{"i32", "f32", "bf16"} {
		src := "program p(x D[3,3]) {\n"
		for i := range 6 {
			src += fmt.Sprintf(" y%d = dot_general(%s, x) lhs_contract=[1] rhs_contract=[0]\n", i+1, map[bool]string{true: "x", false: fmt.Sprintf("y%d", i)}[i == 0])
		}
		p, err := gomoe.Parse("chain", strings.ReplaceAll(src+" return y6\n}", "D", d))
		require.NoError(t, err)
		out, err := gomoe.Run(context.Background(), p, gomoe.Config{}, map[string]array.Array{"x": of(p.In[0].Type, []float64{0, 1, 0, 0, 0, 1, -1, 0, 0})})
		require.NoError(t, err)
		if got := fmt.Sprint(out[0].Float64s()); got != "[0 -1 0 0 0 -1 1 0 0]" && got != "[0 1 0 0 0 1 -1 0 0]" {
			t.Errorf("%s: the seventh power of a signed rotation is %s", d, got)
		}
	}
}

// TestRaggedRows multiplies rows in expert order by a shared weight on a mesh
// that splits the experts: the rows are as on one rank, the weight's gradient
// is summed over them, and reductions treat the unused rows as absent.
func TestRaggedRows(t *testing.T) {
	ctx := context.Background()
	p, err := gomoe.Parse("ragged", `program p(idx i32[8,2], x f64[8,4], w f64[4,6]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=4 align=4
	rows = ep_dispatch(x, r) experts=4 align=4
	y = dot_general(rows, w) lhs_contract=[1] rhs_contract=[0]
	m = reduce_max(y) axes=[1]
	mb = broadcast_in_dim(m) shape=[28,6] dims=[0]
	c = cumsum(mb) axis=1
	z = ep_combine(c, r) experts=4 align=4
	s = reduce_sum(y) axes=[0]
	g = dot_general(rows, y) lhs_contract=[0] rhs_contract=[0]
	return z, s, g
}`)
	require.NoError(t, err)
	pull, err := vjp.Pullback(p)
	require.NoError(t, err)
	in := row{in: gens{"idx": ints(-1, 4)}}.inputs(pull, 3)
	mesh, err := sharding.ParseMesh("ep=2")
	require.NoError(t, err)
	for i, q := range []*graph.Program{p, pull} {
		args := map[string]array.Array{}
		for _, v := range q.In {
			args[v.Name] = in[v.Name]
		}
		cfg := gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"idx": sharding.Split("ep"), "x": sharding.Split("ep")}}
		one, err := gomoe.Run(ctx, q, gomoe.Config{}, args)
		require.NoError(t, err)
		many, err := gomoe.Run(ctx, q, cfg, args)
		require.NoError(t, err, "%s", q)
		for k := range one {
			if d, at := array.MaxDiff(one[k], many[k]); d > 1e-12 || i == 0 && k == 0 && d > 0 {
				t.Errorf("result %d of\n%s\ndiffers by %g at %d from one rank", k, q, d, at)
			}
		}
	}
	for _, eqn := range []string{"m = reduce_max(rows) axes=[0]", "m = reduce_prod(rows) axes=[0]", "m = argmax(rows)", "m = cumsum(rows)", "m, i = sort(rows)"} {
		p, err := gomoe.Parse("ragged", "program p(idx i32[8,2], x f64[8,4]) {\n r, drop, n, pad, demand = ep_prepare(idx) experts=4\n rows = ep_dispatch(x, r) experts=4\n "+eqn+"\n return m\n}")
		require.NoError(t, err)
		_, err = gomoe.Compile(t.Context(), p, gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"idx": sharding.Split("ep"), "x": sharding.Split("ep")}})
		require.ErrorContains(t, err, "is in expert order and its number of rows is known only to the run", eqn)
	}
}
