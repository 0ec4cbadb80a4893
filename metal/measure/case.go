package measure

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/sharding"
)

// Case is a program exercising the kernels it names.
type Case struct {
	Name    string
	Kernels []string // the kernels to measure; instructions of other kernels are not measured
	Program *graph.Program
	limits  map[string]int // upper bounds (exclusive) of integer inputs, by name
	config  gomoe.Config   // for several ranks, measuring the first
}

// shape is a case with letters for its sizes.
type shape struct {
	name    string
	kernels []string
	decode  bool // also measured for one token
	in      string
	body    string
	out     string
}

// spread is a shape on several ranks, or on one if the mesh is empty.
type spread struct {
	shape
	mesh, split string // split is the placement of the inputs x and idx
}

// Cases returns the programs of these sizes. If names are given, it returns only the cases of these
// kernels. The names of cases with one token, as in decoding, end in decode.
func Cases(z Sizes, names ...string) ([]Case, error) {
	all := kernels.All()
	for _, n := range names {
		if !slices.ContainsFunc(all, func(k kernels.Kernel) bool { return k.Name == n }) {
			return nil, fmt.Errorf("measure: there is no kernel %q", n)
		}
	}
	var cases []Case
	for _, s := range shapes() {
		var wanted []string
		for _, k := range s.kernels {
			if len(names) == 0 || slices.Contains(names, k) {
				wanted = append(wanted, k)
			}
		}
		if wanted == nil {
			continue
		}
		for _, tokens := range []int{z.Tokens, 1} {
			name := s.name
			if tokens == 1 {
				if !s.decode {
					continue
				}
				name += ", decode"
			}
			p, err := gomoe.Parse(s.name, z.fill("program p("+s.in+") {\n"+s.body+"\nreturn "+s.out+"\n}", tokens))
			if err != nil {
				return nil, fmt.Errorf("measure: %w", err)
			}
			c := Case{Name: name, Kernels: wanted, Program: p, limits: map[string]int{"ids": z.Vocabulary, "idx": z.Experts, "at": 2}}
			if c.config, err = s.config(); err != nil {
				return nil, fmt.Errorf("measure: %s: %w", name, err)
			}
			cases = append(cases, c)
		}
	}
	return cases, nil
}

// config returns the case's ranks and placement.
func (s spread) config() (cfg gomoe.Config, err error) {
	if s.mesh == "" {
		return cfg, nil
	}
	if cfg.Mesh, err = sharding.ParseMesh(s.mesh); err != nil {
		return cfg, err
	}
	spec, err := sharding.ParseSpec(s.split)
	cfg.Place = map[string]sharding.Spec{"x": spec, "idx": spec}
	for name := range cfg.Place {
		if !strings.Contains(s.in, name+" ") {
			delete(cfg.Place, name)
		}
	}
	return cfg, err
}

// inputs returns the case's inputs: numbers in [-1, 1), weights in blocks of such numbers, and
// indices without repetitions within a row.
func (c Case) inputs() (map[string]array.Array, error) {
	in := map[string]array.Array{}
	r := rand.New(rand.NewPCG(1, 2))
	for _, v := range c.Program.In {
		a := array.New(v.Type)
		x := make([]float64, v.Type.Len())
		for i := range x {
			switch limit := c.limits[v.Name]; {
			case v.Type.DType.IsFloat(), v.Type.DType.IsF8(), v.Type.DType.IsBlock():
				x[i] = 2*r.Float64() - 1
			case limit == 0:
				x[i] = 1
			case v.Type.Rank() == 2 && v.Type.Shape[1] == topK && i%topK == 1:
				x[i] = float64((int(x[i-1]) + 1 + r.IntN(limit-1)) % limit)
			default:
				x[i] = float64(r.IntN(limit))
			}
		}
		if v.Name == "v" && v.Type.Rank() == 1 { // an optimizer's second moments must not be negative
			for i := range x {
				x[i] *= x[i]
			}
		}
		if err := a.SetFloat64s(x); err != nil {
			return nil, fmt.Errorf("measure: %s: input %s: %w", c.Name, v.Name, err)
		}
		in[v.Name] = a
	}
	return in, nil
}

// shapes returns the cases, in the order of the kernels.
func shapes() (all []spread) {
	for _, s := range slices.Concat(elementShapes(), rowShapes(), layerShapes(), productShapes()) {
		all = append(all, spread{shape: s})
	}
	return append(all, spreadShapes()...)
}

// spreadShapes returns the cases of kernels that have no work on one rank.
func spreadShapes() []spread {
	const layer = " experts={E} capacity={T}"
	travel := []string{"ep_choices", "ep_table", "ep_keep", "ep_journey", "ep_rows"}
	body := func(way string) string {
		return "r, drop, n, pad, demand = ep_prepare(idx)" + layer + way + "\nrows = ep_dispatch(x, r)" + layer + way + "\ny = ep_combine(rows, r)" + layer + way
	}
	const inline = "r, drop, n, pad, demand = ep_prepare(idx) experts={E}\nrows = ep_dispatch(x, r) experts={E}\ny = ep_combine(rows, r) experts={E}"
	const in = "x f32[{T},{D}], idx i32[{T},{K}]"
	return []spread{
		{shape{"split sequences", []string{"batch_rows"}, false, "x f32[{T},{K},{F}]",
			"y = reshape(x) shape=[{TK},{F}] batch=true\nz = neg(y)\nw = reshape(z, x) shape=[{T},{K},{F}] batch=true", "w"}, "a=2", "_,a"},
		{shape{"two ranks", travel, false, in, body(""), "y"}, "ep=2", "ep"},
		{shape{"two ranks, sums", append(slices.Clone(travel), "ep_slots", "ep_pack_sums", "ep_sum"), false, in, body(` exchange="sum"`), "y"}, "ep=2", "ep"},
		{shape{"two ranks, rows home in 8 bits", []string{"ep_pack_f8", "ep_sum"}, false, in, body(" wire=f8_e4m3"), "y"}, "ep=2", "ep"},
		{shape{"two ranks, choices with rows", []string{"ep_alone", "ep_inline"}, false, in, inline, "y"}, "ep=2", "ep"},
		{shape{"two machines of two ranks, sums", []string{"ep_passage", "ep_pack_sums", "ep_machine_sum"}, false, in, body(` exchange="sum"`), "y"}, "ep=2x2", "ep"},
	}
}

func elementShapes() []shape {
	return []shape{
		{"chain", []string{"flat"}, true, "x f32[{T},{F}], y f32[{T},{F}]",
			"a = silu(x)\nb = mul(a, y)\nc = add(b, x)\nz = tanh(c)", "z"},
		{"add bf16", []string{"flat"}, false, "x bf16[{T},{F}], y bf16[{T},{F}]", "z = add(x, y)", "z"},
		{"adamw", []string{"flat"}, false, "p f32[{P}], m f32[{P}], v f32[{P}], g f32[{P}], lr f32[], step i32[], scale f32[]",
			"p2, m2, v2 = adamw(p, m, v, g, lr, step, scale) b1=0.9 b2=0.95 eps=1e-08 weight_decay=0.1", "p2, m2, v2"},
		{"transpose", []string{"arrange"}, false, "x f32[{T},{F}]", "y = transpose(x) permutation=[1,0]", "y"},
		{"dynamic_slice", []string{"dynamic"}, false, "x f32[{V},{D}], at i32[]", "y = dynamic_slice(x, at, at) slice_sizes=[1,{D}]", "y"},
		{"embedding", []string{"lookup"}, true, "x f32[{V},{D}], ids i32[{T}]", "y = embedding(x, ids)", "y"},
		{"embedding_grad", []string{"scatter"}, false, "ids i32[{T}], ct f32[{T},{D}]", "y = embedding_grad(ids, ct) num={V}", "y"},
		{"reduce", []string{"reduce"}, false, "x f32[{T},{F}]", "y = reduce_sum(x) axes=[1]\nz = reduce_max(x) axes=[0]", "y, z"},
		{"reduce, all", []string{"reduce"}, false, "x f32[{T},{F}]", "y = reduce_sum(x) axes=[0,1]", "y"},
		{"along", []string{"along"}, true, "x f32[{T},{V}]", "y = argmax(x) axis=1\nz = cumsum(x) axis=1", "y, z"},
	}
}

func rowShapes() []shape {
	const qkv = "q f32[1,{S},{N},{H}], k f32[1,{S},{N},{H}], v f32[1,{S},{N},{H}]"
	const wide = "q bf16[1,{S},{N},{H}], k bf16[1,{S},{N},{H}], v bf16[1,{S},{N},{H}]"
	return []shape{
		{"softmax", []string{"softmax"}, true, "x f32[{T},{D}], ct f32[{T},{D}]", "y = softmax(x) axis=1\nz = softmax_grad(y, ct) axis=1", "y, z"},
		{"log_softmax", []string{"log_softmax"}, true, "x f32[{T},{V}]", "y = log_softmax(x) axis=1\nz = log_softmax_grad(y, y) axis=1\nw = logsumexp(x) axis=1", "y, z, w"},
		{"rms_norm", []string{"rms_norm"}, true, "x f32[{T},{D}], g f32[{D}], ct f32[{T},{D}]",
			"y = rms_norm(x, g) eps=1e-05\nz = rms_norm_grad(x, g, ct) eps=1e-05\nw = rms_norm_gain_grad(x, ct) eps=1e-05", "y, z, w"},
		{"layer_norm", []string{"layer_norm"}, true, "x f32[{T},{D}], g f32[{D}], b f32[{D}], ct f32[{T},{D}]",
			"y = layer_norm(x, g, b) eps=1e-05\nz = layer_norm_grad(x, g, ct) eps=1e-05\nw, u = layer_norm_gain_grad(x, ct) eps=1e-05", "y, z, w, u"},
		{"rope", []string{"rope"}, true, "x f32[1,{T},{N},{H}], at i32[{T}]", "y = rope(x, at)", "y"},
		{"cross_entropy", []string{"cross_entropy"}, false, "x f32[{T},{V}], ids i32[{T}], ct f32[{T}]",
			"y = cross_entropy(x, ids)\nz = cross_entropy_grad(x, ids, ct)", "y, z"},
		{"attention", []string{"attention", "attention_grad"}, false, qkv + ", dout f32[1,{S},{N},{H}], dlse f32[1,{N},{S}]",
			"out, lse = attention(q, k, v)\ndq, dk, dv = attention_grad(q, k, v, out, lse, dout, dlse)", "out, lse, dq, dk, dv"},
		{"cache_update", []string{"cache_update"}, false, "c f32[1,{S},{N},{H}], x f32[1,1,{N},{H}], at i32[1]", "y = cache_update(c, x, at)", "y"},
		{"attention bf16", []string{"attention", "attention_grad"}, false, wide + ", dout bf16[1,{S},{N},{H}], dlse f32[1,{N},{S}]",
			"out, lse = attention(q, k, v)\ndq, dk, dv = attention_grad(q, k, v, out, lse, dout, dlse)", "out, lse, dq, dk, dv"},
	}
}

func layerShapes() []shape {
	return []shape{
		{"router", []string{"router", "top_k"}, true, "x f32[{T},{E}]", "w, i, s = router(x) top_k={K}\nt, j = top_k(x) k={K}", "w, i, s, t, j"},
		{"dispatch and combine", []string{"ep_count", "ep_prepare", "ep_zones", "ep_send_order", "ep_recv_order", "ep_order", "ep_rows", "ep_sum"}, true,
			"x f32[{T},{D}], idx i32[{T},{K}]",
			"r, drop, n, pad, demand = ep_prepare(idx) experts={E}\nrows = ep_dispatch(x, r) experts={E}\ny = ep_combine(rows, r) experts={E}", "y, drop, n, pad, demand"},
	}
}

func productShapes() []shape {
	const route = "r, drop, n, pad, demand = ep_prepare(idx) experts={E}\nrows = ep_dispatch(x, r) experts={E}\n"
	const home = "\ny = ep_combine(a, r) experts={E}"
	shapes := []shape{
		{"dot_general", []string{"dot_general"}, true, "x f32[{T},{D}], w f32[{D},{F}]", "y = dot_general(x, w) lhs_contract=[1] rhs_contract=[0]", "y"},
		{"dot_general bf16", []string{"dot_general"}, true, "x bf16[{T},{D}], w bf16[{D},{F}]", "y = dot_general(x, w) lhs_contract=[1] rhs_contract=[0]", "y"},
		{"grouped_matmul", []string{"grouped_matmul"}, true, "idx i32[{T},{K}], x f32[{T},{D}], w f32[{E},{D},{F}]", route + "a = grouped_matmul(rows, w, r)" + home, "y"},
		{"grouped_matmul bf16", []string{"grouped_matmul"}, true, "idx i32[{T},{K}], x bf16[{T},{D}], w bf16[{E},{D},{F}]", route + "a = grouped_matmul(rows, w, r)" + home, "y"},
		{"grouped_swiglu bf16", []string{"grouped_swiglu"}, true, "idx i32[{T},{K}], x bf16[{T},{D}], w bf16[{E},{D},{F}], u bf16[{E},{D},{F}]",
			route + "g = grouped_matmul(rows, w, r)\nv = grouped_matmul(rows, u, r)\na = swiglu(g, v)" + home, "y"},
		{"grouped_outer", []string{"grouped_outer"}, false, "idx i32[{T},{K}], x f32[{T},{D}], c f32[{T},{F}]",
			route + "cts = ep_dispatch(c, r) experts={E}\na = grouped_outer(rows, cts, r) experts={E}", "a"},
	}
	for _, block := range []string{"q8_0", "mxfp4", "q4_k", "q6_k", "q2_k", "iq2_xxs"} {
		shapes = append(shapes,
			shape{"grouped_matmul " + block, []string{"grouped_blocks"}, true, "idx i32[{T},{K}], x f32[{T},{D}], w " + block + "[{E},{F},{D}]", route + "a = grouped_matmul(rows, w, r) transpose=true" + home, "y"},
			shape{"dot_general " + block, []string{"dot_blocks"}, true, "x f32[{T},{D}], w " + block + "[{F},{D}]", "y = dot_general(x, w) lhs_contract=[1] rhs_contract=[1]", "y"})
	}
	return append(shapes,
		shape{"scaled_matmul", []string{"scaled_matmul"}, true, "x bf16[{T},{D}], w f8_e4m3[{F},{D}], s f32[{FB},{DB}]", "y = scaled_matmul(x, w, s) transpose=true", "y"},
		shape{"grouped_scaled_matmul", []string{"scaled_matmul"}, true, "idx i32[{T},{K}], x bf16[{T},{D}], w f8_e4m3[{E},{F},{D}], s f32[{E},{FB},{DB}]",
			route + "a = grouped_scaled_matmul(rows, w, r, s) transpose=true" + home, "y"},
		shape{"affine_matmul", []string{"affine_matmul"}, true, "x bf16[{T},{D}], w u32[{F},{DW}], s bf16[{F},{DG}], b bf16[{F},{DG}]",
			"y = affine_matmul(x, w, s, b) transpose=true bits=4 group_size=32", "y"},
		shape{"grouped_affine_matmul", []string{"affine_matmul"}, true, "idx i32[{T},{K}], x bf16[{T},{D}], w u32[{E},{F},{DW}], s bf16[{E},{F},{DG}], b bf16[{E},{F},{DG}]",
			route + "a = grouped_affine_matmul(rows, w, r, s, b) transpose=true bits=4 group_size=32" + home, "y"})
}

// Sizes are the sizes of the measured model.
type Sizes struct {
	Tokens, Hidden, Experts, FFN int // of an MoE layer sending each token to 2 experts
	Vocabulary                   int
	Sequence, Heads, HeadDim     int // of attention
	Parameters                   int // number of parameters updated by an optimizer's step
}

// topK is the number of experts of a token.
const topK = 2

// Model returns the sizes of a small language model in training.
func Model() Sizes {
	return Sizes{Tokens: 1024, Hidden: 512, Experts: 8, FFN: 1024, Vocabulary: 32000, Sequence: 1024, Heads: 8, HeadDim: 64, Parameters: 1 << 22}
}

// Small returns sizes that an emulated GPU handles in seconds.
func Small() Sizes {
	return Sizes{Tokens: 8, Hidden: 256, Experts: 4, FFN: 32, Vocabulary: 40, Sequence: 10, Heads: 2, HeadDim: 8, Parameters: 96}
}

// Counted returns sizes at which an emulated GPU counts in minutes, and which are whole tiles of the
// kernels, so that counts scale to a large model like the sizes.
func Counted() Sizes {
	return Sizes{Tokens: 128, Hidden: 512, Experts: 4, FFN: 256, Vocabulary: 1024, Sequence: 128, Heads: 2, HeadDim: 128, Parameters: 1 << 14}
}

// fill replaces the letters in braces in text by sizes.
func (z Sizes) fill(text string, tokens int) string {
	var pairs []string
	for name, n := range map[string]int{
		"T": tokens, "K": topK, "TK": tokens * topK, "D": z.Hidden, "E": z.Experts, "F": z.FFN, "V": z.Vocabulary,
		"FB": (z.FFN + 127) / 128, "DB": (z.Hidden + 127) / 128, "DW": z.Hidden / 8, "DG": z.Hidden / 32, // of scaled weights, and of 4 bits
		"S": z.Sequence, "N": z.Heads, "H": z.HeadDim, "P": z.Parameters,
	} {
		pairs = append(pairs, "{"+name+"}", fmt.Sprint(n))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
