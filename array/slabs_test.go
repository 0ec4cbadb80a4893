package array_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// An array in slabs has the elements of the array in one piece. What would take it for one panics.
func TestSlabs(t *testing.T) {
	whole, err := array.Of([]float32{1, 2, 3, 4, 5, 6}, 3, 1, 2)
	require.NoError(t, err)
	var slabs [][]byte
	for _, i := range []int{2, 0, 1} {
		slabs = append(slabs, whole.Slab(i))
	}
	a := array.InSlabs(whole.Type, slabs)
	require.True(t, a.HasSlabs())
	require.False(t, whole.HasSlabs())
	require.Equal(t, []float32{5, 6, 1, 2, 3, 4}, array.Data[float32](a.Dense()))
	require.Equal(t, []float32{5, 6, 1, 2, 3, 4}, array.Data[float32](a.Clone()))
	for i, s := range slabs {
		require.Same(t, &s[0], &a.Slab(i)[0])
		require.Len(t, a.Slab(i), 8)
	}
	require.Same(t, &whole.Bytes()[0], &whole.Dense().Bytes()[0])
	require.Empty(t, array.Outline(whole.Type).Slab(2))
	for name, f := range map[string]func(){
		"bytes": func() { a.Bytes() }, "data": func() { array.Data[float32](a) }, "rows": func() { a.Rows(0, 1) }, "reshape": func() { a.Reshape(6) },
		"equal": func() { array.Equal(a, whole) },
	} {
		require.PanicsWithValue(t, "array: the bytes of f32[3,1,2], which lies in slabs; Dense copies it", f, name)
	}
	require.PanicsWithValue(t, "array: InSlabs(f32[3,1,2]): 2 slabs, want one for each index of dimension 0", func() { array.InSlabs(whole.Type, slabs[:2]) })
	require.PanicsWithValue(t, "array: InSlabs(f32[3,1,2]): slab 1 has 4 bytes, want 8", func() {
		array.InSlabs(whole.Type, [][]byte{slabs[0], slabs[1][:4], slabs[2]})
	})
	none := array.InSlabs(graph.T(graph.F32, 0, 2), nil)
	require.True(t, none.HasSlabs())
	require.Empty(t, none.Dense().Bytes())
}
