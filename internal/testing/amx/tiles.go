package main

import (
	"encoding/binary"
	"fmt"
	"math"
)

// memory is the memory accessed by a program's instructions.
type memory interface {
	read(address uint64, p []byte) error
	write(address uint64, p []byte) error
}

// tiles are the tile registers of one thread.
type tiles struct {
	configured bool
	bytes      [8]int // of a row
	rows       [8]int
	data       [8][16][64]byte
}

// do computes i, with its memory at address. Rows have a stride of stride bytes.
func (t *tiles) do(i instruction, address, stride uint64, m memory) error {
	if i.op != loadConfig && i.op != release && !t.configured {
		return fmt.Errorf("%s before LDTILECFG", i.op)
	}
	switch i.op {
	case loadConfig:
		return t.configure(address, m)
	case release:
		*t = tiles{}
	case zero:
		t.data[i.dst] = [16][64]byte{}
	case load:
		t.data[i.dst] = [16][64]byte{} // the rest after the rows and columns becomes 0
		for r := range t.rows[i.dst] {
			if err := m.read(address+uint64(r)*stride, t.data[i.dst][r][:t.bytes[i.dst]]); err != nil {
				return err
			}
		}
	case store:
		for r := range t.rows[i.dst] {
			if err := m.write(address+uint64(r)*stride, t.data[i.dst][r][:t.bytes[i.dst]]); err != nil {
				return err
			}
		}
	case dotBrain, dotSigned, dotMixed:
		if err := t.fit(i); err != nil {
			return err
		}
		if i.op == dotBrain {
			t.dot(i.dst, i.x, i.y)
		} else {
			t.ints(i.dst, i.x, i.y, i.op == dotMixed)
		}
	}
	return nil
}

// fit returns an error if the sizes of the tiles of i do not fit a product of four bytes
// by four.
func (t *tiles) fit(i instruction) error {
	dst, x, y := i.dst, i.x, i.y
	if t.rows[y] != t.bytes[x]/4 || t.bytes[y] != t.bytes[dst] || t.rows[x] != t.rows[dst] {
		return fmt.Errorf("%s: tiles %d, %d and %d do not fit: %d×%d bytes, %d×%d and %d×%d", i.op, dst, x, y,
			t.rows[dst], t.bytes[dst], t.rows[x], t.bytes[x], t.rows[y], t.bytes[y])
	}
	if dst == x || dst == y || x == y {
		return fmt.Errorf("%s: tiles %d, %d and %d are not three", i.op, dst, x, y)
	}
	return nil
}

// ints is TDPBSSD: dst += x·y, of int8, in int32. For TDPBSUD the numbers of y are unsigned.
func (t *tiles) ints(dst, x, y int, unsigned bool) {
	for r := range t.rows[dst] {
		for c := range t.bytes[dst] / 4 {
			at := t.data[dst][r][4*c:]
			sum := int32(binary.LittleEndian.Uint32(at))
			for p := range t.bytes[x] {
				v := int32(int8(t.data[y][p/4][4*c+p%4]))
				if unsigned {
					v &= 0xff
				}
				sum += int32(int8(t.data[x][r][p])) * v
			}
			binary.LittleEndian.PutUint32(at, uint32(sum))
		}
	}
}

// configure reads the 64 bytes of a configuration.
func (t *tiles) configure(address uint64, m memory) error {
	var c [64]byte
	if err := m.read(address, c[:]); err != nil {
		return err
	}
	if c[0] == 0 {
		*t = tiles{}
		return nil
	}
	if c[0] != 1 || c[1] != 0 {
		return fmt.Errorf("LDTILECFG: palette %d from row %d, want palette 1 from row 0", c[0], c[1])
	}
	*t = tiles{configured: true}
	for k := range t.rows {
		t.bytes[k], t.rows[k] = int(binary.LittleEndian.Uint16(c[16+2*k:])), int(c[48+k])
		if t.bytes[k] > 64 || t.rows[k] > 16 {
			return fmt.Errorf("LDTILECFG: tile %d has %d rows of %d bytes, want at most 16 of 64", k, t.rows[k], t.bytes[k])
		}
	}
	return nil
}

// dot is TDPBF16PS: dst += x·y. Sums of even and of odd numbers are two chains, from 0 on, of
// multiply-adds with one rounding; the chains are added, and then that sum to dst. Numbers
// below the normal ones count as 0, and become 0.
func (t *tiles) dot(dst, x, y int) {
	pairs, cols := t.bytes[x]/4, t.bytes[dst]/4
	number := func(tile, row, at int) float32 { // a bf16
		return daz(math.Float32frombits(uint32(binary.LittleEndian.Uint16(t.data[tile][row][at:])) << 16))
	}
	for r := range t.rows[dst] {
		for c := range cols {
			var even, odd float32
			for p := range pairs {
				even = fused(number(x, r, 4*p), number(y, p, 4*c), even)
				odd = fused(number(x, r, 4*p+2), number(y, p, 4*c+2), odd)
			}
			at := t.data[dst][r][4*c:]
			was := daz(math.Float32frombits(binary.LittleEndian.Uint32(at)))
			binary.LittleEndian.PutUint32(at, math.Float32bits(quiet(daz(was+daz(even+odd)))))
		}
	}
}

// daz returns x, or a zero of its sign if x is below the normal numbers.
func daz(x float32) float32 {
	if bits := math.Float32bits(x); bits&0x7f800000 == 0 {
		return math.Float32frombits(bits & 0x80000000)
	}
	return x
}

// quiet returns x, with the quiet bit set if x is NaN.
func quiet(x float32) float32 {
	if x != x {
		return math.Float32frombits(math.Float32bits(x) | 0x400000)
	}
	return x
}

// fused returns x·y + z, rounded once. The product of two bf16 is exact in float64. The
// sum is rounded to odd there, so that the second rounding is correct.
func fused(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := p + c
	back := s - p
	rest := (p - (s - back)) + (c - back)
	if bits := math.Float64bits(s); rest != 0 && rest == rest && bits&1 == 0 {
		if (rest > 0) == (s > 0) {
			s = math.Float64frombits(bits + 1)
		} else {
			s = math.Float64frombits(bits - 1)
		}
	}
	return daz(float32(s))
}
