package array

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/quant"
)

func TestOfBlocks(t *testing.T) {
	raw := make([]byte, 4*34)
	for i := range raw {
		raw[i] = byte(i)
	}
	a, err := OfBlocks(graph.Q8_0, raw, 2, 64)
	require.NoError(t, err)
	if !bytes.Equal(a.Bytes(), raw) || !a.Type.Equal(graph.T(graph.Q8_0, 2, 64)) {
		t.Errorf("%s %v", a.Type, a.Bytes())
	}
	raw[0] = 99
	if a.Bytes()[0] != 0 {
		t.Error("the array shares the caller's memory")
	}
	wide := make([]float32, 128)
	require.NoError(t, quant.Dequantize(wide, graph.Q8_0, a.Bytes()))
	if got := Data[float32](a.As(graph.F32)); got[65] != wide[65] || got[127] != wide[127] {
		t.Errorf("elements %v, want %v", got, wide)
	}
	if r := a.Rows(1, 2); !r.Type.Equal(graph.T(graph.Q8_0, 1, 64)) || !bytes.Equal(r.Bytes(), a.Bytes()[68:]) {
		t.Errorf("row 1 is %s of %d bytes", r.Type, len(r.Bytes()))
	}
	if r := a.Reshape(128).Rows(32, 96); !r.Type.Equal(graph.T(graph.Q8_0, 64)) || !bytes.Equal(r.Bytes(), a.Bytes()[34:102]) {
		t.Errorf("elements 32 to 96 are %s of %d bytes", r.Type, len(r.Bytes()))
	}
	for _, c := range []struct {
		d     graph.DType
		shape []int
		want  string
	}{
		{graph.F32, []int{34}, "array: blocks of f32, want one of q8_0, q4_k, q6_k, q2_k, iq2_xxs, mxfp4, q4_0, q4_1, q5_0, q5_1, q3_k, q5_k, iq3_xxs, iq4_nl, iq4_xs"},
		{graph.Q8_0, []int{4, 31}, "array: blocks: q8_0[4,31] has last dimension 31, want a multiple of 32"},
		{graph.Q8_0, []int{3, 32}, "array: 136 bytes of blocks for q8_0[3,32], want 102"},
		{graph.Q8_0, nil, "array: blocks: q8_0[] is a scalar"},
	} {
		if _, err := OfBlocks(c.d, raw, c.shape...); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// Numbers that blocks can represent do not change on the way to blocks and back.
func TestConvertBlocks(t *testing.T) {
	x := make([]float64, 512)
	for i := range x {
		x[i] = []float64{0, 1, 1, 0}[i%4]
	}
	for _, d := range quant.Types() {
		if d == graph.IQ2_XXS || d == graph.IQ3_XXS {
			continue // has no 0
		}
		for _, from := range append(dtypes, graph.Q6_K) {
			a := New(graph.T(from, 2, 256))
			require.NoError(t, a.SetFloat64s(x))
			if d == graph.MXFP4 && from == graph.Q6_K {
				continue // what is a little below 1 becomes 0.75
			}
			if from == graph.Bool && (d == graph.IQ4_NL || d == graph.IQ4_XS) {
				continue // has no 0, and what is near it becomes true
			}
			b := a.As(d)
			if most, at := MaxDiff(a, b); most > 0.01 {
				t.Errorf("%s to %s changes element %d by %v", from, d, at, most)
			}
			if !from.IsFloat() && from != graph.Bool {
				continue // what is a little below 1 becomes 0
			}
			if most, at := MaxDiff(a, b.As(from)); most > 0.01 {
				t.Errorf("%s to %s and back changes element %d by %v", from, d, at, most)
			}
		}
		one := New(graph.T(d, 256))
		one.Fill(1)
		if y := one.Float64s()[7]; math.Abs(y-1) > 0.01 {
			t.Errorf("%s filled with 1 has %v", d, y)
		}
		one.Fill(0)
		if y := one.Float64s()[7]; y != 0 {
			t.Errorf("%s filled with 0 has %v", d, y)
		}
		err := Convert(Array{Type: graph.T(d, 2, 3)}, New(graph.T(graph.F32, 2, 3)))
		if err == nil || !strings.Contains(err.Error(), "has last dimension 3, want a multiple of") {
			t.Errorf("%s of a part of a block: %v", d, err)
		}
	}
}

func TestBlocksInFiles(t *testing.T) {
	a := New(graph.T(graph.Q4_K, 2, 256))
	err := WriteNPY(new(bytes.Buffer), a)
	if want := "array: npy: q4_k[2,256] is stored in blocks, which the format does not know; write it as f32"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestPrintBlocks(t *testing.T) {
	a := New(graph.T(graph.MXFP4, 1, 32))
	a.Fill(1.5)
	if got := a.String(); !strings.HasPrefix(got, "mxfp4[1,32]\n[[1.5 1.5 ") {
		t.Errorf("prints %s", got)
	}
}
