package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/sharding"
)

// experts is a layer of linear experts, with tokens of hidden elements that have two
// choices each, and products with one matrix for all rows.
type experts struct {
	d                                   graph.DType
	tokens, experts, hidden, width, all int
	align                               int
}

// text is a program with all products of experts' rows, forward, of cotangents, and of
// weights.
func (e experts) text() string {
	params := fmt.Sprintf("experts=%d", e.experts)
	if e.align > 1 {
		params += fmt.Sprintf(" align=%d", e.align)
	}
	return fmt.Sprintf(`program p(idx i32[%[2]d,2], x %[1]s[%[2]d,%[4]d], k %[1]s[%[3]d,%[4]d,%[5]d], v %[1]s[%[4]d,%[6]d]) {
	r, drop, n, pad, demand = ep_prepare(idx) %[7]s
	rows = ep_dispatch(x, r) %[7]s
	y = grouped_matmul(rows, k, r)
	dx = grouped_matmul(y, k, r) transpose=true
	dk = grouped_outer(rows, y, r) experts=%[3]d
	z = dot_general(rows, v) lhs_contract=[1] rhs_contract=[0]
	dv = dot_general(rows, y) lhs_contract=[0] rhs_contract=[0]
	a = ep_combine(dx, r) %[7]s
	b = ep_combine(z, r) %[7]s
	return a, b, dk, dv
}`, e.d, e.tokens, e.experts, e.hidden, e.width, e.all, params)
}

// config places the layer on a mesh.
func (e experts) config(t *testing.T, mesh string) gomoe.Config {
	t.Helper()
	m, err := sharding.ParseMesh(mesh)
	require.NoError(t, err)
	tokens := map[string]string{"": "", "ep=2": "ep", "dp=2,ep=2": "dp.ep"}[mesh]
	cfg := gomoe.Config{Mesh: m}
	if mesh != "" {
		cfg.Place = map[string]sharding.Spec{"idx": sharding.Split(tokens), "x": sharding.Split(tokens), "k": sharding.Split("ep")}
	}
	return cfg
}

// route has each token's choices made by f.
func (e experts) route(f func(i int) int) array.Array {
	a := array.New(graph.T(graph.I32, e.tokens, 2))
	for i := range array.Data[int32](a) {
		array.Data[int32](a)[i] = int32(f(i))
	}
	return a
}

// Products of experts' rows, in zones with and without rows between them, of experts with
// all tokens and with none, with few rows and many, on every kind of mesh.
func TestGroupedProducts(t *testing.T) {
	some := func(experts int) func(int) int { // or none
		r := rand.New(rand.NewPCG(3, 4))
		return func(int) int {
			if e := r.IntN(experts+1) - 1; e != 1 {
				return e
			}
			return 0
		}
	}
	last := func(experts int) func(int) int { return func(int) int { return experts - 1 } }
	none := func(int) func(int) int { return func(int) int { return -1 } }
	for i, e := range []experts{
		{tokens: 8, experts: 4, hidden: 4, width: 3, all: 5},
		{tokens: 40, experts: 4, hidden: 33, width: 20, all: 31},
		{tokens: 40, experts: 40, hidden: 68, width: 12, all: 1}, // more experts than lanes
		{tokens: 140, experts: 2, hidden: 12, width: 70, all: 66},
		{tokens: 41, experts: 5, hidden: 12, width: 8, all: 7},
		{tokens: 3, experts: 1, hidden: 12, width: 8, all: 7},
	} {
		for j, c := range []struct {
			mesh  string
			route func(experts int) func(i int) int
		}{{"", some}, {"", last}, {"", none}, {"ep=2", some}, {"dp=2,ep=2", some}} {
			if !sampled(i, j) {
				continue
			}
			// Zones of multiples of 24 have tiles without a row in use.
			e.d, e.align = []graph.DType{graph.F32, graph.BF16, graph.F16}[(i+2*j)%3], []int{24, 1, 8}[(i/2+j)%3]
			r := source()
			r.set["idx"] = e.route(c.route(e.experts))
			check(t, e.text(), e.config(t, c.mesh), r, "grouped_matmul", "grouped_outer", "dot_general")
		}
	}
}

// Products of experts' rows that the host has to do say why.
func TestGroupedRefuses(t *testing.T) {
	for _, c := range []struct {
		d             graph.DType
		product, last string // rows in expert order cannot be a result
		why           string
	}{
		{graph.F64, "grouped_matmul(rows, k, r)", "s = reduce_sum(y) axes=[0]", "no kernel for elements of f64, only of f32, f16 and bf16"},
		{graph.F64, "grouped_outer(rows, rows, r) experts=4", "s = neg(y)", "no kernel for elements of f64, only of f32, f16 and bf16"},
		{graph.F32, "dot_general(rows, rows) lhs_contract=[1] rhs_contract=[1] lhs_batch=[0] rhs_batch=[0]", "s = reduce_sum(y) axes=[0]", "experts' rows are batches of a product"},
		{graph.F32, "dot_general(rows, rows) lhs_contract=[0,1] rhs_contract=[0,1]", "s = neg(y)", "it sums over experts' rows and other dimensions too"},
		{graph.F32, "dot_general(rows, k) lhs_contract=[1] rhs_contract=[1]", "s = reduce_sum(y) axes=[0]", "the matrix of a product with experts' rows has dimensions that no one stride describes"},
	} {
		p, err := gomoe.Parse("t", fmt.Sprintf(`program p(idx i32[8,2], x %[1]s[8,6], k %[1]s[4,6,5]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=4
	rows = ep_dispatch(x, r) experts=4
	y = %[2]s
	%[3]s
	return s
}`, c.d, c.product, c.last))
		require.NoError(t, err, c.product)
		plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Target: kernels.Metal{}})
		require.NoError(t, err, c.product)
		i := slices.IndexFunc(plan.Instrs, func(in lowering.Instr) bool {
			return strings.HasPrefix(c.product, in.Name()+"(")
		})
		require.GreaterOrEqual(t, i, 0, "%s\n%s", c.product, plan)
		if in := plan.Instrs[i]; in.On || in.Why != c.why {
			t.Errorf("%s: on %v, %q, want %q", c.product, in.On, in.Why, c.why)
		}
	}
}
