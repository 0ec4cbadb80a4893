package primitives

import "github.com/gomoe/gomoe/graph"

// LoadBalanceLoss returns the scalar
//
//	E / (K·T²) · Σ_t Σ_e scores[t,e] · demand[e]
//
// for scores f[T,E] and demand i32[E], the number of pairs that chose each expert
// before drops. It is 1 when scores or choices are even, and up to E/K when all go
// to the same experts. Its gradient reaches the router only through the scores. (Fedus,
// Zoph, Shazeer: Switch Transformers, 2021, equation 4, for K choices.)
func LoadBalanceLoss(scores, demand *graph.Value, choices int) *graph.Value {
	graph.Helper()
	s := flatten(scores)
	tokens, experts := float64(s.Dim(0)), float64(s.Dim(1))
	if tokens == 0 {
		return Full(s.Tracer(), 0, s.Type.DType)
	}
	load := ConvertElementType(demand, s.Type.DType)
	return MulScalar(ReduceSum(Mul(s, BroadcastInDim(load, s.Type.Shape, 1))), experts/(float64(choices)*tokens*tokens))
}

// RouterZLoss returns the mean over tokens of logsumexp(logits)², a scalar, for
// logits [..,E]. It is computed in f32 or f64. It keeps logits small. (Zoph et al.: ST-MoE,
// 2022, equation 5.)
func RouterZLoss(logits *graph.Value) *graph.Value {
	graph.Helper()
	x := flatten(logits)
	if x.Type.DType != graph.F64 && x.Type.DType != graph.F32 {
		x = ConvertElementType(x, graph.F32)
	}
	tokens := float64(max(x.Dim(0), 1))
	return MulScalar(ReduceSum(Square(LogSumExp(x, 1))), 1/tokens)
}
