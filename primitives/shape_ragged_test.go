package primitives_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

const raggedHead = `program p(idx i32[8,2], x f64[8,4], i i32[], j i32[2]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=4 axis="a"
	q = ep_dispatch(x, r) experts=4 axis="a"
`

// TestShapeRagged works on rows in expert order, forward and backward, on one
// rank and on four.
func TestShapeRagged(t *testing.T) {
	ctx := context.Background()
	p, err := gomoe.Parse("ragged", raggedHead+`	a = reshape(q) shape=[16,2,2]
	b = transpose(a) permutation=[0,2,1]
	c = rev(b) dimensions=[2]
	d = concatenate(a, b, c) dimension=2
	v = convert_element_type(i) dtype=f64
	e = pad(d, v) low=[0,1,0] high=[0,0,0]
	f = slice(e) start_indices=[0,0,1] limit_indices=[16,3,5] strides=[1,2,1]
	g = gather(f, j) axis=2
	h = dynamic_slice(f, i, i, i) slice_sizes=[16,2,2]
	k = dynamic_update_slice(f, h, i, i, i)
	z = slice(k) start_indices=[0,0,0] limit_indices=[16,2,2]
	s = scatter_add(z, j, g) axis=2
	o = iota() dtype=f64 shape=[16,2,2] dimension=1
	u = mul(s, o)
	w = sharding_constraint(u) spec="a,b"
	t = sharding_constraint(w) spec="a"
	p1 = reduce_prod(t) axes=[1]
	p2 = broadcast_in_dim(p1) shape=[16,2,2] dims=[0,2]
	p3 = add(t, p2)
	y = reshape(p3) shape=[16,4]
	m = ep_combine(y, r) experts=4 axis="a"
	return m
}`)
	require.NoError(t, err)
	pull, err := vjp.Pullback(p)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(6, 6))
	in := map[string]array.Array{}
	for _, v := range pull.In {
		switch v.Name {
		case "idx":
			in[v.Name] = ints(0, 4)(rng, v.Type)
		case "i", "j":
			in[v.Name] = ints(0, 2)(rng, v.Type)
		default:
			in[v.Name] = ints(-9, 9)(rng, v.Type)
		}
	}
	want, err := gomoe.Run(ctx, pull, gomoe.Config{}, in)
	require.NoError(t, err)
	m, err := sharding.ParseMesh("a=2,b=2")
	require.NoError(t, err)
	got, err := gomoe.Run(ctx, pull, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"idx": sharding.Split("a"), "x": sharding.Split("a")}}, in)
	require.NoError(t, err)
	for k := range want {
		if !array.Equal(got[k], want[k]) {
			t.Errorf("result %d on four ranks: %v, on one: %v", k, got[k], want[k])
		}
	}
}

// TestShapeRaggedRefused has operations that would mix rows or need their number.
func TestShapeRaggedRefused(t *testing.T) {
	m, err := sharding.ParseMesh("a=2,b=2")
	require.NoError(t, err)
	for _, src := range []string{
		"y = reshape(q) shape=[64]",
		"y = reshape(q) shape=[8,8]",
		"y = transpose(q) permutation=[1,0]",
		"y = rev(q) dimensions=[0]",
		"y = concatenate(q, q)",
		"y = slice(q) start_indices=[0,0] limit_indices=[8,4]",
		"y = gather(q, j)",
		"o = iota() dtype=f64 shape=[16,4]\n y = mul(q, o)",
		"y = sharding_constraint(q) spec=\"b\"",
		"y = sharding_constraint(q)",
	} {
		p, err := gomoe.Parse("ragged", raggedHead+src+"\n return y\n}")
		require.NoError(t, err, src)
		_, err = gomoe.Place(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"idx": sharding.Split("a"), "x": sharding.Split("a")}})
		if err == nil || !strings.HasPrefix(err.Error(), "ragged:4: ") && !strings.HasPrefix(err.Error(), "ragged:5: ") || !strings.Contains(err.Error(), "known only to the run") {
			t.Errorf("%s: %v, want an error about rows whose number is known only to the run", src, err)
		}
	}
}
