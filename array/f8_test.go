package array

import (
	"encoding/binary"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
)

// f8Fixture returns the values of both formats by code, and numbers with their codes. The
// file is what ml_dtypes makes of them: testdata/f8.py.
func f8Fixture(t *testing.T) (values [2][256]float32, x []float32, e4m3 []E4M3, e5m2 []E5M2) {
	t.Helper()
	b, err := os.ReadFile("testdata/f8.bin")
	require.NoError(t, err)
	number := func(i int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b[i:])) }
	for f := range values {
		for i := range values[f] {
			values[f][i] = number(4 * (256*f + i))
		}
	}
	for at := 2048; at < len(b); at += 6 {
		x = append(x, number(at))
		e4m3, e5m2 = append(e4m3, E4M3(b[at+4])), append(e5m2, E5M2(b[at+5]))
	}
	require.Greater(t, len(x), 1500)
	return values, x, e4m3, e5m2
}

func TestF8Values(t *testing.T) {
	values, _, _, _ := f8Fixture(t)
	for i := range 256 {
		a, b := E4M3(i), E5M2(i)
		if got, want := float64(a.Float32()), float64(values[0][i]); !same(got, want) {
			t.Errorf("f8_e4m3 %02x is %v, want %v", i, got, want)
		}
		if got, want := float64(b.Float32()), float64(values[1][i]); !same(got, want) {
			t.Errorf("f8_e5m2 %02x is %v, want %v", i, got, want)
		}
		if got := E4M3Of(a.Float32()); got != a {
			t.Errorf("f8_e4m3 %02x widened and narrowed is %02x", i, got)
		}
		want := b
		switch i & 0x7f {
		case 0x7c: // an infinity saturates
			want = b - 1
		case 0x7d, 0x7e, 0x7f: // one NaN for all
			want = b&0x80 | 0x7e
		}
		if got := E5M2Of(b.Float32()); got != want {
			t.Errorf("f8_e5m2 %02x widened and narrowed is %02x, want %02x", i, got, want)
		}
	}
}

func TestF8Rounding(t *testing.T) {
	_, x, e4m3, e5m2 := f8Fixture(t)
	a, b := make([]E4M3, len(x)), make([]E5M2, len(x))
	NarrowE4M3(a, x)
	NarrowE5M2(b, x)
	for i, x := range x {
		if a[i] != e4m3[i] || E4M3Of(x) != e4m3[i] || E4M3Of64(float64(x)) != e4m3[i] {
			t.Errorf("f8_e4m3 of %x is %02x, alone %02x, of f64 %02x, want %02x", x, a[i], E4M3Of(x), E4M3Of64(float64(x)), e4m3[i])
		}
		if b[i] != e5m2[i] || E5M2Of(x) != e5m2[i] || E5M2Of64(float64(x)) != e5m2[i] {
			t.Errorf("f8_e5m2 of %x is %02x, alone %02x, of f64 %02x, want %02x", x, b[i], E5M2Of(x), E5M2Of64(float64(x)), e5m2[i])
		}
	}
	// A tie of two numbers, and an f64 just above it that f32 cannot tell from the tie.
	for _, c := range []struct {
		x    float64
		want float32
	}{{1 + 1.0/16, 1}, {math.Nextafter(1+1.0/16, 2), 1 + 1.0/8}} {
		if got := E4M3Of64(c.x).Float32(); got != c.want {
			t.Errorf("f8_e4m3 of %v is %v, want %v", c.x, got, c.want)
		}
	}
}

// Vectors convert every length with the bits of single numbers.
func TestF8Vectors(t *testing.T) {
	_, x, e4m3, e5m2 := f8Fixture(t)
	for n := range 70 {
		a, b := make([]E4M3, n), make([]E5M2, n)
		at := 13 * n
		NarrowE4M3(a, x[at:at+n])
		NarrowE5M2(b, x[at:at+n])
		wa, wb := make([]float32, n), make([]float32, n)
		WidenE4M3(wa, a)
		WidenE5M2(wb, b)
		for i := range n {
			if a[i] != e4m3[at+i] || b[i] != e5m2[at+i] {
				t.Fatalf("%d numbers: element %d is %02x and %02x, want %02x and %02x", n, i, a[i], b[i], e4m3[at+i], e5m2[at+i])
			}
			if !same(float64(wa[i]), float64(a[i].Float32())) || !same(float64(wb[i]), float64(b[i].Float32())) {
				t.Fatalf("%d numbers: element %d is %v and %v, want %v and %v", n, i, wa[i], wb[i], a[i].Float32(), b[i].Float32())
			}
		}
	}
}

func TestF8Converts(t *testing.T) {
	for _, d := range []graph.DType{graph.F8_E4M3, graph.F8_E5M2} {
		x := []float64{0, 1, -1.5, 2, 0.0625, 3, -16, 28}
		for _, other := range []graph.DType{graph.F64, graph.F32, graph.F16, graph.BF16} {
			a := New(graph.T(other, 2, 4))
			require.NoError(t, a.SetFloat64s(x))
			if b := a.As(d); !Equal(b.As(other), a) {
				t.Errorf("%s through %s: %v", other, d, b)
			}
		}
		a := New(graph.T(graph.I64, 5))
		require.NoError(t, a.SetFloat64s([]float64{-3, 0, 17, 19, 1 << 40}))
		largest := map[graph.DType]float64{graph.F8_E4M3: 448, graph.F8_E5M2: 57344}[d]
		require.Equal(t, []float64{-3, 0, 16, 20, largest}, a.As(d).Float64s()) // 17 and 19 are ties only in f8_e4m3
		require.Equal(t, []bool{true, false, true, true, true}, Data[bool](a.As(d).As(graph.Bool)))
		require.Equal(t, []int32{-3, 0, 16, 20, int32(largest)}, Data[int32](a.As(d).As(graph.I32)))
		b := New(graph.T(d, 3))
		b.Fill(1e9)
		require.Equal(t, []float64{largest, largest, largest}, b.Float64s())
	}
}

func BenchmarkF8(b *testing.B) {
	x, e4m3 := make([]float32, 4096), make([]E4M3, 4096)
	for i := range x {
		x[i] = float32(i%977) - 488
	}
	b.Run("narrow", func(b *testing.B) {
		b.SetBytes(4 * 4096)
		for range b.N {
			NarrowE4M3(e4m3, x)
		}
	})
	b.Run("widen", func(b *testing.B) {
		b.SetBytes(4 * 4096)
		for range b.N {
			WidenE4M3(x, e4m3)
		}
	})
}
