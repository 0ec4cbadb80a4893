package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/tensor"
)

// Two heads of six rows: with four, both orders would be the same.
func TestHeads(t *testing.T) {
	pairs, err := array.Of([]int32{0, 3, 1, 4, 2, 5, 10, 13, 11, 14, 12, 15}, 12, 1)
	require.NoError(t, err)
	halves := tensor.ToHalves(pairs, 6)
	require.Equal(t, []int32{0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15}, array.Data[int32](halves))
	require.Equal(t, array.Data[int32](pairs), array.Data[int32](tensor.ToNeighbours(halves, 6)))
}
