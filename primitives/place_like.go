package primitives

import "github.com/gomoe/gomoe/graph"

// PlaceLike returns x, placed as like, which has the same shape. Only the placement of like
// is used, not its elements. A gradient that goes to where the optimizer's moments lie is the
// usual case: where these are split over the ranks that hold the weight, its pending sum is
// added up by reduce_scatter, and each rank gets its part.
func PlaceLike(x, like *graph.Value) *graph.Value { return graph.Apply1(graph.PlaceLikeOp{}, x, like) }
