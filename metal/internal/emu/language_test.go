package emu

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// testLibrary builds a file of testdata.
func testLibrary(t testing.TB, file string, o BuildOptions) *Library {
	t.Helper()
	src, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	path, err := compiler(t).Build(t.Context(), "#line 1 \""+file+"\"\n"+string(src), o)
	require.NoError(t, err)
	l, err := Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func word(b *Buffer, i int) int { return int(int32(binary.LittleEndian.Uint32(b.Bytes()[4*i:]))) }

// The kernels check themselves: word 0 counts what does not hold, the next are the lines.
func TestLanguage(t *testing.T) {
	l := testLibrary(t, "language.metal", BuildOptions{Lint: true})
	for _, name := range []string{"vectors", "narrow", "maths", "spaces"} {
		bad := floats(t, 64)
		clear(bad.Bytes())
		v := floats(t, 8)
		require.NoError(t, l.Run(t.Context(), Launch{Function: name, Buffers: []Binding{{Buffer: bad}, {Buffer: of(t, 5)}, {Bytes: []byte{0, 0, 128, 63}}, {Buffer: v}}}))
		for i := range word(bad, 0) {
			t.Errorf("language.metal:%d: does not hold", word(bad, 1+i))
		}
	}
}

func TestConstants(t *testing.T) {
	l := testLibrary(t, "language.metal", BuildOptions{Lint: true})
	y := floats(t, 2)
	run := func(c map[int]any) []float32 {
		require.NoError(t, l.Run(t.Context(), Launch{Function: "constants", Buffers: []Binding{{Buffer: y}}, Constants: c}))
		return read(y)
	}
	require.Equal(t, []float32{12, 2.5}, run(map[int]any{0: true, 1: uint32(8), 2: float32(1.5)}))
	require.Equal(t, []float32{0, 2.5}, run(map[int]any{0: true, 1: uint32(8)}), "what is not set is zero again")
	require.Equal(t, []float32{-1, 2.5}, run(nil))
}

func TestPositions(t *testing.T) {
	l := testLibrary(t, "language.metal", BuildOptions{Lint: true})
	for _, o := range orders() {
		const w, h, d = 20, 5, 2
		y := floats(t, w*h*d*8)
		require.NoError(t, l.Run(t.Context(), Launch{Function: "positions", Grid: [3]int{w, h, d}, Threads: [3]int{16, 3, 1}, Buffers: []Binding{{Buffer: y}}, Order: o, Seed: 5}))
		pack := func(x, y, z int) int { return x + 100*y + 10000*z }
		for z := range d {
			for r := range h {
				for x := range w {
					sx, sy := min(16, w-x/16*16), min(3, h-r/3*3)
					index := r%3*sx + x%16
					want := []int{pack(x, r, z), pack(x%16, r%3, 0), pack(x/16, r/3, z), index, index%32 + 100*(index/32), pack(sx, sy, 1), pack(2, 2, 2), w + 100*((sx*sy+31)/32) + 320000}
					for k, v := range want {
						if got := word(y, ((z*h+r)*w+x)*8+k); got != v {
							t.Fatalf("order %s, thread (%d,%d,%d): value %d is %d, want %d", o, x, r, z, k, got, v)
						}
					}
				}
			}
		}
	}
}

func TestSimdgroups(t *testing.T) {
	bothBuilds(t, func(t *testing.T, build BuildOptions) {
		l := testLibrary(t, "simd.metal", build)
		for _, o := range orders() {
			bad := floats(t, 64)
			clear(bad.Bytes())
			require.NoError(t, l.Run(t.Context(), Launch{Function: "simds", Threads: [3]int{96}, Buffers: []Binding{{Buffer: bad}}, Order: o, Seed: 2}))
			for i := range min(word(bad, 0), 60) {
				t.Errorf("order %s: simd.metal:%d: does not hold", o, word(bad, 1+i))
			}
			y := floats(t, 80)
			require.NoError(t, l.Run(t.Context(), Launch{Function: "some", Threads: [3]int{40}, Buffers: []Binding{{Buffer: y}}, Order: o, Seed: 2}))
			for i := range 40 {
				want := [2]int{20, -1} // lane 7 has returned, so its value is all ones
				switch {
				case i%8 >= 5:
					want = [2]int{-1, -1}
				case i >= 32:
					want[0] = 5
				}
				if got := [2]int{word(y, 2*i), word(y, 2*i+1)}; got != want {
					t.Errorf("order %s: lane %d has %v, want %v", o, i, got, want)
				}
			}
		}
	})
}

func TestAtomics(t *testing.T) {
	l := testLibrary(t, "simd.metal", BuildOptions{Lint: true})
	for _, o := range orders() {
		count, least, sum, seen := floats(t, 3), floats(t, 1), of(t, 0), floats(t, 33)
		clear(count.Bytes())
		clear(least.Bytes())
		require.NoError(t, l.Run(t.Context(), Launch{Function: "atomics", Groups: [3]int{50}, Threads: [3]int{64}, Buffers: []Binding{{Buffer: count}, {Buffer: least}, {Buffer: sum}, {Buffer: seen}}, Order: o, Workers: 4}))
		if word(count, 0) != 6400 || word(count, 1) != -1 || word(count, 2) != 7 || word(least, 0) != -7 || read(sum)[0] != 1600 {
			t.Errorf("order %s: %d %d %d %d %v", o, word(count, 0), word(count, 1), word(count, 2), word(least, 0), read(sum)[0])
		}
		for i := range 33 {
			if word(seen, i) != 1 {
				t.Errorf("order %s: bit %d was set by nobody", o, i)
			}
		}
	}
}

// Tiles: right, and the same bits in all builds and orders.
func TestTiles(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes int
		put   func([]byte, float32)
		get   func([]byte) float32
	}{
		{"tiles_f32", 4, func(b []byte, x float32) { binary.LittleEndian.PutUint32(b, math.Float32bits(x)) }, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }},
		{"tiles_bf16", 2, func(b []byte, x float32) { binary.LittleEndian.PutUint16(b, uint16(math.Float32bits(x)>>16)) }, func(b []byte) float32 { return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16) }},
		{"tiles_f16", 2, func(b []byte, x float32) { binary.LittleEndian.PutUint16(b, half(x)) }, func(b []byte) float32 { return float32(math.NaN()) }},
	} {
		value := func(i int) float32 { return float32((i*37+11)%16) - 7.5 } // exact in 8 bits
		fill := func(n, from, bytes int, put func([]byte, float32)) *Buffer {
			b, err := NewBuffer(n * bytes)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, b.Close()) })
			for i := range n {
				put(b.Bytes()[i*bytes:], value(i+from))
			}
			return b
		}
		a, b := fill(12*10, 0, c.bytes, c.put), fill(64, 1000, c.bytes, c.put)
		put32 := func(b []byte, x float32) { binary.LittleEndian.PutUint32(b, math.Float32bits(x)) }
		add := fill(64, 2000, 4, put32)
		var first []byte
		bothBuilds(t, func(t *testing.T, build BuildOptions) {
			l := testLibrary(t, "simd.metal", build)
			for _, o := range orders() {
				y := floats(t, 128)
				z, err := NewBuffer(64 * c.bytes)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, z.Close()) })
				require.NoError(t, l.Run(t.Context(), Launch{Function: c.name, Threads: [3]int{32}, Memory: []int{64 * c.bytes}, Buffers: []Binding{{Buffer: a}, {Buffer: b}, {Buffer: add}, {Buffer: y}, {Buffer: z}}, Order: o, Seed: 9}))
				for r := range 8 {
					for k := range 8 {
						want := value(2000+r*8+k) / 2
						for j := range 8 {
							want += value((r+1)*12+j+2) * value(1000+k*8+j)
						}
						if got := read(y)[r*8+k]; got != want {
							t.Fatalf("%s, order %s: element (%d,%d) is %v, want %v", c.name, o, r, k, got, want)
						}
						if got := read(y)[64+k*8+r]; got != want {
							t.Fatalf("%s, order %s: element (%d,%d) of the transpose is %v, want %v", c.name, o, r, k, got, want)
						}
						if got, want := c.get(z.Bytes()[(r*8+k)*c.bytes:]), 3*value((r+1)*12+k/2*2+2); got == got && got != want {
							t.Fatalf("%s, order %s: element (%d,%d) of the second product is %v, want %v", c.name, o, r, k, got, want)
						}
					}
				}
				all := append(bytes.Clone(y.Bytes()), z.Bytes()...)
				if first == nil {
					first = all
				}
				require.Equal(t, first, all, "bits of %s, order %s", c.name, o)
			}
		})
	}
}

// half returns a number that is exact in 5 bits as bits of half.
func half(x float32) uint16 {
	b := math.Float32bits(x)
	return uint16(b>>16&0x8000 | (b>>23&0xff-112)<<10 | b>>13&0x3ff)
}
