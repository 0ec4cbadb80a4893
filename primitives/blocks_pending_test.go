package primitives_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/sharding"
)

// A pending sum is added before rounding it to int8. Sums of whole numbers are
// exact, so several ranks have the bits of one.
func TestBlocksRoundSums(t *testing.T) {
	p, err := gomoe.Parse("sums", `program p(x f32[6,4], k f32[4,64], w q8_0[10,64]) {
	y = dot_general(x, k) lhs_contract=[1] rhs_contract=[0]
	z = dot_general(y, w) lhs_contract=[1] rhs_contract=[1]
	return z
}`)
	require.NoError(t, err)
	in := map[string]array.Array{}
	for _, v := range p.In {
		gen := ints(-50, 50)
		if v.Type.DType.IsBlock() {
			gen = uniform(-1, 1)
		}
		in[v.Name] = gen(rand.New(rand.NewPCG(1, 2)), v.Type)
	}
	want, err := gomoe.Run(context.Background(), p, gomoe.Config{}, in)
	require.NoError(t, err)
	m, err := sharding.ParseMesh("a=2")
	require.NoError(t, err)
	cfg := gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": sharding.Split("", "a"), "k": sharding.Split("a")}}
	plan, err := gomoe.Compile(t.Context(), p, cfg)
	require.NoError(t, err)
	if !sums(plan) {
		t.Fatalf("no sum is pending in\n%s", plan)
	}
	got, err := gomoe.Run(context.Background(), p, cfg, in)
	require.NoError(t, err)
	if diff, at := array.MaxDiff(got[0], want[0]); diff != 0 {
		t.Errorf("element %d differs by %g from one rank's", at, diff)
	}
}
