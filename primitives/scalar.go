package primitives

import "github.com/gomoe/gomoe/graph"

// MulScalar returns c · x, c rounded to x's element type.
func MulScalar(x *graph.Value, c float64) *graph.Value {
	graph.Helper()
	return Mul(x, FullLike(x, c))
}

// AddScalar returns x + c, c rounded to x's element type.
func AddScalar(x *graph.Value, c float64) *graph.Value {
	graph.Helper()
	return Add(x, FullLike(x, c))
}
