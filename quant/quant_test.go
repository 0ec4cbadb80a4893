package quant_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/quant"
)

func floats(b []byte) []float32 {
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}

// Elements have the bits of ggml's; testdata/make.py says where they are from.
func TestDequantizeIsGGML(t *testing.T) {
	for _, d := range quant.Types() {
		file, err := os.ReadFile(filepath.Join("testdata", d.String()+".bin"))
		require.NoError(t, err)
		n, size := d.Block()
		blocks := len(file) / (size + 4*n)
		require.Equal(t, blocks*(size+4*n), len(file))
		want := floats(file[blocks*size:])
		got := make([]float32, len(want))
		require.NoError(t, quant.Dequantize(got, d, file[:blocks*size]))
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Fatalf("%s: element %d is %v, want %v", d, i, got[i], want[i])
			}
		}
	}
}

// Types whose blocks are determined by the elements have the same blocks as ggml's.
func TestQuantizeIsGGML(t *testing.T) {
	for _, d := range []graph.DType{graph.Q8_0, graph.MXFP4, graph.Q4_0, graph.Q4_1, graph.Q5_0, graph.Q5_1} {
		file, err := os.ReadFile(filepath.Join("testdata", d.String()+"_quantize.bin"))
		require.NoError(t, err)
		n, size := d.Block()
		blocks := len(file) / (size + 4*n)
		require.Equal(t, 6, blocks)
		got := make([]byte, blocks*size)
		require.NoError(t, quant.Quantize(got, d, floats(file[:4*n*blocks])))
		if want := file[4*n*blocks:]; !bytes.Equal(got, want) {
			t.Errorf("%s: blocks\n%x, want\n%x", d, got, want)
		}
	}
}

// The relative error of normal numbers is about what the number of bits allows, and
// numbers that were quantised do not change when they are quantised again.
func TestQuantizeError(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		d     graph.DType
		bound float64
	}{
		{graph.Q8_0, 0.006}, {graph.Q4_K, 0.08}, {graph.Q6_K, 0.022}, {graph.Q2_K, 0.33}, {graph.IQ2_XXS, 0.47}, {graph.MXFP4, 0.13},
		{graph.Q4_0, 0.1}, {graph.Q4_1, 0.09}, {graph.Q5_0, 0.05}, {graph.Q5_1, 0.04}, {graph.Q3_K, 0.2}, {graph.Q5_K, 0.04}, {graph.IQ3_XXS, 0.25}, {graph.IQ4_NL, 0.09}, {graph.IQ4_XS, 0.09},
	} {
		d, bound := c.d, c.bound
		for _, scale := range []float64{1, 1e-3, 300} {
			x := make([]float32, 4096)
			for i := range x {
				x[i] = float32(r.NormFloat64() * scale)
			}
			y := roundTrip(t, d, x)
			err, sum := 0.0, 0.0
			for i := range x {
				err += math.Pow(float64(y[i]-x[i]), 2)
				sum += math.Pow(float64(x[i]), 2)
			}
			if e := math.Sqrt(err / sum); !(e < bound) || e < bound/4 {
				t.Errorf("%s of size %g: error %.4f, want less than %.4f, and not much less", d, scale, e, bound)
			}
			z := roundTrip(t, d, y)
			for i := range y {
				if math.Abs(float64(z[i]-y[i])) > bound*2*max(scale, math.Abs(float64(y[i]))) {
					t.Errorf("%s: element %d is %v, and %v when it is quantised again", d, i, y[i], z[i])
					break
				}
			}
		}
	}
}

func roundTrip(t *testing.T, d graph.DType, x []float32) []float32 {
	t.Helper()
	y := make([]float32, len(x))
	require.NoError(t, quant.Dequantize(y, d, quantized(t, d, x)))
	return y
}

func quantized(t *testing.T, d graph.DType, x []float32) []byte {
	t.Helper()
	n, size := d.Block()
	b := make([]byte, len(x)/n*size)
	for i := range b {
		b[i] = 0xa5 // is overwritten
	}
	require.NoError(t, quant.Quantize(b, d, x))
	return b
}

func TestQuantizeExtremes(t *testing.T) {
	for _, d := range quant.Types() {
		n, _ := d.Block()
		for name, v := range map[string]float32{"0": 0, "-0": float32(math.Copysign(0, -1)), "tiny": 1e-45, "small": 1e-30, "1": 1, "-1": -1, "large": 3e38} {
			x := make([]float32, 2*n)
			for i := range x[:n] {
				x[i] = v
			}
			y := roundTrip(t, d, x)
			for i := range y {
				want := float64(x[i])
				if tol := 0.15*math.Abs(want) + 1e-7; math.Abs(float64(y[i])-want) > tol && math.Abs(want) < 1e6 {
					t.Errorf("%s of %s: element %d is %v, want about %v", d, name, i, y[i], want)
					break
				}
				if name == "large" && d != graph.MXFP4 && i < n && y[i]-y[i] == 0 && y[i] != 0 {
					t.Errorf("%s of %s: element %d is %v, which is neither near nor infinite nor NaN", d, name, i, y[i])
					break
				}
			}
		}
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			x := make([]float32, 2*n)
			x[7] = float32(v)
			for i, y := range roundTrip(t, d, x) {
				if (y-y == 0) != (i >= n) {
					t.Errorf("%s: element %d is %v with %v in element 7", d, i, y, v)
					break
				}
			}
		}
	}
}

// Any bytes can be dequantised.
func TestDequantizeAnyBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, d := range quant.Types() {
		n, size := d.Block()
		for range 200 {
			b := make([]byte, size)
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			require.NoError(t, quant.Dequantize(make([]float32, n), d, b))
		}
	}
}

// What a caller has on its stack stays there: nothing is allocated.
func TestAllocations(t *testing.T) {
	for _, d := range quant.Types() {
		n, size := d.Block()
		for _, first := range []float32{1, float32(math.NaN())} {
			if allocs := testing.AllocsPerRun(10, func() {
				var elements [256]float32
				var block [256]byte
				elements[0] = first
				if quant.Quantize(block[:size], d, elements[:n]) != nil || quant.Dequantize(elements[:n], d, block[:size]) != nil {
					t.Fatal("a block of its size is refused")
				}
			}); allocs != 0 {
				t.Errorf("%s: %v allocations, want none", d, allocs)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		elements, bytes int
		d               graph.DType
		want            string
	}{
		{32, 128, graph.F32, "quant: element type f32, want one of q8_0, q4_k, q6_k, q2_k, iq2_xxs, mxfp4, q4_0, q4_1, q5_0, q5_1, q3_k, q5_k, iq3_xxs, iq4_nl, iq4_xs"},
		{40, 34, graph.Q8_0, "quant: 40 elements of q8_0, want a multiple of 32"},
		{256, 143, graph.Q4_K, "quant: 143 bytes for 256 elements of q4_k, want 144"},
		{0, 0, graph.Q4_K, ""},
	} {
		for _, err := range []error{
			quant.Dequantize(make([]float32, c.elements), c.d, make([]byte, c.bytes)),
			quant.Quantize(make([]byte, c.bytes), c.d, make([]float32, c.elements)),
		} {
			if err == nil != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		}
	}
}

// Scales are the f16 of package array. With q8_0 of one number, the test sees all of them.
func TestHalf(t *testing.T) {
	b, y := make([]byte, 34), make([]float32, 32)
	b[2] = 1
	for h := range 1 << 16 {
		binary.LittleEndian.PutUint16(b, uint16(h))
		require.NoError(t, quant.Dequantize(y, graph.Q8_0, b))
		if want := array.Half(h).Float32(); y[0] != want && (y[0] == y[0] || want == want) {
			t.Fatalf("f16 %04x is %v, want %v", h, y[0], want)
		}
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 100000 {
		x := math.Float32frombits(r.Uint32())
		if x-x != 0 {
			continue
		}
		d := float32(math.Abs(float64(x))) / 127
		require.NoError(t, quant.Quantize(b, graph.Q8_0, append([]float32{x}, make([]float32, 31)...)))
		if got, want := array.Half(binary.LittleEndian.Uint16(b)), array.HalfOf(d); got != want {
			t.Fatalf("%v as f16 is %04x, want %04x", d, got, want)
		}
	}
}
