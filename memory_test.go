package gomoe_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/sharding"
)

// A plan that needs more memory than there is, or than can be counted, is refused before
// the memory is taken.
func TestMemory(t *testing.T) {
	for _, c := range []struct{ shape, mesh, want string }{
		{"1048576,1048576", "", "gomoe: program p needs 8.0 TiB of memory for 1 of the 1 ranks of its mesh in this process, beside its inputs, and "},
		{"1048576,1048576", "dp=4", "gomoe: program p needs 8.0 TiB of memory for 4 of the 4 ranks"},
		{"536870912,1073741824", "", "gomoe: program p needs 4.0 EiB of memory"},
	} {
		p, err := gomoe.Parse("large.graph", "program p(x f64["+c.shape+"]) {\n y = exp(x)\n return y\n}")
		require.NoError(t, err)
		m, err := sharding.ParseMesh(c.mesh)
		require.NoError(t, err)
		_, err = gomoe.Open(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": {Dims: [][]string{axes(m)}}}})
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, " can be had (")
	}
}

func axes(m sharding.Mesh) []string {
	var names []string
	for _, a := range m.Axes {
		names = append(names, a.Name)
	}
	return names
}
