package quant

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Words, scales and biases are MLX's to the bit; testdata/affine/make.py has made them. What they stand for is quantised again to
// numbers within a step, and words beyond the rows stay as they are.
func TestAffine(t *testing.T) {
	file, err := os.ReadFile("testdata/affine/affine.bin")
	require.NoError(t, err)
	r := bytes.NewReader(file)
	read := func(to any) { require.NoError(t, binary.Read(r, binary.LittleEndian, to)) }
	x := make([]float32, 8*128)
	read(x)
	for _, c := range []struct{ bits, group int }{{4, 32}, {4, 64}, {8, 64}, {8, 128}} {
		words, scales, biases := make([]uint32, len(x)*c.bits/32), make([]float32, len(x)/c.group), make([]float32, len(x)/c.group)
		read(words)
		read(scales)
		read(biases)
		gotWords, gotScales, gotBiases := make([]uint32, len(words)+1), make([]float32, len(scales)), make([]float32, len(biases))
		gotWords[len(words)] = 7
		QuantizeAffine(gotWords, gotScales, gotBiases, x, c.bits, c.group)
		require.Equal(t, append(words, 7), gotWords, "%v", c)
		require.Equal(t, scales, gotScales, "%v", c)
		require.Equal(t, biases, gotBiases, "%v", c)
		y := make([]float32, len(x))
		DequantizeAffine(y, words, scales, biases, c.bits, c.group)
		for i, v := range x {
			require.InDelta(t, v, y[i], float64(abs(scales[i/c.group]))*1.01+1e-7, "%v: element %d", c, i)
		}
	}
	require.Zero(t, r.Len())
}
