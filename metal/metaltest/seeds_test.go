package metaltest

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/quant"
	"github.com/gomoe/gomoe/sharding"
)

// seed is a fault in a kernel, which the check has to catch.
type seed struct {
	name     string
	program  string // of scenarios
	from, to string // the edit of a library's source; from is there once
	mode     mode   // of simdgroup matrices; only the distributed one is linted
	want     string // part of what the check reports
}

// seeds are the faults. Those of the driver and the device are in package metal and in the
// tests of packages mtl and standin: see metal/seeds_test.go.
func seeds() []seed {
	const barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);\n"
	return []seed{
		// Barriers.
		{"rows: sums are read before all are there", "softmax",
			"room[t.group] = x;\n  }\n  " + barrier + "  float sum", "room[t.group] = x;\n  }\n  float sum", leader, "softmax(f32[2,1300]): leader, forward order: result 0: element"},
		{"rows: the largest is overwritten while others read it", "softmax",
			"  " + barrier + "  return top;", "  return top;", leader, "softmax(f32[2,1300]): leader, forward order: result 0: element"},
		{"columns: sums are read before all are there", "gain",
			"room[tid.y * 32 + tid.x] = mine;\n  " + barrier, "room[tid.y * 32 + tid.x] = mine;\n", leader, "result 0: element 0 of f32[33] is NaN"},
		{"tile: blocks are multiplied before all is there", "product",
			"    " + barrier + "    if (row < rows", "    if (row < rows", leader, "result 0: element 0 of f32[20,68] is NaN"},
		{"tile: blocks are overwritten before all are multiplied", "product",
			"multiply(a, b, deep);\n    }\n    " + barrier, "multiply(a, b, deep);\n    }\n", leader, "dot_general(f32[20,40], f32[40,68]): leader, forward order: result 0: element"},
		{"attention: scores before all keys are there", "attention",
			"    " + barrier + "\n    simdgroup_float8x8 scores[", "\n    simdgroup_float8x8 scores[", leader, "result 0: element 0 of f32[1,71,2,12] is NaN"},
		{"attention: keys are overwritten while others read them", "attention",
			"    " + barrier + "    bring<S, HEAD, KEYS>(key_tile", "    bring<S, HEAD, KEYS>(key_tile", leader, "leader, forward order: result 0: element"},
		{"attention's gradient: products before all rows are there", "attention gradient",
			"      " + barrier + "      for (int c = 0; c < COLUMNS", "      for (int c = 0; c < COLUMNS", leader, "result 0: element 0 of f32[1,71,2,12] is NaN"},
		{"attention's gradient: rows are overwritten while others read them", "attention gradient",
			"      " + barrier + "      bring<S, HEAD, COLUMNS>(a_tile", "      bring<S, HEAD, COLUMNS>(a_tile", leader, "leader, forward order: result"},
		{"attention of one query: sums are read before all are there", "one query",
			"      " + barrier + "      float largest", "      float largest", leader, "is NaN"},
		{"matvec: sums are read before all are there", "vector",
			"  " + barrier + "  float all", "  float all", leader, "is NaN"},
		{"matvec: sums that no barrier orders", "vector",
			"  " + barrier + "  float all", "  threadgroup_barrier(mem_flags::mem_none);\n  float all", fenced, "has written to threadgroup memory, and no barrier"},
		{"codes across: the first block's scale is every block's", "codes across",
			"k < MATVEC_WAYS || k / M::tall != (k - MATVEC_WAYS) / M::tall", "k < MATVEC_WAYS", leader, "scaled_matmul(f32[1,140], f8_e4m3[140,20], f32[2,1]): leader, forward order: result 0: element"},
		{"codes along: a column has its neighbour's scale", "codes of experts",
			"if (c % M::tall == 0) {", "if (c == 0) {", leader, "grouped_affine_matmul"},
		{"codes along: elements past a line's end", "codes along",
			"out[e] = e < left ? decoded(from[e]) : 0.0f;", "out[e] = decoded(from[e]);", leader, "scaled_matmul"},
		{"codes of experts: rows that are not in use are computed", "codes of experts",
			"o.deep = z.used > 0 ? p.deep : 0;", "o.deep = p.deep;", leader, "grouped_affine_matmul"},
		{"router: scores in device memory, and a barrier of threadgroup memory", "router",
			"simdgroup_barrier(mem_flags::mem_device);", "simdgroup_barrier(mem_flags::mem_threadgroup);", fenced, "has written to device memory, and no barrier with mem_flags::mem_device"},
		{"router: no barrier before the scores of others are read", "router",
			"simdgroup_barrier(mem_flags::mem_device);", "", fenced, "has written to device memory, and no barrier with mem_flags::mem_device"},
		{"rows: a barrier of device memory", "softmax",
			"room[t.group] = x;\n  }\n  " + barrier + "  float sum", "room[t.group] = x;\n  }\n  threadgroup_barrier(mem_flags::mem_device);\n  float sum", fenced, "has written to threadgroup memory, and no barrier"},
		{"rows: not all threads come to a barrier", "softmax",
			"x = simd_sum(x);\n  if (t.groups == 1)", "x = simd_sum(x);\n  if (t.group == 0)", leader, "a thread returned before a threadgroup_barrier that others reach"},
		{"tile: more threadgroup memory than is said", "product",
			"return lines * deep + TILE_PAD", "return 16 + lines * deep + TILE_PAD", leader, "bytes of threadgroup memory: fours needs"},
		{"tensor operations: what a thread has no element for is used", "tensors",
			"if (sums.is_valid_element(i)) {\n        const", "{\n        const", leader, "of a cooperative tensor is none of thread"},
		{"tensor operations: a thread has room for its elements and no more", "tensors",
			"i < sums.get_capacity(); i++) {\n      if (sums.is_valid_element(i)) {\n        const", "i < BM * BN / TILE_THREADS; i++) {\n      if (sums.is_valid_element(i)) {\n        const", leader, "is NaN, want"},
		{"tensor operations: threads' elements take turns", "tensors",
			"memory[at[1] * BN + at[0]]", "memory[(uint(i) * TILE_THREADS + thread_index) % (BM * BN)]", leader, "is NaN, want"},
		{"tensor operations: the result is read before all is there", "tensors",
			"= sums[i];\n      }\n    }\n    " + barrier, "= sums[i];\n      }\n    }\n", leader, "is NaN, want"},

		// Rows that are not written, or should not be.
		{"ep_rows: gaps are not zeroed", "routed",
			"values[row * p.values + i] = U(0);", "", leader, "is NaN, want 0"},
		{"rows: past the last zone rows are zeroed", "routed",
			"return ROW_PAST;", "return ROW_GAP;", leader, "was written, zones end at row"},
		{"grouped_blocks: rows without weight are not written", "blocks",
			"used = 0; // the tile's rows are written, as zeros", "return;", leader, "is NaN, want 0"},
		{"grouped_blocks: only a tile's first weight is looked at", "first weights",
			"i < used && i < BM", "i < used && i < 1", leader, "of f32[48,70] is 0, want"},
		{"reduce_columns: gaps are not zeroed", "ragged columns",
			"  } else if (kind == row_gap) {\n    y[i] = Y(0);", "  } else if (kind == row_gap) {", leader, "is NaN, want 0"},

		// Places.
		{"tile: the wrong stride along the depth", "product",
			"a_start + uint(k) * a_deep", "a_start + uint(k) * a_line", leader, "buffer 0 (a): byte 6400, it has 3200"},
		{"tile: past the edge it is read", "product",
			"if (fours && left >= 4)", "if (fours)", leader, "read memory that no buffer has"},
		{"a made function: one element too many", "exp",
			"if (at < p[0])", "if (at <= p[0])", leader, "buffer "},
		{"move: the other array's strides", "transpose",
			"from += index * p[9 + 3 * d];", "from += index * p[8 + 3 * d];", leader, "transpose(f32[3,5,7]): leader, forward order: result 0: element"},
		{"tile: the last column is left out", "product",
			"n + 1 < cols)", "n + 1 < cols - 1)", leader, "element 67 of f32[20,68] is NaN"},

		// Choices and their order.
		{"ep_sum: choices are added from the last on", "routed",
			"for (int k = 0; k < p.choices; k++) {", "for (int k = p.choices - 1; k >= 0; k--) {", leader, "e-08, more than"},
		{"choose: of equal numbers the last", "top_k",
			"simd_min(largest == simd_max(largest) ? own : n)", "simd_max(largest == simd_max(largest) ? own : -1)", leader, "result 1: element 0 is 31, want 0"},
		{"ep_prepare: one pair more than the capacity", "routed",
			"queue >= layer.capacity", "queue > layer.capacity", leader, "result 0: element 14 is 1, want -1"},
		{"lookup: ids are not checked", "lookup",
			"int index = indices[row % p[2]];\n    bool in_range = index >= 0 && index < p[1];", "int index = indices[row % p[2]];\n    bool in_range = index >= 0;", leader, "buffer 0 (table): byte"},
		{"indices: what thread 1 has found is left out", "second id",
			"for (uint t = 1; t < threads; t++)", "for (uint t = 2; t < threads; t++)", leader, `the device reports <nil>, want an error with "id 9 at [1]`},
		{"cross_entropy: the label behind the last", "label",
			"label >= 0 && label < p.n) {", "label >= 0 && label <= p.n) {", leader, "buffer 0 (logits): byte"},

		// Sums.
		{"scatter: sums are not compensated", "scatter",
			"s = pair_add(s, float(updates[at + k * p[2]]));", "s.x += float(updates[at + k * p[2]]);", leader, "result 0: element 0"},

		// What Metal's compiler would reject.
		{"attention: a pointer into the wrong memory", "attention",
			"threadgroup S* tile, device const uchar* x", "device S* tile, device const uchar* x", distributed, "no matching function for call to 'bring'"},
	}
}

// scenario is a program that shows faults.
type scenario struct {
	text    string
	mesh    string
	ints    func(i int) int
	some    map[string]func(i int) float64 // inputs that are not random
	zeros   string                         // the input that is 0
	fails   string                         // part of the step's error
	tensors bool                           // products use tensor operations
}

// scenarios are the programs, by name.
func scenarios() map[string]scenario {
	return map[string]scenario{
		"exp":       {text: "program p(x f32[6,8]) {\n\ty = exp(x)\n\treturn y\n}"},
		"softmax":   {text: "program p(x f32[2,1300]) {\n\ty = softmax(x) axis=1\n\treturn y\n}"},
		"gain":      {text: "program p(x f32[40,33], ct f32[40,33]) {\n\ty = rms_norm_gain_grad(x, ct) eps=0.00001\n\treturn y\n}"},
		"product":   {text: "program p(x f32[20,40], w f32[40,68]) {\n\ty = dot_general(x, w) lhs_contract=[1] rhs_contract=[0]\n\treturn y\n}"},
		"tensors":   {tensors: true, text: "program p(x bf16[20,40], w bf16[40,68]) {\n\ty = dot_general(x, w) lhs_contract=[1] rhs_contract=[0]\n\tz = convert_element_type(y) dtype=f32\n\treturn z\n}"},
		"attention": {text: "program p(q f32[1,71,2,12], k f32[1,71,1,12], v f32[1,71,1,12]) {\n\ty, lse = attention(q, k, v)\n\treturn y, lse\n}"},
		"attention gradient": {text: `program p(q f32[1,71,2,12], k f32[1,71,1,12], v f32[1,71,1,12], out f32[1,71,2,12], lse f32[1,2,71], dout f32[1,71,2,12], dlse f32[1,2,71]) {
	dq, dk, dv = attention_grad(q, k, v, out, lse, dout, dlse)
	return dq, dk, dv
}`},
		"one query":    {text: "program p(q f32[1,1,2,12], k f32[1,71,1,12], v f32[1,71,1,12]) {\n\ty, lse = attention(q, k, v)\n\treturn y, lse\n}"},
		"vector":       {text: "program p(x f32[1,40], w f32[40,68]) {\n\ty = dot_general(x, w) lhs_contract=[1] rhs_contract=[0]\n\treturn y\n}"},
		"codes across": {text: "program p(x f32[1,140], w f8_e4m3[140,20], s f32[2,1]) {\n\ty = scaled_matmul(x, w, s)\n\treturn y\n}"},
		"codes along":  {text: "program p(x f32[1,140], w f8_e4m3[20,140], s f32[1,2]) {\n\ty = scaled_matmul(x, w, s) transpose=true\n\treturn y\n}"},
		"codes of experts": {ints: func(i int) int { return i * 2 % 3 }, text: `program p(ids i32[2,1], x f32[2,32], w u32[3,5,4], s f32[3,5,1], b f32[3,5,1]) {
	r, drop, n, pad, demand = ep_prepare(ids) experts=3 align=4
	rows = ep_dispatch(x, r) experts=3 align=4
	z = grouped_affine_matmul(rows, w, r, s, b) transpose=true bits=4 group_size=32
	out = ep_combine(z, r) experts=3 align=4
	return out
}`},
		"router":    {text: "program p(x f32[5,40]) {\n\tw, e, s = router(x) top_k=3\n\treturn w, e, s\n}"},
		"transpose": {text: "program p(x f32[3,5,7]) {\n\ty = transpose(x) permutation=[2,0,1]\n\treturn y\n}"},
		"top_k":     {text: "program p(x f32[3,70]) {\n\ty, i = top_k(x) k=3\n\treturn y, i\n}", zeros: "x"},
		"second id": {text: "program p(x f32[3,2], ids i32[6]) {\n\ty = embedding(x, ids)\n\treturn y\n}", ints: func(i int) int { return []int{0, 9, 0, 0, 0, 0}[i] }, fails: "id 9 at [1]"},
		"label":     {text: "program p(x f32[3,4], labels i32[3]) {\n\ty = cross_entropy(x, labels)\n\treturn y\n}", ints: func(i int) int { return i / 2 * 4 }, fails: "label 4 at [2]"},
		"scatter": {text: "program p(x f32[2,1], at i32[3], u f32[3,1]) {\n\ty = scatter_add(x, at, u) axis=0\n\treturn y\n}", ints: func(int) int { return 0 },
			some: map[string]func(int) float64{"x": func(int) float64 { return 0 }, "u": func(i int) float64 { return [...]float64{1 << 27, 1, -1 << 27}[i] }}},
		"ragged columns": {ints: func(i int) int { return i % 3 }, text: `program p(ids i32[10,1], x f32[10,8]) {
	r, drop, n, pad, demand = ep_prepare(ids) experts=3 align=8
	rows = ep_dispatch(x, r) experts=3 align=8
	wide = broadcast_in_dim(rows) shape=[24,3,8] dims=[0,2]
	s = reduce_sum(wide) axes=[1]
	out = ep_combine(s, r) experts=3 align=8
	return out
}`},
		"lookup": {text: "program p(x f32[3,2], ids i32[6]) {\n\ty = embedding(x, ids)\n\treturn y\n}", ints: func(i int) int { return i * 10 }, fails: "id 10 at"},
		"routed": {mesh: "a=2", ints: func(i int) int { return i * 5 % 7 % 4 }, text: `program p(x f32[16,8], ids i32[16,3], w f32[4,8,8]) {
	r, drop, c, pad, demand = ep_prepare(ids) experts=4 align=4 capacity=9 axis="a"
	rows = ep_dispatch(x, r) experts=4 align=4 capacity=9 axis="a"
	minus = neg(rows)
	up = grouped_matmul(minus, w, r)
	y = softmax(up) axis=1
	z = ep_combine(y, r) experts=4 align=4 capacity=9 axis="a"
	return z
}`},
		"blocks": {ints: func(i int) int { return i % 3 }, zeros: "g", text: `program p(ids i32[40,1], x f32[40,256], g f32[40,1], k q8_0[3,70,256]) {
	r, drop, n, pad, demand = ep_prepare(ids) experts=3 align=4
	rows, rg = ep_dispatch(x, g, r) experts=3 align=4
	y = grouped_matmul(rows, k, r) transpose=true
	spread = broadcast_in_dim(rg) shape=[48,70] dims=[0]
	z = mul(y, spread)
	out = ep_combine(z, r) experts=3 align=4
	return out
}`},
		"first weights": {ints: func(i int) int { return i % 3 }, some: map[string]func(int) float64{"g": func(i int) float64 { return float64(min(i/3, 1)) }}, text: `program p(ids i32[40,1], x f32[40,256], g f32[40,1], k q8_0[3,70,256]) {
	r, drop, n, pad, demand = ep_prepare(ids) experts=3 align=4
	rows, rg = ep_dispatch(x, g, r) experts=3 align=4
	y = grouped_matmul(rows, k, r) transpose=true
	spread = broadcast_in_dim(rg) shape=[48,70] dims=[0]
	z = mul(y, spread)
	out = ep_combine(z, r) experts=3 align=4
	return out
}`},
	}
}

// reports returns what the check says of a scenario with edited sources.
func (s scenario) reports(t *testing.T, edit func(string) string, modes ...mode) string {
	t.Helper()
	p, err := gomoe.Parse("test", s.text)
	require.NoError(t, err)
	cfg := gomoe.Config{Place: map[string]sharding.Spec{}}
	cfg.Threads = 1
	if s.mesh != "" {
		cfg.Mesh, err = sharding.ParseMesh(s.mesh)
		require.NoError(t, err)
	}
	in, r := map[string]array.Array{}, rand.New(rand.NewPCG(1, 2))
	for _, v := range p.In {
		in[v.Name] = s.input(t, v.Name, v.Type, r)
		if s.mesh != "" {
			cfg.Place[v.Name] = sharding.Split(cfg.Mesh.Axes[0].Name)
		}
	}
	rec := &recorder{TB: t}
	from := real()
	if s.tensors {
		from = withTensors()
	}
	from.edit, from.modes = edit, modes
	check(rec, p, cfg, in, Options{Seed: 7, Fails: s.fails}, from)
	return strings.Join(rec.errors, "\n")
}

func (s scenario) input(t *testing.T, name string, typ graph.Type, r *rand.Rand) array.Array {
	t.Helper()
	a := array.New(typ)
	if name == s.zeros {
		return a
	}
	x := make([]float64, typ.Len())
	for i := range x {
		x[i] = r.NormFloat64()
		if f := s.some[name]; f != nil {
			x[i] = f(i)
		}
		if s.ints != nil && !typ.DType.IsFloat() {
			x[i] = float64(s.ints(i))
		}
	}
	if typ.DType.IsBlock() {
		narrow := make([]float32, len(x))
		for i := range x {
			narrow[i] = float32(x[i])
		}
		require.NoError(t, quant.Quantize(a.Bytes(), typ.DType, narrow))
		return a
	}
	require.NoError(t, a.SetFloat64s(x))
	return a
}

// Every fault is caught, and what has none passes.
func TestSeeds(t *testing.T) {
	all := scenarios()
	passes := map[key]bool{}
	for _, s := range seeds() {
		t.Run(s.name, func(t *testing.T) {
			p, ok := all[s.program]
			require.True(t, ok, "scenario %s", s.program)
			if !passes[key{s.program, s.mode}] {
				require.Empty(t, p.reports(t, nil, s.mode), "without the fault")
				passes[key{s.program, s.mode}] = true
			}
			edited := 0
			got := p.reports(t, func(source string) string {
				n := strings.Count(source, s.from)
				require.LessOrEqual(t, n, 1, "what the fault changes is ambiguous:\n%s", s.from)
				edited += n
				return strings.Replace(source, s.from, s.to, 1)
			}, s.mode)
			require.Positive(t, edited, "what the fault changes is in no library of the program:\n%s", s.from)
			if got == "" || !strings.Contains(got, s.want) {
				t.Errorf("the check reports %q, want %q", got, s.want)
			}
		})
	}
}
