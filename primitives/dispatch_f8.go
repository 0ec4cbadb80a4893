package primitives

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/vjp"
)

// wireBlock is the number of elements of a row sharing a scale, if the row is sent in 8 bits,
// as in DeepSeek-V3.
const wireBlock = 128

// DispatchF8 is Dispatch sending rows as 8-bit floats of type d and their scales, H + H/32
// bytes for H elements. It quantises tokens [..,H] in blocks of 128, dispatches codes and
// scales, and dequantises received rows to the tokens' type. H must be a multiple of 128.
// QuantizeF8 states the errors. Cotangents pass straight through, unrounded, and return in
// the tokens' type.
func DispatchF8(r Prepared, tokens *graph.Value, d graph.DType) *graph.Value {
	graph.Helper()
	p := r.Op.dispatch()
	return vjp.Custom("dispatch_f8", func(_ *graph.Tracer, x []*graph.Value) []*graph.Value {
		return []*graph.Value{p.inF8(x[0], x[1], d)}
	}, func(_ *graph.Tracer, x, _, ct []*graph.Value) []*graph.Value {
		return []*graph.Value{graph.Apply1(p.transpose(), ct[0], x[1]), nil}
	}, r.batch(tokens), r.Value)[0]
}

// CombineF8 is Combine sending cotangents in 8 bits, as DispatchF8 sends rows: the derivative
// quantises the cotangents of tokens to type d, and dequantises them on the experts' ranks.
// f8_e5m2 suits cotangents of very different sizes. The result is Combine's, unchanged.
func CombineF8(r Prepared, rows *graph.Value, d graph.DType) *graph.Value {
	graph.Helper()
	p := r.Op.dispatch()
	out := vjp.Custom("combine_f8", func(_ *graph.Tracer, x []*graph.Value) []*graph.Value {
		return []*graph.Value{graph.Apply1(CombineOp(p), x...)}
	}, func(_ *graph.Tracer, x, y, ct []*graph.Value) []*graph.Value {
		return []*graph.Value{p.inF8(graph.Apply1(graph.PlaceLikeOp{}, ct[0], y[0]), x[1], d), nil}
	}, rows, r.Value)[0]
	return unflatten(out, r.chosen)
}

// inF8 dispatches tokens in 8 bits.
func (p DispatchOp) inF8(tokens, routing *graph.Value, d graph.DType) *graph.Value {
	graph.Helper()
	codes, scales := QuantizeF8(tokens, d, wireBlock)
	return DequantizeF8(graph.Apply1(p, codes, routing), graph.Apply1(p, scales, routing), tokens.Type.DType)
}
