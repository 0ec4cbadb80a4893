package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
)

// bytesAt is memory from address 0 on.
type bytesAt []byte

func (b bytesAt) read(at uint64, p []byte) error {
	if at+uint64(len(p)) > uint64(len(b)) {
		return fmt.Errorf("%d bytes at %d, of %d", len(p), at, len(b))
	}
	copy(p, b[at:])
	return nil
}

func (b bytesAt) write(at uint64, p []byte) error {
	if at+uint64(len(p)) > uint64(len(b)) {
		return fmt.Errorf("%d bytes at %d, of %d", len(p), at, len(b))
	}
	copy(b[at:], p)
	return nil
}

// configured returns tiles of which 0 has 2 rows of 3 sums, 1 has 2 rows of 2 pairs, and 2 has
// 2 rows of 3 pairs.
func configured(t *testing.T) (*tiles, bytesAt) {
	m := make(bytesAt, 1024)
	m[0] = 1
	for k, size := range [3][2]int{{2, 12}, {2, 8}, {2, 12}} {
		m[48+k] = byte(size[0])
		binary.LittleEndian.PutUint16(m[16+2*k:], uint16(size[1]))
	}
	var x tiles
	if err := x.do(instruction{op: loadConfig}, 0, 0, m); err != nil {
		t.Fatal(err)
	}
	return &x, m
}

// A product of small integers is exact: c[r,j] += Σ a[r,2p]·b[p,2j] + a[r,2p+1]·b[p,2j+1].
func TestDot(t *testing.T) {
	x, m := configured(t)
	brain := func(at int, v float32) { binary.LittleEndian.PutUint16(m[at:], uint16(math.Float32bits(v)>>16)) }
	a := [2][4]float32{{1, 2, 3, 4}, {5, 6, 7, -8}}
	b := [2][6]float32{{1, -1, 2, 0, 3, 1}, {4, 1, 1, 1, -2, 5}}
	const left, right, sums, stride = 100, 300, 500, 40
	for r := range 2 {
		for k, v := range a[r] {
			brain(left+r*stride+2*k, v)
		}
		for k, v := range b[r] {
			brain(right+r*stride+2*k, v)
		}
		for j := range 3 {
			binary.LittleEndian.PutUint32(m[sums+r*stride+4*j:], math.Float32bits(10))
		}
	}
	for _, s := range []struct {
		i  instruction
		at uint64
	}{
		{instruction{op: load, dst: 0}, sums}, {instruction{op: load, dst: 1}, left}, {instruction{op: load, dst: 2}, right},
		{instruction{op: dotBrain, dst: 0, x: 1, y: 2}, 0}, {instruction{op: store, dst: 0}, sums},
	} {
		if err := x.do(s.i, s.at, stride, m); err != nil {
			t.Fatalf("%s: %v", s.i.op, err)
		}
	}
	for r := range 2 {
		for j := range 3 {
			want := float32(10)
			for p := range 2 {
				want += a[r][2*p]*b[p][2*j] + a[r][2*p+1]*b[p][2*j+1]
			}
			if got := math.Float32frombits(binary.LittleEndian.Uint32(m[sums+r*stride+4*j:])); got != want {
				t.Errorf("sum %d,%d is %v, want %v", r, j, got, want)
			}
		}
		if m[sums+r*stride+12] != 0 {
			t.Errorf("row %d: what lies behind 3 sums is written", r)
		}
	}
}

// A product of bytes: c[r,j] += Σ a[r,4p+i]·b[p,4j+i], where the bytes of b may be unsigned.
func TestDotOfBytes(t *testing.T) {
	for _, o := range []op{dotSigned, dotMixed} {
		x, m := configured(t)
		const left, right, sums, stride = 100, 300, 500, 40
		for i := range m[left:] {
			m[left+i] = byte(37 * i) // of all sizes and both signs
		}
		want := func(r, j int) (s int32) {
			s = int32(binary.LittleEndian.Uint32(m[sums+r*stride+4*j:]))
			for k := range 8 {
				b := m[right+k/4*stride+4*j+k%4]
				v := int32(int8(b))
				if o == dotMixed {
					v = int32(b)
				}
				s += int32(int8(m[left+r*stride+k])) * v
			}
			return s
		}
		var wants [2][3]int32
		for r := range wants {
			for j := range wants[r] {
				wants[r][j] = want(r, j)
			}
		}
		for _, s := range []struct {
			i  instruction
			at uint64
		}{
			{instruction{op: load, dst: 0}, sums}, {instruction{op: load, dst: 1}, left}, {instruction{op: load, dst: 2}, right},
			{instruction{op: o, dst: 0, x: 1, y: 2}, 0}, {instruction{op: store, dst: 0}, sums},
		} {
			if err := x.do(s.i, s.at, stride, m); err != nil {
				t.Fatalf("%s: %v", s.i.op, err)
			}
		}
		for r := range wants {
			for j, w := range wants[r] {
				if got := int32(binary.LittleEndian.Uint32(m[sums+r*stride+4*j:])); got != w {
					t.Errorf("%s: sum %d,%d is %d, want %d", o, r, j, got, w)
				}
			}
		}
	}
}

func TestTilesRefuse(t *testing.T) {
	x, m := configured(t)
	for _, s := range []struct {
		i  instruction
		at uint64
		on *tiles
	}{
		{instruction{op: zero}, 0, &tiles{}},                  // before a configuration
		{instruction{op: dotBrain, dst: 1, x: 0, y: 2}, 0, x}, // sizes that do not fit
		{instruction{op: dotBrain, dst: 0, x: 0, y: 2}, 0, x}, // a tile twice
		{instruction{op: load, dst: 0}, 1 << 20, x},           // memory that is not there
		{instruction{op: loadConfig}, 16, &tiles{}},           // another palette
	} {
		if err := s.on.do(s.i, s.at, 64, m); err == nil {
			t.Errorf("%s at %d is computed", s.i.op, s.at)
		}
	}
	if err := x.do(instruction{op: release}, 0, 0, m); err != nil || x.configured {
		t.Errorf("released: configured is %v, %v", x.configured, err)
	}
}

func TestFused(t *testing.T) {
	for _, c := range []struct{ x, y, z, want float32 }{
		{1 + 0x1p-7, 1 + 0x1p-7, 0, 1 + 0x1p-6 + 0x1p-14},
		{0x1p-40, 0x1p-40, 1 + 0x1p-23, 1 + 0x1p-23},
		{0x1p-12, 0x1p-12, 1, 1},                          // half way, to even
		{0x1p-12 * (1 + 0x1p-7), 0x1p-12, 1, 1 + 0x1p-23}, // just above it
		{0x1p-100, 0x1p-100, 0, 0},                        // below the normal numbers
		{0x1p-63, 0x1p-63, 0x1p-126, 0x1p-126 + 0x1p-126},
	} {
		if got := fused(c.x, c.y, c.z); got != c.want {
			t.Errorf("%g·%g + %g is %g, want %g", c.x, c.y, c.z, got, c.want)
		}
	}
}
