package nn_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// Frequencies and magnitudes are those of transformers, made by testdata/rope_scaling.py.
func TestRoPEScalings(t *testing.T) {
	b, err := os.ReadFile("testdata/rope_scaling.json")
	require.NoError(t, err)
	var fixture struct {
		Cases []struct {
			Name        string
			Frequencies []float64
			Magnitude   float64
		}
	}
	require.NoError(t, json.Unmarshal(b, &fixture))
	ops := map[string]primitives.RoPEOp{
		"linear":        nn.LinearRoPE{Factor: 4}.RoPE(0, 16),
		"ntk":           nn.NTKRoPE{Factor: 2, Original: 4096, Length: 10000}.RoPE(0, 16),
		"ntk short":     nn.NTKRoPE{Factor: 2, Original: 4096, Length: 100}.RoPE(5e5, 8),
		"yarn gpt-oss":  nn.YaRN{Factor: 32, Original: 4096, Fractions: true}.RoPE(150000, 64),
		"yarn deepseek": nn.YaRN{Factor: 40, Original: 4096, MScale: 0.707, MScaleAllDim: 1}.RoPE(1e4, 64),
		"yarn":          nn.YaRN{Factor: 4, Original: 32768}.RoPE(1e6, 128),
		"yarn given":    nn.YaRN{Factor: 8, Original: 64, Fast: 16, Slow: 2, Magnitude: 1.25}.RoPE(0, 12),
		"llama3":        nn.Llama3RoPE{Factor: 8, Low: 1, High: 4, Original: 8192}.RoPE(5e5, 128),
		"longrope":      nn.LongRoPE{Factors: []float64{1, 1.5, 2.25, 10}, Factor: 32, Original: 4096}.RoPE(0, 8),
	}
	require.Len(t, fixture.Cases, len(ops))
	for _, c := range fixture.Cases {
		op, ok := ops[c.Name]
		require.True(t, ok, c.Name)
		require.Len(t, op.Frequencies, len(c.Frequencies), c.Name)
		for i, want := range c.Frequencies {
			if got := op.Frequencies[i]; math.Abs(got-want) > 1e-13*want {
				t.Errorf("%s: frequency %d is %v, want %v", c.Name, i, got, want)
			}
		}
		got := op.Magnitude
		if got == 0 {
			got = 1
		}
		if math.Abs(got-c.Magnitude) > 1e-13 {
			t.Errorf("%s: magnitude %v, want %v", c.Name, got, c.Magnitude)
		}
		x := graph.T(graph.F32, 1, 2, 1, op.Width)
		if _, err := op.Infer([]graph.Type{x, graph.T(graph.I32, 2)}); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	// NTKRoPE without lengths divides the lowest frequency by the factor, and only that.
	f, g := nn.NTKRoPE{Factor: 4}.RoPE(0, 16).Frequencies, nn.LinearRoPE{Factor: 1}.RoPE(0, 16).Frequencies
	if f[0] != 1 || math.Abs(4*f[7]/g[7]-1) > 1e-13 || !(f[3] < g[3] && f[3] > g[3]/4) {
		t.Errorf("frequencies are %v, want the last to be a quarter of %v", f, g)
	}
}

// Parameters without sense are refused where rope is used.
func TestRoPEScalingsRefused(t *testing.T) {
	for name, op := range map[string]primitives.RoPEOp{
		"factor 0":        nn.LinearRoPE{}.RoPE(0, 8),
		"width 2":         nn.NTKRoPE{Factor: 2}.RoPE(0, 2),
		"no length":       nn.YaRN{Factor: 2}.RoPE(0, 8),
		"no factors":      nn.LongRoPE{Factors: []float64{1}}.RoPE(0, 8),
		"width of nobody": nn.LinearRoPE{Factor: 2}.RoPE(0, 12),
		"magnitude":       {Magnitude: math.Inf(1)},
	} {
		if _, err := op.Infer([]graph.Type{graph.T(graph.F32, 1, 2, 1, 8), graph.T(graph.I32, 2)}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
