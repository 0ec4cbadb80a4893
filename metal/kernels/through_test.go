package kernels_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/metal/metaltest"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// throughLayer is a layer of experts and its gradients, in which products alone read rows in expert
// order: of tokens, and of cotangents.
func throughLayer(t *testing.T, d graph.DType, tokens, hidden, width, align int, transpose bool) *graph.Program {
	t.Helper()
	up, down := fmt.Sprintf("4,%d,%d", hidden, width), fmt.Sprintf("4,%d,%d", width, hidden)
	if transpose {
		up, down = down, up
	}
	params := fmt.Sprintf("experts=4 align=%d", align)
	p, err := gomoe.Parse("t", fmt.Sprintf(`program p(idx i32[%[2]d,2], x %[1]s[%[2]d,%[3]d], w %[1]s[%[2]d,2], gate %[1]s[%[4]s], up %[1]s[%[4]s], down %[1]s[%[5]s]) {
	r, drop, n, pad, demand = ep_prepare(idx) %[6]s
	rows, s = ep_dispatch(x, w, r) %[6]s
	g = grouped_matmul(rows, gate, r) transpose=%[7]t
	u = grouped_matmul(rows, up, r) transpose=%[7]t
	h = swiglu(g, u)
	y = grouped_matmul(h, down, r) transpose=%[7]t
	sb = broadcast_in_dim(s) shape=[%[8]d,%[3]d] dims=[0]
	z = mul(y, sb)
	out = ep_combine(z, r) %[6]s
	q = mul(out, out)
	loss = reduce_sum(q) axes=[0,1]
	return loss
}`, d, tokens, hidden, up, down, params, transpose, (2*tokens+4*(align-1))/align*align))
	require.NoError(t, err)
	return p
}

// Products read rows where they are, or where they have arrived, with the results of rows in order,
// for few rows and many, with and without gaps between zones, in both layouts, of every type, on one
// rank and on two; and so do their gradients.
func TestGatheredProducts(t *testing.T) {
	for i, c := range []struct {
		d                            graph.DType
		tokens, hidden, width, align int
		transpose                    bool
	}{
		{graph.F32, 6, 37, 20, 1, false},
		{graph.BF16, 6, 36, 20, 1, true},
		{graph.F32, 40, 36, 24, 4, true},
		{graph.F16, 100, 24, 33, 1, false},
		{graph.F16, 4, 33, 16, 8, true},
		{graph.BF16, 140, 20, 12, 8, false},
	} {
		for _, mesh := range []string{"", "ep=2"} {
			e := experts{tokens: c.tokens, experts: 4}
			in := source()
			in.set["idx"] = e.route(func(i int) int { return i%2*(1+i%3) - i%7/6 }) // expert 0 has a choice of nearly every token
			p := throughLayer(t, c.d, c.tokens, c.hidden, c.width, c.align, c.transpose)
			cfg := e.config(t, mesh)
			if mesh != "" {
				delete(cfg.Place, "k")
				cfg.Place["w"] = sharding.Split("ep")
				for _, name := range []string{"gate", "up", "down"} {
					cfg.Place[name] = sharding.Split("ep")
				}
			}
			readThrough(t, p, cfg, map[string][]int{"grouped_swiglu": {0}})
			names := []string{"grouped_swiglu", "ep_place_weights"}
			t.Run(fmt.Sprint(i, mesh), func(t *testing.T) { metaltest.Check(t, p, cfg, in.of(t, p), metaltest.Options{Instructions: names}) })
			if i%2 == 0 {
				continue
			}
			back, err := vjp.Grad(p, "x", "gate", "down")
			require.NoError(t, err)
			readThrough(t, back, cfg, map[string][]int{"grouped_matmul": {0}, "grouped_outer": {map[bool]int{false: 0, true: 1}[c.transpose]}})
			t.Run(fmt.Sprint(i, mesh, " grad"), func(t *testing.T) {
				metaltest.Check(t, back, cfg, in.of(t, p), metaltest.Options{Instructions: []string{"grouped_matmul", "grouped_outer"}})
			})
		}
	}
}

// Both operands of a weight gradient are read through an index, if rows have no weights.
func TestIndexedOperands(t *testing.T) {
	for i, d := range []graph.DType{graph.F32, graph.BF16} {
		e := experts{tokens: 40 + 100*i, experts: 4}
		p, err := gomoe.Parse("t", fmt.Sprintf(`program p(idx i32[%[2]d,2], x %[1]s[%[2]d,36], w %[1]s[4,36,20], c %[1]s[%[2]d,20]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=4
	rows = ep_dispatch(x, r) experts=4
	y = grouped_matmul(rows, w, r)
	out = ep_combine(y, r) experts=4
	z = mul(out, c)
	loss = reduce_sum(z) axes=[0,1]
	return loss
}`, d, e.tokens))
		require.NoError(t, err)
		back, err := vjp.Grad(p, "w")
		require.NoError(t, err)
		in := source()
		in.set["idx"] = e.route(func(i int) int { return i % 3 })
		readThrough(t, back, gomoe.Config{}, map[string][]int{"grouped_outer": {0, 1}})
		metaltest.Check(t, back, gomoe.Config{}, in.of(t, back), metaltest.Options{Instructions: []string{"grouped_outer"}})
	}
}

// readThrough checks that the device runs products of these names with these arguments read through an index.
func readThrough(t *testing.T, p *graph.Program, cfg gomoe.Config, want map[string][]int) {
	t.Helper()
	cfg.Target = kernels.Metal{}
	plan, err := gomoe.Compile(t.Context(), p, cfg)
	require.NoError(t, err)
	for name, args := range want {
		if !slices.ContainsFunc(plan.Instrs, func(in lowering.Instr) bool {
			return in.Name() == name && in.On && slices.Equal(in.Indexed, args)
		}) {
			t.Errorf("%s does not read arguments %d through an index:\n%s", name, args, plan)
		}
	}
}

// A kernel that knows no index refuses an instruction that has one.
func TestRefusesIndex(t *testing.T) {
	in, _ := built(t, dotText("f32[8,4]", "f32[4,6]", "lhs_contract=[1] rhs_contract=[0]"), gomoe.Config{}, "dot_general")
	in.Indexed = []int{0}
	_, _, err := kernels.Build(in)
	var refused *kernels.RefusalError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "reads rows through an index", refused.Why)
}
