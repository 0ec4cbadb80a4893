package quant_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/quant"
)

// The blocks of every type are as close to numbers with the outliers of weights as llama.cpp's are, whose errors testdata/errors.py
// has measured, or closer. A row may be off by a twentieth more where another one is off by less.
func TestLossOfBlocks(t *testing.T) {
	text, err := os.ReadFile("testdata/errors.json")
	require.NoError(t, err)
	var want struct {
		Rows   [][]float32
		Errors map[string][]float64
	}
	require.NoError(t, json.Unmarshal(text, &want))
	for _, d := range quant.Types() {
		require.Contains(t, want.Errors, d.String())
		n, size := d.Block()
		ours, theirs := 0.0, 0.0
		for i, x := range want.Rows {
			blocks, y := make([]byte, len(x)/n*size), make([]float32, len(x))
			require.NoError(t, quant.Quantize(blocks, d, x))
			require.NoError(t, quant.Dequantize(y, d, blocks))
			sum := 0.0
			for j := range x {
				off := float64(y[j]) - float64(x[j])
				sum += off * off
			}
			got := math.Sqrt(sum / float64(len(x)))
			if ours, theirs = ours+got/want.Errors[d.String()][i], theirs+1; got > 1.05*want.Errors[d.String()][i] {
				t.Errorf("%s: row %d is off by %g, and by %g in llama.cpp", d, i, got, want.Errors[d.String()][i])
			}
		}
		if ours > 1.0001*theirs {
			t.Errorf("%s: rows are off by %g of what they are off by in llama.cpp", d, ours/theirs)
		}
	}
	require.Len(t, want.Errors, len(quant.Types()))
	require.Contains(t, want.Errors, graph.Q4_1.String())
}
