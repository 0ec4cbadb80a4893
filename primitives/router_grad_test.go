package primitives_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	pr "github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// routerGrad returns the weights of one token's experts, and the derivative of Σ (k+1)·weight k
// with respect to its logits.
func routerGrad(t *testing.T, r pr.RouteOp, d graph.DType, logits []float64) (weights, grad []float64) {
	t.Helper()
	x := array.New(graph.T(graph.F64, 1, len(logits)))
	copy(array.Data[float64](x), logits)
	out := compute(t, func(in []*graph.Value) []*graph.Value {
		w, _, _ := pr.Route(r, in[0], nil)
		rank := pr.AddScalar(pr.ConvertElementType(pr.Iota(in[0].Tracer(), graph.I32, 1, 1, r.TopK), w.Type.DType), 1)
		return []*graph.Value{w, vjp.Gradients(pr.ReduceSum(pr.Mul(w, rank), 0, 1), in[0])[0]}
	}, x.As(d))
	return out[0].Float64s(), out[1].Float64s()
}

// The root of softplus has a derivative at every finite logit, also at 0 and where eˣ is 0.
func TestRootSoftplusGrad(t *testing.T) {
	slope := func(x float64) float64 {
		if x < -600 {
			return 0
		}
		return 0.5 / (1 + math.Exp(-x)) / math.Sqrt(math.Log1p(math.Exp(-math.Abs(x)))+max(x, 0))
	}
	for _, d := range []graph.DType{graph.F32, graph.F64} {
		for _, x := range [][]float64{{0, 0, 0}, {1e4, -1e4, 0}, {-200, -200, -200}, {1, 0, -1}, {-39, -40, -41}, {3e38, -3e38, 88}} {
			r := pr.RouteOp{TopK: 2, Score: pr.SqrtSoftplusScore}
			_, grad := routerGrad(t, r, d, x)
			want, ids := make([]float64, len(x)), best(x, 2)
			for k, id := range ids {
				want[id] = float64(k+1) * slope(x[id])
			}
			for i := range x {
				require.InDelta(t, want[i], grad[i], 4e-7*math.Abs(want[i])+1e-44, "%s, logits %v: gradient %v, want %v", d, x, grad, want)
			}
		}
	}
}

// Renormalised weights without an epsilon are a softmax over the logarithms of scores. So they
// and their derivatives are finite where all chosen scores are 0 in the type of the logits, or
// in float64.
func TestRenormalizedUnderflow(t *testing.T) {
	for _, d := range []graph.DType{graph.F32, graph.F64} {
		for score, slope := range map[string]float64{pr.SigmoidScore: 1, pr.SqrtSoftplusScore: 0.5} {
			for _, x := range [][]float64{{-200, -200, -200}, {-300, -301, -302}, {-5000, -5000, -5002}, {-1e30, -1e30, -1e30}} {
				r := pr.RouteOp{TopK: 2, Score: score, Renormalize: true, Scale: 3}
				weights, grad := routerGrad(t, r, d, x)
				ids := best(x, 2)
				w := softmax(times(plus(pick(x, ids), []float64{-x[ids[0]], -x[ids[0]]}), slope))
				want := make([]float64, len(x))
				want[ids[1]] = 3 * slope * w[0] * w[1]
				want[ids[0]] = -want[ids[1]]
				for k := range w {
					require.InDelta(t, 3*w[k], weights[k], 1e-6, "%s %s, logits %v: weights %v", score, d, x, weights)
				}
				for i := range x {
					require.InDelta(t, want[i], grad[i], 1e-6, "%s %s, logits %v: gradient %v, want %v", score, d, x, grad, want)
				}
			}
		}
	}
	// Of a softmax over all, the bias may choose experts whose scores are 0.
	x, bias := array.New(graph.T(graph.F32, 1, 4)), array.New(graph.T(graph.F32, 4))
	copy(array.Data[float32](x), []float32{0, -2000, -2000, 0})
	copy(array.Data[float32](bias), []float32{0, 5, 5, 0})
	out := compute(t, func(in []*graph.Value) []*graph.Value {
		w, _, _ := pr.Route(pr.RouteOp{TopK: 2, Renormalize: true}, in[0], in[1])
		rank := pr.AddScalar(pr.ConvertElementType(pr.Iota(in[0].Tracer(), graph.I32, 1, 1, 2), graph.F32), 1)
		return []*graph.Value{w, vjp.Gradients(pr.ReduceSum(pr.Mul(w, rank), 0, 1), in[0])[0]}
	}, x, bias)
	require.Equal(t, []float64{0.5, 0.5}, out[0].Float64s())
	require.Equal(t, []float64{0, -0.25, 0.25, 0}, out[1].Float64s())
}
