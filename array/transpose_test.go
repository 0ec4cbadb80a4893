package array_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// Transposed reverses the dimensions.
func TestTransposed(t *testing.T) {
	a, err := array.Of([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	require.NoError(t, err)
	require.Equal(t, []float32{1, 4, 2, 5, 3, 6}, array.Data[float32](a.Transposed()))
	require.Equal(t, graph.T(graph.F32, 3, 2), a.Transposed().Type)
}
