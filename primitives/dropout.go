package primitives

import "github.com/gomoe/gomoe/graph"

// RandomBernoulli returns bools of the shape that are true with probability p, from 0
// to 1: jax.random.bernoulli(key, p, shape) with p an f32.
func RandomBernoulli(key *graph.Value, p float64, shape ...int) *graph.Value {
	graph.Helper()
	if !(p >= 0 && p <= 1) {
		graph.Fail("bernoulli: probability %g, want 0 to 1", p)
	}
	u := RandomUniform(key, graph.F32, 0, 1, shape...)
	return Lt(u, FullLike(u, p))
}

// Dropout returns x with each element set to 0 with probability rate, from 0 to
// below 1, and divided by 1-rate otherwise, so that its expectation stays the same.
// The same elements are dropped on every mesh. x must not be in expert order: call
// Dropout before Dispatch or after Combine. Source: Srivastava and others, "Dropout"
// (2014).
func Dropout(x, key *graph.Value, rate float64) *graph.Value {
	graph.Helper()
	if !(rate >= 0 && rate < 1) {
		graph.Fail("dropout: rate %g, want 0 to below 1", rate)
	}
	if rate == 0 {
		return x
	}
	keep := RandomBernoulli(key, 1-rate, x.Type.Shape...)
	return Where(keep, Div(x, FullLike(x, 1-rate)), ZerosLike(x))
}
