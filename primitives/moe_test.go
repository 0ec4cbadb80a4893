package primitives_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
)

// moeProgram is an MoE layer of linear experts with 4 experts, top-2 and
// weights that travel. It routes by an integer input, so that no derivative
// crosses a choice.
func moeProgram(tokens int, layer ep.Layer, params string) string {
	rows := layer.Rows(tokens * 2)
	return fmt.Sprintf(`program p(idx i32[%[1]d,2], x f64[%[1]d,4], w f64[%[1]d,2], k f64[4,4,2]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=4%[2]s
	rows, rw = ep_dispatch(x, w, r) experts=4%[2]s
	y = grouped_matmul(rows, k, r)
	rwb = broadcast_in_dim(rw) shape=[%[3]d,2] dims=[0]
	z = mul(y, rwb)
	out = ep_combine(z, r) experts=4%[2]s
	return out, r, drop, n, pad, demand
}`, tokens, params, rows)
}

// copiesProgram is an MoE layer like moeProgram whose 4 experts have 6 copies, each of which
// takes the weights of its expert.
func copiesProgram(tokens int, layer ep.Layer, params, axis string) string {
	layer.Experts = 6
	return fmt.Sprintf(`program p(idx i32[%[1]d,2], x f64[%[1]d,4], w f64[%[1]d,2], k f64[4,4,2], copies i32[6]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=4 axis="%[4]s"%[2]s
	s, count, padded = ep_copies(r, copies) experts=4 axis="%[4]s"%[2]s
	rows, rw = ep_dispatch(x, w, s) experts=6 axis="%[4]s"%[2]s
	all = sharding_constraint(k)
	own = sharding_constraint(copies) spec="%[4]s"
	kc = gather(all, own) axis=0
	y = grouped_matmul(rows, kc, s)
	rwb = broadcast_in_dim(rw) shape=[%[3]d,2] dims=[0]
	z = mul(y, rwb)
	out = ep_combine(z, s) experts=6 axis="%[4]s"%[2]s
	return out, s, count, padded, drop, demand
}`, tokens, params, layer.Rows(tokens*2), axis)
}

func moeRows() []row {
	plain := ep.Layer{Experts: 4}
	layer := []string{
		moeProgram(8, plain, ` axis="a"`),
		moeProgram(4, ep.Layer{Experts: 4, Align: 4}, ` align=4 axis="a"`),
		moeProgram(8, ep.Layer{Experts: 4, Capacity: 3}, ` capacity=3 axis="b"`),
		moeProgram(0, plain, ` axis="a"`),
		moeProgram(1, plain, ""),
	}
	copied := []string{
		copiesProgram(8, plain, "", "a"),
		copiesProgram(4, ep.Layer{Align: 4, Capacity: 2}, " capacity=2 align=4", "b"),
		copiesProgram(0, plain, "", "a"),
		copiesProgram(1, plain, "", "a"),
	}
	// The cotangent of the rows is made of constants alone.
	constant := `program p(idx i32[8,2], x f64[8,4]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=4 axis="a"
	rows = ep_dispatch(x, r) experts=4 axis="a"
	c = full() value=3 dtype=f64 shape=[16,4]
	d = neg(c)
	y = mul(rows, d)
	loss = reduce_sum(y) axes=[0,1]
	return loss
}`
	// The base is one number for all rows, and its derivative chooses by it, the same
	// for all rows.
	power := `program p(idx i32[8,2], x f64[8,4], b f64[]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=4 axis="a"
	rows = ep_dispatch(x, r) experts=4 axis="a"
	base = broadcast_in_dim(b) shape=[16,4]
	square = square(base)
	one = full() value=1 dtype=f64 shape=[]
	two = full() value=2 dtype=f64 shape=[]
	c = clamp(one, square, two)
	y = pow(c, rows)
	out = ep_combine(y, r) experts=4 axis="a"
	return out
}`
	// Elements are chosen among rows in expert order, which cannot be a result.
	choice := `program p(idx i32[8,2], x f64[8,4]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=4 axis="a"
	rows = ep_dispatch(x, r) experts=4 axis="a"
	zero = full() dtype=f64 shape=[16,4]
	above = gt(rows, zero)
	y = select_n(above, zero, rows)
	out = ep_combine(y, r) experts=4 axis="a"
	return out
}`
	// Only one of two results has a cotangent. If the routing is whole and the tokens
	// are split, the rows of the derivative still are placed as those of the program.
	partial := `program p(idx i32[8,1], x f64[8,4], w f64[8,1]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=4 capacity=4 axis="a"
	rows, rw = ep_dispatch(x, w, r) experts=4 capacity=4 axis="a"
	y = square(rows)
	z = square(rw)
	tokens, weights = ep_combine(y, z, r) experts=4 capacity=4 axis="a"
	return weights
}`
	outer := []string{
		`program p(idx i32[4,1], x f64[4,2], y f64[4,4]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=4 axis="a"
	xs = ep_dispatch(x, r) experts=4 axis="a"
	ys = ep_dispatch(y, r) experts=4 axis="a"
	w = grouped_outer(xs, ys, r) experts=4
	return w
}`,
		`program p(idx i32[0,1], x f64[0,2], y f64[0,2]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=2
	xs = ep_dispatch(x, r) experts=2
	ys = ep_dispatch(y, r) experts=2
	w = grouped_outer(xs, ys, r) experts=2
	return w
}`,
		`program p(idx i32[2,1], x f64[2,1], k f64[4,3,1]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=4 axis="b"
	xs = ep_dispatch(x, r) experts=4 axis="b"
	t = grouped_matmul(xs, k, r) transpose=true
	w = grouped_outer(t, xs, r) experts=4
	return w
}`,
		`program p(idx i32[4,1], x f64[4,2], y f64[4,3]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=4 axis="a"
	xs = ep_dispatch(x, r) experts=4 axis="a"
	ys = ep_dispatch(y, r) experts=4 axis="a"
	w = grouped_outer(xs, ys, r) experts=4 tree=4
	return w
}`,
	}
	// Logits are far apart, so that differences do not change a choice.
	router := func(params string) string {
		return "program p(x f64[4,8], b f64[8]) {\n w, i, s = router(x, b) " + params + "\n return w, i, s\n}"
	}
	routers := []string{
		router("top_k=2"),
		router("top_k=3 renormalize=true scale=2.5"),
		router(`top_k=2 score="sigmoid" renormalize=true epsilon=1e-20`),
		router(`top_k=2 score="sigmoid" groups=4 top_groups=2 renormalize=true scale=2.5`),
		router(`top_k=2 score="sqrt_softplus" groups=2 top_groups=1 group_score="max"`),
		router(`top_k=4 score="topk_softmax" scale=0.5`),
		"program p(x f64[0,2]) {\n w, i, s = router(x) top_k=1\n return w, i, s\n}",
		"program p(x f64[2,1]) {\n w, i, s = router(x) top_k=1 score=\"sigmoid\"\n return w, i, s\n}",
	}
	// Weights of 8 bits: a matrix for each expert, with its scales.
	scaled := func(tokens, hidden, width int, axis string) string {
		return fmt.Sprintf(`program p(idx i32[%[1]d,2], x f64[%[1]d,%[2]d], w f8_e4m3[4,%[3]d,%[2]d], s f64[4,%[4]d,%[5]d]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=4%[6]s
	rows = ep_dispatch(x, r) experts=4%[6]s
	y = grouped_scaled_matmul(rows, w, r, s) transpose=true
	a = square(y)
	z = grouped_scaled_matmul(a, w, r, s)
	out = ep_combine(z, r) experts=4%[6]s
	return out
}`, tokens, hidden, width, (width+127)/128, (hidden+127)/128, axis)
	}
	scaledRows := []string{scaled(4, 3, 2, ` axis="a"`), scaled(2, 2, 130, ` axis="b"`), scaled(0, 130, 1, ` axis="a"`), scaled(1, 1, 4, ` axis="a"`)}
	// Weights of 4 or 8 bits in MLX's layout. Few bits of a word are set, so that sums are
	// small.
	packed := func(tokens, hidden, width, bits, group int, axis string) string {
		return fmt.Sprintf(`program p(idx i32[%[1]d,2], x f64[%[1]d,%[2]d], w u32[4,%[3]d,%[4]d], s f64[4,%[3]d,%[5]d], b f64[4,%[3]d,%[5]d]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=4%[8]s
	rows = ep_dispatch(x, r) experts=4%[8]s
	y = grouped_affine_matmul(rows, w, r, s, b) transpose=true bits=%[6]d group_size=%[7]d
	a = square(y)
	z = grouped_affine_matmul(a, w, r, s, b) bits=%[6]d group_size=%[7]d
	out = ep_combine(z, r) experts=4%[8]s
	return out
}`, tokens, hidden, width, hidden*bits/32, hidden/group, bits, group, axis)
	}
	packedRows := []string{packed(4, 64, 2, 4, 32, ` axis="a"`), packed(2, 64, 3, 8, 64, ` axis="b"`), packed(0, 128, 1, 4, 128, ` axis="a"`), packed(1, 32, 4, 8, 32, ` axis="a"`)}
	words := func(r *rand.Rand, t graph.Type) array.Array {
		a := array.New(t)
		for i := range array.Data[uint32](a) {
			array.Data[uint32](a)[i] = r.Uint32() & 0x03030303
		}
		return a
	}
	in := gens{"idx": ints(-1, 4)}
	return []row{
		at(row{prim: "affine_matmul", src: []string{
			"program p(x f64[4,64], w u32[5,8], s f64[5,2], b f64[5,2]) {\n y = affine_matmul(x, w, s, b) transpose=true bits=4 group_size=32\n z = square(y)\n q = affine_matmul(z, w, s, b) bits=4 group_size=32\n return q\n}",
			"program p(x f64[2,2,64], v f64[64], w u32[2,16], s f64[2,1], b f64[2,1]) {\n y = affine_matmul(x, w, s, b) transpose=true bits=8 group_size=64\n z = affine_matmul(v, w, s, b) transpose=true bits=8 group_size=64\n return y, z\n}",
			"program p(x f64[0,32], w u32[1,4], s f64[1,1], b f64[1,1]) {\n y = affine_matmul(x, w, s, b) transpose=true bits=4 group_size=32\n return y\n}",
			"program p(x f64[2,3], w u32[3,16], s f64[3,1], b f64[3,1]) {\n y = affine_matmul(x, w, s, b) bits=4 group_size=128\n return y\n}",
			"program p(x f64[4,0], w u32[2,0], s f64[2,0], b f64[2,0]) {\n y = affine_matmul(x, w, s, b) transpose=true bits=8 group_size=32\n return y\n}",
		}, in: gens{"w": words, "s": uniform(0.01, 0.02), "b": uniform(-0.1, 0.1)}}),
		at(row{prim: "grouped_affine_matmul", src: packedRows, in: gens{"idx": ints(-1, 4), "s": uniform(0.01, 0.02), "b": uniform(0.01, 0.02), "w": words, "x": awayFromZero(0.5, 1)}}),
		at(row{prim: "scaled_matmul", src: []string{
			"program p(x f64[4,3], w f8_e4m3[5,3], s f64[1,1]) {\n y = scaled_matmul(x, w, s) transpose=true\n z = square(y)\n q = scaled_matmul(z, w, s)\n return q\n}",
			"program p(x f64[2,2,130], w f8_e5m2[2,130], s f64[1,2]) {\n y = scaled_matmul(x, w, s) transpose=true\n return y\n}",
			"program p(x f64[0,2], w f8_e4m3[1,2], s f64[1,1]) {\n y = scaled_matmul(x, w, s) transpose=true\n return y\n}",
			"program p(x f64[3], w f8_e4m3[3,5], s f64[1,1]) {\n y = scaled_matmul(x, w, s)\n return y\n}",
			"program p(x f64[4,0], w f8_e4m3[2,0], s f64[1,0]) {\n y = scaled_matmul(x, w, s) transpose=true\n return y\n}",
		}}),
		at(row{prim: "grouped_scaled_matmul", src: scaledRows, in: gens{"idx": ints(-1, 4), "s": uniform(0.1, 0.2), "w": ints(1, 4), "x": awayFromZero(0.5, 1)}}),
		at(row{prim: "router", src: routers, in: gens{"x": distinct, "b": uniform(-0.01, 0.01)}}),
		at(row{prim: "ep_prepare", src: layer, in: in}),
		at(row{prim: "ep_copies", src: copied, in: gens{"idx": ints(-1, 4), "copies": values(2, 0, 1, 0, 3, 0)}}),
		at(row{prim: "ep_dispatch", src: append(layer[:len(layer):len(layer)], constant, power, choice), in: gens{"idx": ints(-1, 4), "b": uniform(1.1, 1.3)}}),
		at(row{prim: "ep_combine", src: append(layer[:len(layer):len(layer)], partial), in: in}),
		at(row{prim: "grouped_matmul", src: layer, in: in}),
		at(row{prim: "grouped_outer", src: outer, in: gens{"idx": ints(-1, 2)}}),
	}
}
