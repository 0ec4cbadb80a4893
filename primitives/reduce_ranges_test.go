package primitives_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// Reductions over a dimension split by an axis with ranges have the bits of one rank, also for as many ranks as the
// ranges have experts.
func TestReduceOverRanges(t *testing.T) {
	x := array.New(graph.T(graph.F64, 8, 40))
	for i := range array.Data[float64](x) {
		array.Data[float64](x)[i] = float64(i * 7919 % 1013)
	}
	in := map[string]array.Array{"x": x}
	for _, name := range []string{"reduce_max", "reduce_min", "reduce_sum", "reduce_prod"} {
		p, err := gomoe.Parse(name, "program p(x f64[8,40]) {\n\ty f64[40] = "+name+"(x) axes=[0]\n\treturn y\n}\n")
		require.NoError(t, err)
		want, err := gomoe.Run(t.Context(), p, gomoe.Config{}, in)
		require.NoError(t, err)
		for mesh, place := range map[string][]string{"a=2,b=4:1/3": {"b", "a"}, "b=0-1/none": {"b"}, "b=3:2/1/0": {"b"}, "b=0-1/2-2/3-3/none": {"b"}, "b=4:1/3": {"b"}} {
			m, err := sharding.ParseMesh(mesh)
			require.NoError(t, err)
			got, err := gomoe.Run(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": {Dims: [][]string{place, nil}}}}, in)
			require.NoError(t, err, "%s on %s", name, mesh)
			require.Equal(t, array.Data[float64](want[0]), array.Data[float64](got[0]), "%s on %s", name, mesh)
		}
	}
}
