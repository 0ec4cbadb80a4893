package half_test

import (
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/half"
	"github.com/gomoe/gomoe/quant"
)

func bytes[E any](x []E) *byte { return (*byte)(unsafe.Pointer(unsafe.SliceData(x))) }

// TestWiden takes every number of 16 bits, in every lane.
func TestWiden(t *testing.T) {
	src := make([]uint16, 1<<16+16)
	for i := range src {
		src[i] = uint16(i)
	}
	for name, loop := range half.Loops() {
		for shift := range 16 {
			x := src[shift:][:1<<16]
			for what, want := range map[string]func(uint16) float32{
				"WidenBrain": func(x uint16) float32 { return array.Brain(x).Float32() },
				"WidenHalf":  func(x uint16) float32 { return array.Half(x).Float32() },
			} {
				got := make([]float32, len(x))
				for i := range loop(what, len(x), bytes(got), bytes(x)) {
					if g, w := math.Float32bits(got[i]), math.Float32bits(want(x[i])); g != w {
						t.Fatalf("%s %s: %04x becomes %08x, want %08x", name, what, x[i], g, w)
					}
				}
			}
		}
	}
}

// TestWidenFrom8 takes every number of 8 bits, in every lane.
func TestWidenFrom8(t *testing.T) {
	src := make([]uint8, 256+16)
	for i := range src {
		src[i] = uint8(i)
	}
	for name, loop := range half.Loops() {
		for shift := range 16 {
			x := src[shift:][:256]
			for what, want := range map[string]func(uint8) float32{
				"WidenE4M3": func(x uint8) float32 { return array.E4M3(x).Float32() },
				"WidenE5M2": func(x uint8) float32 { return array.E5M2(x).Float32() },
			} {
				got := make([]float32, len(x)+1)
				n := loop(what, len(x), bytes(got), bytes(x))
				for i := range n {
					if g, w := math.Float32bits(got[i]), math.Float32bits(want(x[i])); g != w {
						t.Fatalf("%s %s: %02x becomes %08x, want %08x", name, what, x[i], g, w)
					}
				}
				if n != 0 && n != len(x) || got[len(x)] != 0 {
					t.Errorf("%s %s of %d numbers converts %d, and then writes %v", name, what, len(x), n, got[len(x)])
				}
			}
		}
	}
}

// TestWidenQ8 takes every scale, and every byte.
func TestWidenQ8(t *testing.T) {
	const blocks = 1 << 16
	src := make([]byte, 34*blocks)
	for i := range blocks {
		src[34*i], src[34*i+1] = byte(i), byte(i>>8)
		for j := range 32 {
			src[34*i+2+j] = byte(i*5 + j*9)
		}
	}
	want := make([]float32, 32*blocks)
	require.NoError(t, quant.Dequantize(want, graph.Q8_0, src))
	for name, loop := range half.Loops() {
		got := make([]float32, len(want))
		for i := range loop("WidenQ8", len(got), bytes(got), bytes(src)) {
			if g, w := math.Float32bits(got[i]), math.Float32bits(want[i]); g != w {
				t.Fatalf("%s: element %d of block %x becomes %08x, want %08x", name, i%32, src[i/32*34:][:34], g, w)
			}
		}
	}
	// Rows of 64 elements, in two of three blocks.
	got := make([]float32, 3*70)
	if n := half.WidenQ8Rows(3, 64, got, 70, src[34*777:], 3*34); n != 0 && n != 64 {
		t.Errorf("%d elements are converted, want all or none", n)
	} else if n != 0 {
		for i := range got {
			if x := want[(777+i/70*3)*32+min(i%70, 63)]; i%70 < 64 && got[i] != x || i%70 >= 64 && got[i] != 0 {
				t.Errorf("element %d of row %d is %v", i%70, i/70, got[i])
			}
		}
	}
}

// TestNarrow takes numbers around every number of 16 bits and every tie, and many others.
func TestNarrow(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var src []float32
	for i := range uint32(1 << 16) {
		for _, d := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, r.Uint32() & 0xffff} {
			src = append(src, math.Float32frombits(i<<16|d))
		}
	}
	for i := range uint32(1 << 15) { // the numbers of binary16, and numbers between them
		for _, sign := range []float32{1, -1} {
			x := math.Float32bits(sign * array.Half(i).Float32())
			for _, d := range []uint32{0, 1, 0xfff, 0x1000, 0x1001, 0x1fff} {
				src = append(src, math.Float32frombits(x+d))
			}
		}
	}
	for len(src)%16 != 0 {
		src = append(src, 0)
	}
	for name, loop := range half.Loops() {
		for what, want := range map[string]func(float32) uint16{
			"NarrowBrain": func(x float32) uint16 { return uint16(array.BrainOf(x)) },
			"NarrowHalf":  func(x float32) uint16 { return uint16(array.HalfOf(x)) },
		} {
			got := make([]uint16, len(src))
			for i := range loop(what, len(src), bytes(got), bytes(src)) {
				if w := want(src[i]); got[i] != w {
					t.Fatalf("%s %s: %08x becomes %04x, want %04x", name, what, math.Float32bits(src[i]), got[i], w)
				}
			}
		}
	}
}

// TestNarrowTo8 takes numbers around every number of 8 bits and every tie, numbers that are
// not finite, and many others.
func TestNarrowTo8(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var src []float32
	for i := range uint32(1 << 16) { // every exponent, with the fractions that 8-bit formats tell apart
		for _, d := range []uint32{0, 1, 0xffff, r.Uint32() & 0xffff} {
			src = append(src, math.Float32frombits(i<<16|d))
		}
	}
	for i := range 1 << 13 { // subnormal numbers and ties between them
		for _, step := range []float32{0x1p-11, 0x1p-18} {
			x := math.Float32bits(float32(i) * step)
			src = append(src, math.Float32frombits(x), math.Float32frombits(x+1), -math.Float32frombits(x), -math.Float32frombits(max(x, 1)-1))
		}
	}
	for len(src)%16 != 0 {
		src = append(src, 0)
	}
	for name, loop := range half.Loops() {
		for what, want := range map[string]func(float32) uint8{
			"NarrowE4M3": func(x float32) uint8 { return uint8(array.E4M3Of(x)) },
			"NarrowE5M2": func(x float32) uint8 { return uint8(array.E5M2Of(x)) },
		} {
			got := make([]uint8, len(src)+1)
			n := loop(what, len(src), bytes(got), bytes(src))
			for i := range n {
				if w := want(src[i]); got[i] != w {
					t.Fatalf("%s %s: %08x becomes %02x, want %02x", name, what, math.Float32bits(src[i]), got[i], w)
				}
			}
			if n != 0 && n != len(src) || got[len(src)] != 0 {
				t.Errorf("%s %s of %d numbers converts %d, and then writes %02x", name, what, len(src), n, got[len(src)])
			}
		}
	}
}

// All elements that fill whole vectors are converted, and nothing is written behind
// them.
func TestLengths(t *testing.T) {
	for n := range 70 {
		wide, narrow := make([]float32, n), make([]uint16, n)
		for i := range narrow {
			wide[i], narrow[i] = float32(i), 0x3f80
		}
		y, z := make([]float32, n+16), make([]uint16, n+16)
		for what, done := range map[string]int{
			"WidenBrain": half.WidenBrain(y, narrow), "NarrowBrain": half.NarrowBrain(z, wide),
		} {
			if done > n || done%16 != 0 || done != 0 && n-done >= 16 {
				t.Errorf("%s of %d numbers converts %d", what, n, done)
			}
			for i := done; i < n+16; i++ {
				if what == "WidenBrain" && y[i] != 0 || what == "NarrowBrain" && z[i] != 0 {
					t.Errorf("%s of %d numbers: %d is written, want %d", what, n, i+1, done)
				}
			}
		}
	}
}

// Rows are converted as a single row is. What is between them is not changed.
func TestRows(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		rows, n := r.IntN(5), r.IntN(50)
		pitch, stride := n+r.IntN(3), n+r.IntN(3)
		src := make([]uint16, rows*stride)
		for i := range src {
			src[i] = uint16(r.IntN(0x7c00)) // no NaNs, which are not equal to themselves
		}
		for what, f := range map[string]func(dst []float32) int{
			"Brain": func(dst []float32) int { return half.WidenBrainRows(rows, n, dst, pitch, src, stride) },
			"Half":  func(dst []float32) int { return half.WidenHalfRows(rows, n, dst, pitch, src, stride) },
		} {
			got := make([]float32, rows*pitch)
			done := f(got)
			want := make([]float32, len(got))
			for i := range rows {
				for j := range done {
					x := src[i*stride+j]
					want[i*pitch+j] = array.Brain(x).Float32()
					if what == "Half" {
						want[i*pitch+j] = array.Half(x).Float32()
					}
				}
			}
			require.Equal(t, want, got, "%s: %d rows of %d, %d apart, from %d apart", what, rows, n, pitch, stride)

			// And back, into rows as far apart as they came from.
			back := make([]uint16, len(src))
			narrow := half.NarrowBrainRows[uint16]
			if what == "Half" {
				narrow = half.NarrowHalfRows[uint16]
			}
			if again := narrow(rows, n, back, stride, got, pitch); again != done {
				t.Errorf("%s: %d of %d numbers are widened and %d narrowed", what, done, n, again)
			}
			for i := range back {
				if w := src[i]; i%stride < done && back[i] != w || i%stride >= done && back[i] != 0 {
					t.Fatalf("%s: %04x becomes %04x on the way there and back, column %d of %d", what, w, back[i], i%stride, n)
				}
			}
		}
	}
}

// Code in the Go runtime is slow while the upper halves of vector registers are in
// use.
func TestAssemblyClearsUpperHalves(t *testing.T) {
	src, err := os.ReadFile("asm_convert_amd64.s")
	require.NoError(t, err)
	if n, m := strings.Count(string(src), "\tRET\n"), strings.Count(string(src), "\tVZEROUPPER\n\tRET\n"); n != m || n == 0 {
		t.Errorf("%d of %d functions end in VZEROUPPER and RET", m, n)
	}
}
