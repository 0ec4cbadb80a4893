package picture

import (
	"bytes"
	"image/png"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// The picture has a column for each layer, in the colours of the load.
func TestLayers(t *testing.T) {
	draw := func(load [][]float64) []byte {
		var b bytes.Buffer
		require.NoError(t, Layers{Title: "title", Load: load}.Draw(&b))
		return b.Bytes()
	}
	even := draw([][]float64{{0.5, 0.5}, {0.5, 0.5}})
	require.Equal(t, even, draw([][]float64{{0.5, 0.5}, {0.5, 0.5}}))
	uneven := draw([][]float64{{0.5, 0.5}, {1, 0}})
	img, err := png.Decode(bytes.NewReader(uneven))
	require.NoError(t, err)
	size := img.Bounds().Size()
	at := func(x, y float64) (r, b int) {
		cr, _, cb, _ := img.At(int(x*float64(size.X)), int(y*float64(size.Y))).RGBA()
		return int(cr >> 8), int(cb >> 8)
	}
	r, b := at(0.25, 0.7)
	require.InDelta(t, r, b, 2, "layer 0 is white")
	r, b = at(0.65, 0.75)
	require.Greater(t, r, b+50, "expert 0 of layer 1 is red")
	r, b = at(0.65, 0.3)
	require.Greater(t, b, r+50, "expert 1 of layer 1 is blue")

	require.ErrorContains(t, Layers{}.Draw(io.Discard), "no layer has experts")
	require.ErrorContains(t, Layers{Load: [][]float64{{1}, {1, 2}}}.Draw(io.Discard), "layer 1 has the load of 2 experts, want 1 as layer 0")
}
