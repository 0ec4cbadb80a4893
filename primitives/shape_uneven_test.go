package primitives_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/sharding"
)

// An argument that is split because another one is must be cut alike, even if it is a
// constant, which each rank makes in any placement.
func TestConstantIsCutAlike(t *testing.T) {
	p, err := gomoe.Parse("p.graph", `program p(k f64[2,2,3,4]) {
	q = full() value=1 dtype=f64 shape=[2,2,6,4]
	out, lse = attention(q, k, k)
	return out
}`)
	require.NoError(t, err)
	m, err := sharding.ParseMesh("a=2")
	require.NoError(t, err)
	_, err = gomoe.Compile(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"k": sharding.Split("", "", "a")}})
	require.ErrorContains(t, err, "p.graph:3: attention(f64[2,2,6,4], f64[2,2,3@a,4], f64[2,2,3@a,4]): dimension 2 of argument 0, f64[2,2,6,4], and dimension 2 of argument 1, f64[2,2,3,4], do not divide alike over the 2 ranks of a")
}
