package primitives_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// routerGrad returns the weights of one token's experts, and the derivative of Σ (k+1)·weight k
// with respect to its logits.
func routerGrad(t *testing.T, r primitives.RouteOp, d graph.DType, logits []float64) (weights, grad []float64) {
	t.Helper()
	x := array.New(graph.T(graph.F64, 1, len(logits)))
	copy(array.Data[float64](x), logits)
	out := compute(t, func(in []*graph.Value) []*graph.Value {
		w, _, _ := primitives.Route(r, in[0], nil)
		rank := primitives.AddScalar(primitives.ConvertElementType(primitives.Iota(in[0].Tracer(), graph.I32, 1, 1, r.TopK), w.Type.DType), 1)
		return []*graph.Value{w, vjp.Gradients(primitives.ReduceSum(primitives.Mul(w, rank), 0, 1), in[0])[0]}
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
			r := primitives.RouteOp{TopK: 2, Score: primitives.SqrtSoftplusScore}
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
