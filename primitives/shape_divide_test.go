package primitives_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/sharding"
)

// An argument that is split because another one is must be divisible too, even if it is
// a constant, which each rank makes in any placement.
func TestConstantDoesNotDivide(t *testing.T) {
	p, err := gomoe.Parse("p.graph", `program p(q f64[2,2,2,4]) {
	k = full() value=1 dtype=f64 shape=[2,2,1,4]
	out, lse = attention(q, k, k)
	return out
}`)
	require.NoError(t, err)
	m, err := sharding.ParseMesh("a=2")
	require.NoError(t, err)
	_, err = gomoe.Compile(p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"q": sharding.Split("", "", "a")}})
	require.ErrorContains(t, err, "p.graph:3: attention(f64[2,2,2@a,4], f64[2,2,1,4], f64[2,2,1,4]): dimension 2 of f64[2,2,1,4] has size 1, which does not divide over the 2 ranks of a")
}
