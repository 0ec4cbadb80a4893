package kernels_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// Rows of a batch come in order, and go back, wherever the batch is split, elements of all
// sizes, and as unequally as the ranks hold them.
func TestBatchRows(t *testing.T) {
	r := source()
	for i, c := range []struct {
		mesh, place string
		shape       []int
	}{
		{"a=2", "_,a", []int{4, 6, 2}},
		{"a=3", "_,a", []int{2, 6, 5}},
		{"a=2", "_,_,a", []int{2, 3, 4, 2}},
		{"a=2,b=2", "_,a.b", []int{3, 8, 3}},
		{"a=2,b=2", "b,a", []int{4, 6, 2}},
		{"b=2,a=3", "_,b,a", []int{2, 4, 6, 1}},
		{"a=2,b=2", "_,a,b", []int{2, 4, 6}},
		{"a=2", "_,a", []int{7, 4, 33}},
	} {
		m, err := sharding.ParseMesh(c.mesh)
		require.NoError(t, err)
		spec, err := sharding.ParseSpec(c.place)
		require.NoError(t, err)
		rows, last := 1, c.shape[len(c.shape)-1]
		for _, n := range c.shape[:len(c.shape)-1] {
			rows *= n
		}
		d := []graph.DType{graph.F32, graph.BF16, graph.F64, graph.F32}[i%4]
		typ := graph.T(d, c.shape...)
		p, err := gomoe.Parse("batch", fmt.Sprintf("program p(x %s) {\n y = reshape(x) shape=[%d,%d] batch=true\n z = neg(y)\n w = reshape(z, x) shape=%s batch=true\n u = neg(w)\n return u\n}",
			typ, rows, last, typ.String()[len(d.String()):]))
		require.NoError(t, err)
		t.Run(fmt.Sprint(typ, "@", c.place, " ", c.mesh), func(t *testing.T) {
			cfg := gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": spec.On(m)}}
			compare(t, p, cfg, map[string]array.Array{"x": r.random(t, typ)}, "rows_together", "rows_apart")
		})
	}
}
