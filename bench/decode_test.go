package main

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// A block by hand: what each field does to the number that it scales.
func TestQ4K(t *testing.T) {
	f := q4K()
	b := make([]byte, f.bytes)
	putHalf(b, 0.5)
	putHalf(b[2:], 0.25)
	// Run 1 has scale 3 and minimum 5; run 6 has scale 0b100001 and minimum 0b110010.
	b[4+1], b[4+5] = 3, 5
	b[4+10] = 0b0001 | 0b0010<<4
	b[4+2] |= 0b10 << 6
	b[4+6] |= 0b11 << 6
	b[16+0*32+7] = 9 << 4 // number 7 of run 1
	b[16+3*32+31] = 11    // number 31 of run 6
	var x [256]float64
	f.decode(x[:], b)
	for i, want := range map[int]float64{0: 0, 32 + 7: 0.5*3*9 - 0.25*5, 32 + 8: -0.25 * 5, 6*32 + 31: 0.5*33*11 - 0.25*50, 6 * 32: -0.25 * 50, 7 * 32: 0} {
		if x[i] != want {
			t.Errorf("number %d is %g, want %g", i, x[i], want)
		}
	}
}

func TestQ80(t *testing.T) {
	f := q80()
	b := make([]byte, f.bytes)
	putHalf(b, 0.125)
	b[2], b[33] = 127, 0x80
	var x [32]float64
	f.decode(x[:], b)
	if x[0] != 0.125*127 || x[31] != -0.125*128 || x[1] != 0 {
		t.Errorf("numbers are %g, %g, %g, want 15.875, -16, 0", x[0], x[31], x[1])
	}
}

// No quantiser makes -128, so no random block holds it.
func TestQ80Range(t *testing.T) {
	f := q80()
	for i, x := range f.random(1, 1<<16, 1) {
		if i%f.bytes >= 2 && x == 0x80 {
			t.Fatalf("byte %d is -128", i)
		}
	}
}

// Random blocks have about the standard deviation that was asked for, and rows
// are where a matrix of several has them.
func TestRandomBlocks(t *testing.T) {
	for _, f := range []blockFormat{q4K(), q80(), brain()} {
		const rows, columns, std = 64, 1024, 0.03
		data := f.random(1, rows*columns, std)
		require.Len(t, data, rows*columns/f.elements*f.bytes)
		sum, squares := 0.0, 0.0
		for i := range rows {
			for _, x := range f.row(data, i, columns) {
				sum += x
				squares += x * x
			}
		}
		n := float64(rows * columns)
		if got := math.Sqrt(squares / n); got < std/1.3 || got > std*1.3 || math.Abs(sum/n) > std/5 {
			t.Errorf("%s: deviation %g and mean %g, want about %g and 0", f.name, got, sum/n, std)
		}
		var one = make([]float64, f.elements)
		f.decode(one, data[(5*columns/f.elements+1)*f.bytes:][:f.bytes])
		require.Equal(t, one, f.row(data, 5, columns)[f.elements:2*f.elements])
	}
}

// The reference and gomoe, in f32 with the same numbers, agree.
func TestDecodeReference(t *testing.T) {
	l := decodeLayer{Tokens: 3, Hidden: 256, Experts: 4, TopK: 2, FFN: 256, Format: q80()}
	got, want := decodeBoth(t, l)
	if off := relative(got, want); off > 1e-5 {
		t.Errorf("the reference differs from the program in f32 by %g", off)
	}
}

// decodeBoth returns the layer's result by the program in f32, and the reference.
func decodeBoth(t *testing.T, l decodeLayer) (got, want array.Array) {
	d, f, e := l.Hidden, l.FFN, l.Experts
	x, router := normal(1, 1, graph.F32, l.Tokens, d), normal(2, 1, graph.F32, e, d)
	blocks := map[string][]byte{}
	in := map[string]array.Array{"x": x, "router": router}
	for name, columns := range map[string]int{"gate": d, "up": d, "down": f} {
		blocks[name] = l.Format.random(uint64(len(name)), e*d*f, fanIn(columns))
		a := array.New(graph.T(graph.F32, e, d*f/columns, columns))
		var all []float64
		for i := range e * d * f / columns {
			all = append(all, l.Format.row(blocks[name], i, columns)...)
		}
		require.NoError(t, a.SetFloat64s(all))
		in[name] = a
	}
	p, err := l.program()
	require.NoError(t, err)
	out, err := gomoe.Run(context.Background(), p, gomoe.Config{}, in)
	require.NoError(t, err)
	want, err = array.Of(l.reference(array.Data[float32](x), array.Data[float32](router), blocks), l.Tokens, d)
	require.NoError(t, err)
	return out[0], want
}
