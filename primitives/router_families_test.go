package primitives_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// family is how a model family routes: plain steps on one token's logits and
// selection bias, which share no code with the router.
type family struct {
	name   string
	router primitives.RouteOp
	bias   bool
	route  func(logits, bias []float64) (ids []int, weights []float64)
}

func families() []family {
	return []family{
		{"olmoe: softmax, top-8, as they are", primitives.RouteOp{TopK: 8}, false, func(x, _ []float64) ([]int, []float64) {
			s := softmax(x)
			ids := best(s, 8)
			return ids, pick(s, ids)
		}},
		{"qwen3: softmax, top-8, renormalised", primitives.RouteOp{TopK: 8, Renormalize: true}, false, func(x, _ []float64) ([]int, []float64) {
			s := softmax(x)
			ids := best(s, 8)
			return ids, over(pick(s, ids), 0)
		}},
		{"mixtral: softmax over the two best logits", primitives.RouteOp{TopK: 2, Score: primitives.TopKSoftmaxScore}, false, func(x, _ []float64) ([]int, []float64) {
			ids := best(x, 2)
			return ids, softmax(pick(x, ids))
		}},
		{"deepseek v2: the best groups by their best expert, scaled", primitives.RouteOp{TopK: 6, Groups: 8, TopGroups: 3, GroupScore: "max", Scale: 16}, false, func(x, _ []float64) ([]int, []float64) {
			s := softmax(x)
			groups := make([]float64, 8)
			for g := range groups {
				groups[g] = slices.Max(s[g*4 : g*4+4])
			}
			ids := best(within(s, best(groups, 3), 4), 6)
			return ids, times(pick(s, ids), 16)
		}},
		{"deepseek v3: sigmoid, bias for choosing, groups by their two best", primitives.RouteOp{TopK: 8, Score: primitives.SigmoidScore, Groups: 8, TopGroups: 4, Renormalize: true, Epsilon: 1e-20, Scale: 2.5}, true, func(x, b []float64) ([]int, []float64) {
			s := each(x, func(v float64) float64 { return 1 / (1 + math.Exp(-v)) })
			c := plus(s, b)
			groups := make([]float64, 8)
			for g := range groups {
				two := slices.Sorted(slices.Values(c[g*4 : g*4+4]))
				groups[g] = two[2] + two[3]
			}
			ids := best(within(c, best(groups, 4), 4), 8)
			return ids, times(over(pick(s, ids), 1e-20), 2.5)
		}},
		{"deepseek v4: root of softplus, bias for choosing", primitives.RouteOp{TopK: 6, Score: primitives.SqrtSoftplusScore, Renormalize: true, Scale: 1.5}, true, func(x, b []float64) ([]int, []float64) {
			s := each(x, func(v float64) float64 { return math.Sqrt(math.Log(1 + math.Exp(v))) })
			ids := best(plus(s, b), 6)
			return ids, times(over(pick(s, ids), 0), 1.5)
		}},
		{"llama 4: the best expert by sigmoid", primitives.RouteOp{TopK: 1, Score: primitives.SigmoidScore}, false, func(x, _ []float64) ([]int, []float64) {
			s := each(x, func(v float64) float64 { return 1 / (1 + math.Exp(-v)) })
			ids := best(s, 1)
			return ids, pick(s, ids)
		}},
	}
}

// best returns the indices of the n largest. Of equal values, the lowest index is first.
func best(x []float64, n int) []int {
	ids := make([]int, len(x))
	for i := range ids {
		ids[i] = i
	}
	slices.SortStableFunc(ids, func(i, j int) int { return cmp.Compare(x[j], x[i]) })
	return ids[:n]
}

// within returns x with the values outside of the groups replaced by -Inf.
func within(x []float64, groups []int, size int) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v
		if !slices.Contains(groups, i/size) {
			out[i] = math.Inf(-1)
		}
	}
	return out
}

func each(x []float64, f func(float64) float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = f(v)
	}
	return out
}

func softmax(x []float64) []float64 {
	return over(each(x, math.Exp), 0)
}

func over(x []float64, eps float64) []float64 {
	sum := eps
	for _, v := range x {
		sum += v
	}
	return times(x, 1/sum)
}

func times(x []float64, c float64) []float64 {
	return each(x, func(v float64) float64 { return v * c })
}

func plus(x, y []float64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = x[i] + y[i]
	}
	return out
}

func pick(x []float64, ids []int) []float64 {
	out := make([]float64, len(ids))
	for i, id := range ids {
		out[i] = x[id]
	}
	return out
}

const routedTokens, routedExperts = 64, 32

func route(t *testing.T, r primitives.RouteOp, logits, bias array.Array, withBias bool) (weights, ids, scores array.Array) {
	p, err := graph.Trace("route", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("logits", logits.Type.DType, logits.Type.Shape...)
		var b *graph.Value
		if withBias {
			b = t.Input("bias", bias.Type.DType, bias.Type.Shape...)
		}
		w, i, s := primitives.Route(r, x, b)
		return []*graph.Value{w, i, s}
	})
	require.NoError(t, err)
	in := map[string]array.Array{"logits": logits}
	if withBias {
		in["bias"] = bias
	}
	out, err := gomoe.Run(context.Background(), p, gomoe.Config{}, in)
	require.NoError(t, err)
	return out[0], out[1], out[2]
}

// TestRouterFamilies compares the router with every family's own rule.
func TestRouterFamilies(t *testing.T) {
	for _, f := range families() {
		t.Run(f.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 6))
			logits, bias := array.New(graph.T(graph.F32, routedTokens, routedExperts)), array.New(graph.T(graph.F32, routedExperts))
			for i := range array.Data[float32](logits) {
				array.Data[float32](logits)[i] = float32(2 * rng.NormFloat64())
			}
			for i := range array.Data[float32](bias) {
				array.Data[float32](bias)[i] = float32(0.3 * rng.NormFloat64())
			}
			weights, ids, _ := route(t, f.router, logits, bias, f.bias)
			k := f.router.TopK
			for tok := range routedTokens {
				wantIDs, wantW := f.route(logits.Float64s()[tok*routedExperts:(tok+1)*routedExperts], bias.Float64s())
				for j := range k {
					id, w := int(array.Data[int32](ids)[tok*k+j]), float64(array.Data[float32](weights)[tok*k+j])
					if id != wantIDs[j] || math.Abs(w-wantW[j]) > 1e-6*max(1, wantW[j]) {
						t.Fatalf("token %d choice %d: expert %d with %v, want %d with %v", tok, j, id, w, wantIDs[j], wantW[j])
					}
				}
			}
		})
	}
}

// TestRouterMixtral: renormalised softmax weights of the two best are the
// softmax over their logits.
func TestRouterMixtral(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	logits := distinct(rng, graph.T(graph.F64, 16, 8))
	a, ia, _ := route(t, primitives.RouteOp{TopK: 2, Renormalize: true}, logits, array.Array{}, false)
	b, ib, _ := route(t, primitives.RouteOp{TopK: 2, Score: primitives.TopKSoftmaxScore}, logits, array.Array{}, false)
	if !array.Equal(ia, ib) {
		t.Errorf("choices differ: %v and %v", ia, ib)
	}
	if d, at := array.MaxDiff(a, b); d > 1e-14 {
		t.Errorf("weights differ by %g at %d", d, at)
	}
}

// TestRouterTies: of equal values the lower id wins, also among groups, and an
// expert of another group is not chosen even if all values inside are negative.
func TestRouterTies(t *testing.T) {
	equal := array.New(graph.T(graph.F32, 1, 8))
	_, ids, _ := route(t, primitives.RouteOp{TopK: 3}, equal, array.Array{}, false)
	if got := fmt.Sprint(array.Data[int32](ids)); got != "[0 1 2]" {
		t.Errorf("all logits equal: chose %s, want [0 1 2]", got)
	}
	_, ids, _ = route(t, primitives.RouteOp{TopK: 4, Groups: 4, TopGroups: 2}, equal, array.Array{}, false)
	if got := fmt.Sprint(array.Data[int32](ids)); got != "[0 1 2 3]" {
		t.Errorf("all groups equal: chose %s, want [0 1 2 3]", got)
	}
	bias := array.New(graph.T(graph.F32, 8))
	bias.Fill(-5)
	_, ids, _ = route(t, primitives.RouteOp{TopK: 4, Score: primitives.SigmoidScore, Groups: 4, TopGroups: 2}, equal, bias, true)
	if got := fmt.Sprint(array.Data[int32](ids)); got != "[0 1 2 3]" {
		t.Errorf("negative selection values: chose %s, want [0 1 2 3]", got)
	}
	inf := array.New(graph.T(graph.F32, 1, 4))
	inf.Fill(math.Inf(-1))
	array.Data[float32](inf)[2] = 0
	w, ids, _ := route(t, primitives.RouteOp{TopK: 2}, inf, array.Array{}, false)
	if got := fmt.Sprint(array.Data[int32](ids), array.Data[float32](w)); got != "[2 0] [1 0]" {
		t.Errorf("one finite logit: %s, want [2 0] [1 0]", got)
	}
}

// Scores that are all 0 for their type, as sigmoids of logits far below 0 are, have finite weights and derivatives: those
// of the logarithms of the scores, also chosen by a bias and in groups.
func TestRouterOfScoresThatAreZero(t *testing.T) {
	for _, d := range []graph.DType{graph.F32, graph.F64} {
		for _, r := range []primitives.RouteOp{
			{Score: primitives.SigmoidScore}, {Score: primitives.SqrtSoftplusScore}, {Score: primitives.SigmoidScore, Epsilon: 1e-20},
			{Score: primitives.SqrtSoftplusScore, Epsilon: 1e-20}, {Score: primitives.SigmoidScore, Groups: 2, TopGroups: 1, Scale: 2.5},
		} {
			r.TopK, r.Renormalize = 2, true
			p, err := graph.Trace("route", func(tr *graph.Tracer) []*graph.Value {
				x, b := tr.Input("x", d, 3, 4), tr.Input("b", d, 4)
				w, _, s := primitives.Route(r, x, b)
				loss := primitives.ReduceSum(primitives.Mul(w, primitives.Iota(tr, w.Type.DType, 1, w.Type.Shape...)))
				return append([]*graph.Value{w, s}, vjp.Gradients(loss, x)...)
			})
			require.NoError(t, err)
			x, b := array.New(p.In[0].Type), array.New(p.In[1].Type)
			require.NoError(t, x.SetFloat64s([]float64{-100, -100, -100, -100, -2000, -2000, -2000, -2000, -3e38, -3e38, -3e38, -3e38}))
			require.NoError(t, b.SetFloat64s([]float64{0, 0.5, 0, 0.25}))
			out, err := gomoe.Run(t.Context(), p, gomoe.Config{}, map[string]array.Array{"x": x, "b": b})
			require.NoError(t, err)
			for i, a := range out {
				for _, v := range a.Float64s() {
					require.False(t, math.IsNaN(v) || math.IsInf(v, 0), "%v: result %d of %s: %v", r, i, d, a)
				}
			}
			if r.Epsilon > 0 {
				continue
			}
			f := 1.0
			if r.Scale != 0 {
				f = r.Scale
			}
			require.InDeltaSlice(t, []float64{f / 2, f / 2, f / 2, f / 2, f / 2, f / 2}, out[0].Float64s(), 1e-6, "%v", r)
		}
	}
}

// TestRouterPrecision: logits in bf16 give weights and scores in f32, computed
// from the logits as they are.
func TestRouterPrecision(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	low := distinct(rng, graph.T(graph.F64, 8, 16)).As(graph.BF16)
	w, ids, s := route(t, primitives.RouteOp{TopK: 4, Renormalize: true}, low, array.Array{}, false)
	w32, ids32, s32 := route(t, primitives.RouteOp{TopK: 4, Renormalize: true}, low.As(graph.F32), array.Array{}, false)
	if w.Type.DType != graph.F32 || !array.Equal(w, w32) || !array.Equal(ids, ids32) || !array.Equal(s, s32) {
		t.Errorf("bf16 logits: weights %v, want those of the same logits in f32 %v", w, w32)
	}
}

// TestRouterNaN: a NaN logit is refused with its token of the global batch, on
// any mesh.
func TestRouterNaN(t *testing.T) {
	p, err := gomoe.Parse("nan.graph", "program p(x f32[8,4]) {\n w, i, s = router(x) top_k=2\n return w\n}")
	require.NoError(t, err)
	x := array.New(graph.T(graph.F32, 8, 4))
	array.Data[float32](x)[6*4+1] = float32(math.NaN())
	for _, mesh := range []string{"", "ep=4"} {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		cfg := gomoe.Config{Mesh: m}
		if mesh != "" {
			cfg.Place = map[string]sharding.Spec{"x": sharding.Split("ep")}
		}
		_, err = gomoe.Run(context.Background(), p, cfg, map[string]array.Array{"x": x})
		if err == nil || !strings.Contains(err.Error(), "nan.graph:2") || !strings.Contains(err.Error(), "token 6 for expert 1 is NaN") {
			t.Errorf("mesh %q: %v, want an error that names nan.graph:2, token 6 and expert 1", mesh, err)
		}
	}
}

// TestBalanceLosses: the load-balancing loss is 1 for even routing and E/K when
// every token goes to the same K experts with certainty; the z-loss is the mean
// square of logsumexp; both have right derivatives.
func TestBalanceLosses(t *testing.T) {
	const tokens, experts, k = 8, 4, 2
	ctx := context.Background()
	p, err := graph.Trace("balance", func(t *graph.Tracer) []*graph.Value {
		s := t.Input("scores", graph.F64, tokens, experts)
		return []*graph.Value{primitives.LoadBalanceLoss(s, t.Input("demand", graph.I32, experts), k)}
	})
	require.NoError(t, err)
	even := array.New(graph.T(graph.F64, tokens, experts))
	even.Fill(1.0 / experts)
	one := array.New(graph.T(graph.F64, tokens, experts))
	for i := range tokens {
		array.Data[float64](one)[i*experts] = 0.5
		array.Data[float64](one)[i*experts+1] = 0.5
	}
	for _, c := range []struct {
		scores array.Array
		demand []int32
		want   float64
	}{
		{even, []int32{4, 4, 4, 4}, 1},
		{even, []int32{16, 0, 0, 0}, 1}, // even scores cost the same whatever was chosen
		{one, []int32{8, 8, 0, 0}, experts / k},
	} {
		demand, err := array.Of(c.demand, experts)
		require.NoError(t, err)
		out, err := gomoe.Run(ctx, p, gomoe.Config{}, map[string]array.Array{"scores": c.scores, "demand": demand})
		require.NoError(t, err)
		if got := out[0].Float64s()[0]; math.Abs(got-c.want) > 1e-15 {
			t.Errorf("demand %v: loss %v, want %v", c.demand, got, c.want)
		}
	}
	q, err := graph.Trace("both", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", graph.F64, tokens, experts)
		_, ids, scores := primitives.Route(primitives.RouteOp{TopK: k}, x, nil)
		r := primitives.Prepare(primitives.PrepareOp{Experts: experts}, ids)
		return []*graph.Value{primitives.LoadBalanceLoss(scores, r.Demand, k), primitives.RouterZLoss(x)}
	})
	require.NoError(t, err)
	x := distinct(rand.New(rand.NewPCG(2, 2)), graph.T(graph.F64, tokens, experts))
	rep, err := vjp.Check(ctx, q, map[string]array.Array{"x": x}, runner, vjp.CheckOptions{})
	require.NoError(t, err)
	if !rep.OK() {
		t.Errorf("derivative of the losses:\n%s", rep)
	}
	out, err := gomoe.Run(ctx, q, gomoe.Config{}, map[string]array.Array{"x": x})
	require.NoError(t, err)
	z := 0.0
	for i := range tokens {
		l := 0.0
		for _, v := range x.Float64s()[i*experts : (i+1)*experts] {
			l += math.Exp(v)
		}
		z += math.Log(l) * math.Log(l) / tokens
	}
	if got := out[1].Float64s()[0]; math.Abs(got-z) > 1e-14 {
		t.Errorf("z-loss %v, want %v", got, z)
	}
}

// The weights of chosen scores that are 0 or subnormal, as the bias chose them, are those of their logarithms, and so are the
// derivatives: PyTorch in f64 has 0/0 there. A row has the logits of the four experts, of which the bias chooses the last two.
func TestRouterOfScoresThatAreSubnormal(t *testing.T) {
	for _, d := range []graph.DType{graph.F32, graph.F64} {
		for _, score := range []string{"", primitives.SigmoidScore, primitives.SqrtSoftplusScore, primitives.TopKSoftmaxScore} {
			for _, epsilon := range []float64{0, 1e-20, 1e-30} {
				r := primitives.RouteOp{TopK: 2, Renormalize: true, Score: score, Epsilon: epsilon}
				p, err := graph.Trace("route", func(tr *graph.Tracer) []*graph.Value {
					x, b := tr.Input("x", d, 5, 4), tr.Input("b", d, 4)
					if score == primitives.TopKSoftmaxScore { // chooses by logits
						x, b = primitives.Reverse(x, 1), primitives.ZerosLike(b)
					}
					w, _, s := primitives.Route(r, x, b)
					loss := primitives.ReduceSum(primitives.Mul(w, primitives.Iota(tr, w.Type.DType, 1, w.Type.Shape...)))
					return append([]*graph.Value{w, s}, vjp.Gradients(loss, tr.Inside(x))...)
				})
				require.NoError(t, err)
				x, b := array.New(p.In[0].Type), array.New(p.In[1].Type)
				low := []float64{-90, -101, -500, -741, -1400} // of scores that are normal, subnormal and 0 in f32 and in f64
				var logits []float64
				for _, v := range low {
					logits = append(logits, 0, 0, v, v-1)
				}
				require.NoError(t, x.SetFloat64s(logits))
				require.NoError(t, b.SetFloat64s([]float64{0, 0, 9, 8}))
				out, err := gomoe.Run(t.Context(), p, gomoe.Config{}, map[string]array.Array{"x": x, "b": b})
				require.NoError(t, err)
				for i, a := range out {
					for _, v := range a.Float64s() {
						require.False(t, math.IsNaN(v) || math.IsInf(v, 0), "%v: result %d of %s: %v", r, i, d, a)
					}
				}
				if epsilon > 0 || score == primitives.TopKSoftmaxScore {
					continue
				}
				slope := 1.0 // of the logarithm of a score
				if score == primitives.SqrtSoftplusScore {
					slope = 0.5
				}
				first := 1 / (1 + math.Exp(-slope))
				for i := range low {
					w, g := out[0].Float64s()[2*i:][:2], out[2].Float64s()[4*i:][:4]
					require.InDeltaSlice(t, []float64{first, 1 - first}, w, 1e-6, "%v of %s, row %d", r, d, i)
					up := slope * first * (1 - first)
					require.InDeltaSlice(t, []float64{0, 0, -up, up}, g, 1e-6, "%v of %s, row %d", r, d, i)
				}
			}
		}
	}
}
