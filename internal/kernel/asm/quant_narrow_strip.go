package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of type stripArgs used only by functions of AVX2.
const (
	stripParts  = 760
	stripHopX   = 768
	stripScales = stripTurned + 8*stripLine  // 8 lines of scales, 4 of offsets, and d and m
	stripInts   = stripScales + 14*stripLine // a line of sums of each row of x
	stripLine   = 64                         // the bytes of 16 lanes
)

// narrowStripRows is the largest number of rows of x multiplied with weights in registers: they have 8 sums.
const narrowStripRows = 4

// narrowStrip is strip for AVX2: a line of 16 lanes is two vectors, and transposed weights are in memory. A
// function multiplies one or two parts of x of `rows` rows each. The second part starts stripHopX bytes after
// the first, and its sums follow.
type narrowStrip struct {
	*strip
	x, lines reg.Register // a part's rows, and the struct, advanced by the lines of sums of the parts before
}

func (q quantSet) narrowStrip(kind string, rows, size, ahead int) narrowStrip {
	name := fmt.Sprintf("avx2Strip%s%d", kind, rows)
	TEXT(name, NOSPLIT, "func(t *byte)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s adds the products of 16 rows of weights with one or two parts of x of %d rows.", name, rows))
	s := narrowStrip{&strip{quantSet: q, t: Load(Param("t"), GP64()), rows: rows, all: (16*size + 63) / 64, ahead: ahead}, GP64(), GP64()}
	s.fetch = field(s.t, stripFetch)
	s.w, s.steps = s.pointers(stripW, stripStep, 16)
	MOVQ(field(s.t, stripX), Mem{Base: s.t, Disp: stripAt})
	s.jumps[1] = field(s.t, stripXStep)
	if rows > 3 {
		s.jumps[3] = GP64()
		LEAQ(Mem{Base: s.jumps[1], Index: s.jumps[1], Scale: 2}, s.jumps[3])
	}
	return s
}

// X returns the address of byte disp of row i of the part.
func (s narrowStrip) X(i, disp int) Mem { return in([]reg.Register{s.x}, s.jumps, i, disp) }

// eachPart writes the loop over the parts of x.
func (s narrowStrip) eachPart(label string, body func()) {
	MOVQ(Mem{Base: s.t, Disp: stripAt}, s.x)
	MOVQ(s.t, s.lines)
	s.count(stripPart, field(s.t, stripParts))
	Label(label)
	body()
	ADDQ(Mem{Base: s.t, Disp: stripHopX}, s.x)
	ADDQ(I32(int32(stripLine*s.rows)), s.lines)
	s.again(stripPart, label)
}

// line returns half v of a line from disp on.
func (s narrowStrip) line(disp, i, v int) Mem {
	return Mem{Base: s.t, Disp: disp + stripLine*i + 32*v}
}

// own returns half v of a line from disp on of row r of the part.
func (s narrowStrip) own(disp, r, v int) Mem {
	return Mem{Base: s.lines, Disp: disp + stripLine*r + 32*v}
}

// turn transposes the 32 bytes from disp on of every row to 8 lines, and prefetches.
func (s narrowStrip) turn(disp int) {
	for v := range 2 {
		for half := range 2 {
			for i, w := range s.turned(8*v, disp+16*half) {
				VMOVDQU(w, s.line(stripTurned, 4*half+i, v))
				s.fetchNear(1)
				s.prefetch(1)
			}
		}
	}
}

// long returns a vector with x in every 32-bit lane.
func (s narrowStrip) long(x int) Mem { return s.table.longs(func(int) int { return x }) }

// sum returns the register of half v of the sums of number r of a part.
func (s narrowStrip) sum(r, v int) reg.VecPhysical {
	return []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7}[2*r+v]
}

// q4k writes the loop over blocks of 256.
func (s narrowStrip) q4k() {
	Label("unit")
	s.q4kHead()
	zero := YMM()
	VPXOR(zero, zero, zero)
	s.eachPart("clear", func() {
		for r := range s.rows {
			for v := range 2 {
				VMOVDQU(zero, s.own(stripInts, r, v))
			}
		}
	})
	MOVQ(I32(32), Mem{Base: s.t, Disp: stripNext})
	scale := GP64() // address of the lines of scales
	MOVQ(s.t, scale)
	s.count(stripOuter, I32(4))
	Label("quarter")
	s.turn(16)
	s.eachPart("part", func() {
		for upper := range 2 {
			s.nibbles(64*upper, upper)
			for r := range s.rows {
				for v := range 2 {
					sum, to := s.sum(r, v), s.own(stripInts, r, v)
					VPMADDWD(Mem{Base: scale, Disp: stripScales + stripLine*upper + 32*v}, sum, sum)
					VPADDD(to, sum, sum)
					VMOVDQU(sum, to)
				}
			}
		}
	})
	ADDQ(I32(2*stripLine), scale)
	for _, w := range s.w {
		ADDQ(Imm(32), w)
	}
	next := field(s.t, stripNext)
	ADDQ(next, Mem{Base: s.t, Disp: stripAt})
	XORQ(Imm(32^96), next)
	MOVQ(next, Mem{Base: s.t, Disp: stripNext})
	s.fetchRest(16 * 144 / 4)
	s.again(stripOuter, "quarter")
	for _, w := range s.w {
		ADDQ(Imm(144-4*32), w)
	}
	s.eachPart("tails", func() {
		row, line := GP64(), GP64()
		MOVQ(s.x, row)
		MOVQ(s.lines, line)
		s.count(stripRow, I32(int32(s.rows)))
		Label("tail")
		narrowStrip{s.strip, row, line}.q4kTail()
		ADDQ(s.jumps[1], row)
		ADDQ(Imm(stripLine), line)
		s.again(stripRow, "tail")
	})
	s.end(superRow - 256)
}

// count makes `again` jump n-1 times, and then fall through.
func (s narrowStrip) count(at int, n Op) { MOVQ(n, Mem{Base: s.t, Disp: at}) }

func (s narrowStrip) again(at int, label string) {
	DECQ(Mem{Base: s.t, Disp: at})
	JNZ(LabelRef(label))
}

// end ends the loop over units, advancing x by row bytes.
func (s narrowStrip) end(row int) {
	ADDQ(I32(int32(row)), Mem{Base: s.t, Disp: stripAt})
	s.strip.end(0)
	VZEROUPPER()
	RET()
}

// nibbles sets the part's sums to the sums of 32 products of every row, in pairs of 16 bits: none exceeds
// 16·15·127.
func (s narrowStrip) nibbles(disp, upper int) {
	mask := s.table.same(15)
	for i := range 8 {
		var w [2]reg.VecVirtual
		for v := range w {
			w[v] = YMM()
			VMOVDQU(s.line(stripTurned, i, v), w[v])
			if upper > 0 {
				VPSRLW(Imm(4), w[v], w[v])
			}
			VPAND(mask, w[v], w[v])
		}
		for r := range s.rows {
			x := YMM()
			VPBROADCASTD(s.X(r, disp+4*i), x)
			for v := range w {
				if i == 0 {
					VPMADDUBSW(x, w[v], s.sum(r, v))
					continue
				}
				p := YMM()
				VPMADDUBSW(x, w[v], p)
				VPADDW(p, s.sum(r, v), s.sum(r, v))
			}
		}
	}
}

// q4kHead writes the scales of 8 blocks of every row, twice as numbers of 16 bits, pairs of offsets, d and m.
func (s narrowStrip) q4kHead() {
	for v := range 2 {
		head := s.turned(8*v, 0)
		bits := func(from reg.VecVirtual, n, mask int) reg.VecVirtual { return masked(from, n, s.long(mask)) }
		a, b, c := head[1], head[2], head[3]
		// bytes returns numbers 0 to 3 or 4 to 7 of 6 bits, one in each byte: see quant.Q4Scale.
		bytes := func(from reg.VecVirtual, second bool, shift int) reg.VecVirtual {
			if !second {
				return bits(from, 0, 0x3f3f3f3f)
			}
			x := bits(c, shift, 0x0f0f0f0f)
			VPOR(bits(from, 2, 0x30303030), x, x)
			return x
		}
		for half := range 2 {
			from := bytes(a, half > 0, 0)
			for b := range 4 {
				out := YMM()
				VPSHUFB(s.table.vector(func(i int) uint8 {
					return [4]uint8{uint8(i&12 + b), 0x80, uint8(i&12 + b), 0x80}[i%4]
				}), from, out)
				VMOVDQU(out, s.line(stripScales, 4*half+b, v))
			}
			from = bytes(b, half > 0, 4)
			for p := range 2 {
				out := YMM()
				VPSHUFB(s.table.vector(func(i int) uint8 {
					return [4]uint8{uint8(i&12 + 2*p), 0x80, uint8(i&12 + 2*p + 1), 0x80}[i%4]
				}), from, out)
				VMOVDQU(out, s.line(stripScales, 8+2*half+p, v))
			}
		}
		for i := range 2 { // d and m
			halves := YMM()
			if i == 0 {
				VPAND(s.long(0xffff), head[0], halves)
			} else {
				VPSRLD(Imm(16), head[0], halves)
			}
			s.widen(halves)
			VMOVUPS(halves, s.line(stripScales, 12+i, v))
		}
	}
}

// widen converts the f16 in the lower halves of 8 lanes, with zeros in the upper halves, to f32.
func (s narrowStrip) widen(v reg.VecVirtual) {
	high := XMM()
	VEXTRACTI128(Imm(1), v, high)
	VPACKUSDW(high, v.AsX(), high)
	VCVTPH2PS(high, v)
}

// q4kTail adds the products of a block with the first row of x to the sums in memory. x points past the numbers of a row.
func (s narrowStrip) q4kTail() {
	var off [2]reg.VecVirtual
	for i := range 4 {
		x := YMM()
		VPBROADCASTD(s.X(0, superSums-256+4*i), x)
		for v := range off {
			p := YMM()
			VPMADDWD(s.line(stripScales, 8+i, v), x, p)
			if i == 0 {
				off[v] = p
				continue
			}
			VPADDD(p, off[v], off[v])
		}
	}
	dx := YMM()
	VBROADCASTSS(s.X(0, superScale-256), dx)
	for v, o := range off {
		n, term, minus, to := YMM(), YMM(), YMM(), s.own(stripSums, 0, v)
		VCVTDQ2PS(s.own(stripInts, 0, v), n)
		VMULPS(s.line(stripScales, 12, v), dx, term)
		VMULPS(n, term, term)
		VCVTDQ2PS(o, o)
		VMULPS(s.line(stripScales, 13, v), dx, minus)
		VMULPS(o, minus, minus)
		VSUBPS(minus, term, term)
		VADDPS(to, term, term)
		VMOVUPS(term, to)
	}
}

// q8 writes the loop over groups of 4 blocks of 32.
func (s narrowStrip) q8() {
	ones := s.table.words(func(int) int { return 1 })
	block := GP64() // offset of the block's scale in those of x, which are copied to the lines of a row
	Label("unit")
	s.eachPart("scales", func() {
		for r := range s.rows {
			dx := XMM()
			VMOVUPS(s.X(r, groupScale), dx)
			VMOVUPS(dx, s.own(stripInts, r, 0))
		}
	})
	XORQ(block, block)
	s.count(stripOuter, I32(groupLen))
	Label("block")
	s.turn(2)
	for v := range 2 {
		s.halves(8*v, 0, s.line(stripScales, 0, v))
	}
	s.eachPart("part", func() {
		for i := range 8 {
			var w, size [2]reg.VecVirtual
			for v := range w {
				w[v], size[v] = YMM(), YMM()
				VMOVDQU(s.line(stripTurned, i, v), w[v])
				VPABSB(w[v], size[v])
			}
			for r := range s.rows {
				x := YMM()
				VPBROADCASTD(s.X(r, 4*i), x)
				for v := range w {
					p, sum := YMM(), s.sum(r, v)
					VPSIGNB(w[v], x, p)
					VPMADDUBSW(p, size[v], p)
					if i == 0 {
						VPMADDWD(ones, p, sum)
						continue
					}
					VPMADDWD(ones, p, p)
					VPADDD(p, sum, sum)
				}
			}
		}
		for r := range s.rows {
			scale, dx := s.own(stripInts, r, 0), YMM()
			scale.Index, scale.Scale = block, 1
			VBROADCASTSS(scale, dx)
			for v := range 2 {
				sum, d, to := s.sum(r, v), YMM(), s.own(stripSums, r, v)
				VCVTDQ2PS(sum, sum)
				VMULPS(s.line(stripScales, 0, v), dx, d)
				VMULPS(sum, d, d)
				VADDPS(to, d, d)
				VMOVUPS(d, to)
			}
		}
	})
	ADDQ(Imm(4), block)
	for _, w := range s.w {
		ADDQ(Imm(34), w)
	}
	ADDQ(Imm(32), Mem{Base: s.t, Disp: stripAt})
	s.fetchRest(16 * 34)
	s.again(stripOuter, "block")
	s.end(groupRow - 32*groupLen)
}

// halves writes the f16 at disp of 8 rows as f32.
func (s narrowStrip) halves(from, disp int, to Mem) {
	x, y := XMM(), YMM()
	VPXOR(x, x, x)
	for i := range 8 {
		VPINSRW(Imm(uint64(i)), s.W(from+i, disp), x, x)
	}
	VCVTPH2PS(x, y)
	VMOVUPS(y, to)
}
