package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// routers are those of the families of models, and what else there is.
var routers = map[string]primitives.RouteOp{
	"softmax":                   {TopK: 4},
	"renormalised":              {TopK: 2, Renormalize: true},
	"all":                       {TopK: 12},
	"topk_softmax":              {TopK: 3, Score: primitives.TopKSoftmaxScore},
	"sigmoid":                   {TopK: 4, Score: primitives.SigmoidScore, Renormalize: true, Epsilon: 1e-20, Scale: 2.5},
	"groups":                    {TopK: 4, Score: primitives.SigmoidScore, Groups: 4, TopGroups: 2, Renormalize: true},
	"best groups":               {TopK: 3, Groups: 3, TopGroups: 1, GroupScore: "max", Scale: 16},
	"single groups":             {TopK: 3, Groups: 12, TopGroups: 5},
	"sqrt_softplus":             {TopK: 4, Score: primitives.SqrtSoftplusScore, Renormalize: true, Scale: 1.5},
	"renormalised topk_softmax": {TopK: 3, Score: primitives.TopKSoftmaxScore, Renormalize: true, Scale: 3},
}

// routerProgram routes logits [tokens, experts], with a bias unless its type is U8.
func routerProgram(t *testing.T, r primitives.RouteOp, d, bias graph.DType, tokens, experts int) *graph.Program {
	p, err := graph.Trace("route", func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", d, tokens, experts)
		var b *graph.Value
		if bias.IsFloat() {
			b = tr.Input("bias", bias, experts)
		}
		w, e, s := primitives.Route(r, x, b)
		return []*graph.Value{w, e, s}
	})
	require.NoError(t, err)
	return p
}

// shuffled are the numbers of a range in an order of each row's own, a step of 1/8 apart and
// a little less or more: no two are near, also in 16 bits.
func shuffled(r *rand.Rand, t graph.Type) array.Array {
	n := t.Shape[t.Rank()-1]
	x := make([]float64, t.Len())
	for row := 0; row < len(x); row += max(n, 1) {
		for i, p := range r.Perm(n) {
			x[row+i] = (float64(p) - float64(n)/2) / 8
		}
	}
	a := array.New(t)
	if err := a.SetFloat64s(x); err != nil {
		panic(err)
	}
	return a
}

// Scores that are all 0 for their type have the weights of the host kernel.
func TestRouterOfScoresThatAreZero(t *testing.T) {
	for _, score := range []string{primitives.SigmoidScore, primitives.SqrtSoftplusScore} {
		for _, epsilon := range []float64{0, 1e-20} {
			for _, r := range []primitives.RouteOp{{}, {Groups: 2, TopGroups: 1}} {
				r.TopK, r.Score, r.Epsilon, r.Renormalize = 2, score, epsilon, true
				p := routerProgram(t, r, graph.F32, graph.F32, 2, 4)
				x, bias := array.New(p.In[0].Type), array.New(p.In[1].Type)
				require.NoError(t, x.SetFloat64s([]float64{-2000, -2000, -2000, -2000, -3e38, -3e38, -3e38, -3e38}))
				in := map[string]array.Array{"x": x, "bias": bias}
				t.Run(fmt.Sprint(r), func(t *testing.T) { compare(t, p, gomoe.Config{}, in, "router") })
			}
		}
	}
}

// Every family of routers chooses the experts of the host kernel, and weights them as it
// does, for every element type and on meshes.
func TestRouter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, route := range routers {
		for _, d := range []graph.DType{graph.F32, graph.BF16, graph.F16} {
			for _, bias := range []graph.DType{graph.U8, graph.F32, graph.BF16, graph.F16} {
				if bias != graph.U8 && bias != d && d != graph.F32 {
					continue
				}
				p := routerProgram(t, route, d, bias, 12, 12)
				in := map[string]array.Array{"x": shuffled(r, p.In[0].Type)}
				if bias != graph.U8 {
					in["bias"] = shuffled(r, p.In[1].Type)
				}
				for _, mesh := range []string{"", "dp=2,ep=2"} {
					if mesh != "" && bias != graph.F32 {
						continue
					}
					t.Run(fmt.Sprint(name, " ", d, " bias ", bias, " mesh ", mesh), func(t *testing.T) {
						compare(t, p, tokensOn(t, mesh, "x"), in, "router")
					})
				}
			}
		}
	}
}

// One token and many, fewer experts than lanes and many more, powers of two and not.
func TestRouterSizes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, s := range [][3]int{{1, 1, 1}, {1, 512, 8}, {31, 33, 33}, {33, 31, 6}, {100, 64, 8}, {5, 1000, 40}, {2, 1700, 3}} {
		for _, score := range []string{"", primitives.SigmoidScore, primitives.SqrtSoftplusScore, primitives.TopKSoftmaxScore} {
			p := routerProgram(t, primitives.RouteOp{TopK: s[2], Score: score, Renormalize: true, Epsilon: 1e-12}, graph.F32, graph.U8, s[0], s[1])
			x := shuffled(r, p.In[0].Type)
			if s[1] > 512 { // scores of numbers so far apart would be 0, or 1
				x = array.New(p.In[0].Type)
				require.NoError(t, x.SetFloat64s(scaled(shuffled(r, p.In[0].Type).Float64s(), 1./16)))
			}
			t.Run(fmt.Sprint(s, score), func(t *testing.T) {
				compare(t, p, gomoe.Config{}, map[string]array.Array{"x": x}, "router")
			})
		}
	}
}

func scaled(x []float64, by float64) []float64 {
	for i := range x {
		x[i] *= by
	}
	return x
}

// Scores of any numbers are as near as the kernel says, from the least to the largest.
func TestRouterScores(t *testing.T) {
	for _, score := range []string{"", primitives.SigmoidScore, primitives.SqrtSoftplusScore, primitives.TopKSoftmaxScore} {
		p := routerProgram(t, primitives.RouteOp{TopK: 5, Score: score}, graph.F32, graph.U8, 20, 50)
		x := randomFloats(rand.New(rand.NewPCG(1, 2)), p.In[0].Type)
		values := scaled(x.Float64s(), 0.1)
		for i := range values {
			values[i] *= float64(1 + i/50*i/50/2) // from a tenth to some 18 in size
			if score == "" || score == primitives.TopKSoftmaxScore {
				values[i] = values[i]*1.5 + float64(i/50%3-1)*200 // which alone has no power in f32
			}
			if score == primitives.SigmoidScore {
				values[i] = min(values[i], 5+float64(i%50)/16) // not so near to 1 that they are the same
			}
		}
		require.NoError(t, x.SetFloat64s(values))
		t.Run(score, func(t *testing.T) {
			compare(t, p, gomoe.Config{}, map[string]array.Array{"x": x}, "router")
		})
	}
}

// Of equal scores the lower expert wins, wherever the equals are; infinities, and biases
// that are NaN, lead where comparisons lead on the host.
func TestRouterTies(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	zeros, up := make([]float64, 12), []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	for _, c := range []struct {
		name   string
		bias   []float64
		logits [][]float64
	}{
		{"no bias", zeros, [][]float64{
			zeros,
			{1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2},
			{0, math.Copysign(0, -1), 0, 0, math.Copysign(0, -1), 0, -1, 0, 0, 0, 0, 0},
			{-inf, 1, -inf, 2, -inf, -inf, -inf, 3, -inf, -inf, -inf, -inf},
			{1, 2, 3, inf, 5, 6, 7, 8, 9, 10, 11, 12},
		}},
		{"evened by bias", []float64{0, 1, 0, 1, 0, 1, 1, 1, 0, 0, 0, 0}, [][]float64{zeros, up}},
		{"minus infinity", []float64{-inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf}, [][]float64{zeros, up}},
		{"all but one", []float64{-inf, -inf, 0, -inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf}, [][]float64{zeros, up}},
		{"both infinities", []float64{inf, -inf, 0, -inf, inf, -inf, -inf, -inf, -inf, -inf, -inf, inf}, [][]float64{zeros, up}},
		{"NaN", []float64{0, nan, 0, 0, 0, 0, 0, 0, 0, nan, 0, 0}, [][]float64{zeros, up}},
		{"late NaN", []float64{nan, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, nan}, [][]float64{{12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, up}},
		{"nothing but NaN", []float64{nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan}, [][]float64{up}},
	} {
		for routing, r := range routers {
			p := routerProgram(t, r, graph.F32, graph.F32, len(c.logits), 12)
			x, bias := array.New(p.In[0].Type), array.New(p.In[1].Type)
			require.NoError(t, x.SetFloat64s(slices.Concat(c.logits...)))
			require.NoError(t, bias.SetFloat64s(c.bias))
			t.Run(c.name+"/"+routing, func(t *testing.T) {
				compare(t, p, gomoe.Config{}, map[string]array.Array{"x": x, "bias": bias}, "router")
			})
		}
	}
}

// top_k is exact for every element type, with ties, both zeros and NaNs.
func TestTopK(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	odd := []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 1, -1, 1}
	for _, d := range []graph.DType{graph.F32, graph.BF16, graph.F16} {
		for _, s := range [][3]int{{1, 1, 1}, {31, 33, 5}, {3, 100, 64}, {100, 8, 8}, {2, 3000, 4}, {4, 5, 0}} {
			p, err := graph.Trace("top", func(tr *graph.Tracer) []*graph.Value {
				v, i := primitives.TopK(tr.Input("x", d, s[0], s[1]), s[2])
				return []*graph.Value{v, i}
			})
			require.NoError(t, err)
			values := randomFloats(r, p.In[0].Type).Float64s()
			for i := range values {
				if i%3 == 0 {
					values[i] = odd[r.IntN(len(odd))]
				}
			}
			x := array.New(p.In[0].Type)
			require.NoError(t, x.SetFloat64s(values))
			t.Run(fmt.Sprint(d, s), func(t *testing.T) {
				compare(t, p, gomoe.Config{}, map[string]array.Array{"x": x}, "top_k")
			})
		}
	}
}
