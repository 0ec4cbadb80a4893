package primitives_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// TestShapePending follows pending sums through shape primitives: each program
// has the exchanges listed, and the result of one rank.
func TestShapePending(t *testing.T) {
	m, err := sharding.ParseMesh("a=2")
	require.NoError(t, err)
	const sum = "s = reduce_sum(x) axes=[0] unordered=true\n " // f64[4,2], pending
	for _, c := range []struct{ src, want string }{
		{sum + "y = reshape(s) shape=[8]", "all_sum 64"},
		{sum + "y = transpose(s) permutation=[1,0]", "all_sum 64"},
		{sum + "y = slice(s) start_indices=[1,0] limit_indices=[2,2]", "all_sum 16"},
		{sum + "y = rev(s) dimensions=[0]", "all_sum 64"},
		{sum + "y = concatenate(s, s)", "all_sum 128"},
		{sum + "z = full() dtype=f64 shape=[1,2]\n y = concatenate(s, z)", "all_sum 64"},
		{sum + "z = full() dtype=f64\n y = pad(s, z) low=[1,0] high=[0,0]", "all_sum 80"},
		{sum + "z = full() value=1 dtype=f64\n y = pad(s, z) low=[1,0] high=[0,0]", "all_sum 64"},
		{sum + "y = dynamic_slice(s, i, i) slice_sizes=[2,2]", "all_sum 32"},
		{sum + "z = full() dtype=f64 shape=[8,2]\n y = dynamic_update_slice(z, s, i, i)", "all_sum 128"},
		{sum + "z = full() dtype=f64 shape=[1,2]\n y = dynamic_update_slice(s, z, i, i)", "all_sum 64"},
		{sum + "z = full() value=1 dtype=f64 shape=[8,2]\n y = dynamic_update_slice(z, s, i, i)", "all_sum 64"},
		{sum + "y = gather(s, j)", "all_sum 32"},
		{sum + "z = full() dtype=f64 shape=[3,2]\n n = gather(j, i4)\n y = scatter_add(z, n, s)", "all_sum 48"},
		{sum + "z = full() value=1 dtype=f64 shape=[3,2]\n n = gather(j, i4)\n y = scatter_add(z, n, s)", "all_sum 64"},
		{sum + "y = sharding_constraint(s) spec=\"a\"", "reduce_scatter 64"},
		{sum + "y = sharding_constraint(s)", "all_sum 64"},
		// The rows of b are split: each rank adds its own, and x once.
		{"z = reduce_sum(x) axes=[0,1]\n w = broadcast_in_dim(z) shape=[3,2] dims=[1]\n y = scatter_add(w, k, b)", "all_gather 16, all_sum 48"},
	} {
		p, err := gomoe.Parse("pending", "program p(x f64[2,4,2], i i32[], j i32[2], i4 i32[4], k i32[4], b f64[4,2]) {\n "+c.src+"\n return y\n}")
		require.NoError(t, err)
		rng := rand.New(rand.NewPCG(1, 1))
		in := map[string]array.Array{"i": array.Scalar(int32(0))}
		for _, name := range []string{"x", "b"} {
			in[name] = ints(-9, 9)(rng, p.Input(name).Type)
		}
		for _, name := range []string{"j", "i4", "k"} {
			in[name] = ints(0, 2)(rng, p.Input(name).Type)
		}
		cfg := gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": sharding.Split("a"), "k": sharding.Split("a"), "b": sharding.Split("a")}}
		plan, err := gomoe.Compile(t.Context(), p, cfg)
		require.NoError(t, err, c.src)
		var got []string
		for _, in := range plan.Instrs {
			if in.Communicates() {
				got = append(got, fmt.Sprintf("%s %d", in.Name(), in.Bytes))
			}
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s\nexchanges %s, want %s\n%s", c.src, s, c.want, plan)
		}
		one, err := gomoe.Run(context.Background(), p, gomoe.Config{}, in)
		require.NoError(t, err)
		two, err := gomoe.Run(context.Background(), p, cfg, in)
		require.NoError(t, err)
		if !array.Equal(one[0], two[0]) {
			t.Errorf("%s\ntwo ranks give %v, one %v", c.src, two[0], one[0])
		}
	}
}

// TestConstraintWithoutAxes runs a program with a constraint on meshes that do
// not have its axes.
func TestConstraintWithoutAxes(t *testing.T) {
	p, err := gomoe.Parse("constraint", "program p(x f64[4,4]) {\n y = sharding_constraint(x) spec=\"dp.ep,tp\"\n return y\n}")
	require.NoError(t, err)
	for mesh, want := range map[string]string{
		"": "f64[4,4]", "ep=2": "f64[4@ep,4]", "tp=4": "f64[4,4@tp]", "ep=2,dp=2": "f64[4@dp.ep,4]", "pp=3": "f64[4,4]",
	} {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		a, err := gomoe.Place(t.Context(), p, gomoe.Config{Mesh: m})
		require.NoError(t, err)
		if got := a.Out[0].Format(p.Out[0].Type); got != want {
			t.Errorf("mesh %q: %s, want %s", mesh, got, want)
		}
	}
}

// TestConstraintMakesConstantsInPlace checks that nothing is moved that every rank can
// make.
func TestConstraintMakesConstantsInPlace(t *testing.T) {
	p, err := gomoe.Parse("constraint", "program p(x f64[4]) {\n i = iota() dtype=f64 shape=[4,4]\n j = sharding_constraint(i) spec=\"a\"\n b = broadcast_in_dim(x) shape=[4,4] dims=[1]\n c = sharding_constraint(b) spec=\"_,a\"\n return j, c\n}")
	require.NoError(t, err)
	m, err := sharding.ParseMesh("a=2")
	require.NoError(t, err)
	plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Mesh: m})
	require.NoError(t, err)
	var names []string
	for _, in := range plan.Instrs {
		names = append(names, in.Name()+" "+plan.Bufs[in.Out[0]].Type.String())
	}
	if got, want := strings.Join(names, ", "), "iota f64[2,4], shard_part f64[2], broadcast_in_dim f64[4,2]"; got != want {
		t.Errorf("%s, want %s\n%s", got, want, plan)
	}
}

// TestConstraintGradient brings cotangents back to where their values lie.
func TestConstraintGradient(t *testing.T) {
	p, err := gomoe.Parse("constraint", "program p(x f64[4,4]) {\n y = sharding_constraint(x) spec=\"_,a\"\n z = mul(y, y)\n s = reduce_sum(z) axes=[0,1]\n return s\n}")
	require.NoError(t, err)
	g, err := vjp.Grad(p, "x")
	require.NoError(t, err)
	m, err := sharding.ParseMesh("a=2")
	require.NoError(t, err)
	a, err := gomoe.Place(t.Context(), g, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": sharding.Split("a")}})
	require.NoError(t, err)
	last := len(a.Out) - 1
	if got := a.Out[last].Format(graph.T(graph.F64, 4, 4)); got != "f64[4@a,4]" {
		t.Errorf("the gradient lies as %s, want f64[4@a,4]\n%s", got, a.Format())
	}
}
