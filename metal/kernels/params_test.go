package kernels

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Fields are 4 bytes each, the lowest first, in their order.
func TestParams(t *testing.T) {
	got := Params(1, int32(-2), uint32(math.MaxUint32), 1.5, float32(-0.5), true, false)
	require.Equal(t, OfBytes, got.Kind)
	require.Equal(t, []byte{
		1, 0, 0, 0,
		0xfe, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff,
		0, 0, 0xc0, 0x3f,
		0, 0, 0, 0xbf,
		1, 0, 0, 0,
		0, 0, 0, 0,
	}, got.Bytes)
	require.Panics(t, func() { Params(math.MaxInt32 + 1) }, "a number that does not fit is a kernel's mistake")
	require.Panics(t, func() { Params("text") })
}
