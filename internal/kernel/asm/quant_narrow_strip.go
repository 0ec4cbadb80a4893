package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of type stripArgs used only by functions of AVX2: values that AVX-512 holds in
// registers.
const (
	stripTurned = 768                        // 8 lines: four weights of each row, transposed
	stripScales = stripTurned + 8*stripLine  // 8 lines of scales, 4 of offsets, and d and m
	stripInts   = stripScales + 14*stripLine // a line of sums of each row of x
	stripLine   = 64                         // the bytes of 16 lanes
)

// narrowStripRows is the largest number of rows of x multiplied with weights in registers: they have 8 sums.
const narrowStripRows = 4

// narrowStrip is strip for AVX2: a line of 16 lanes is two vectors, and transposed weights are in memory.
type narrowStrip struct {
	*strip
	parts [][]int // rows of x multiplied at once
}

func (q quantSet) narrowStrip(kind string, rows, size, ahead int) narrowStrip {
	name := fmt.Sprintf("avx2Strip%s%d", kind, rows)
	TEXT(name, NOSPLIT, "func(t *byte)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s adds the products of 16 rows of weights with %d rows of x.", name, rows))
	s := narrowStrip{strip: &strip{quantSet: q, t: Load(Param("t"), GP64()), rows: rows, all: (16*size + 63) / 64, ahead: ahead}}
	s.fetch = field(s.t, stripFetch)
	s.w, s.steps = s.pointers(stripW, stripStep, 16)
	s.x, s.jumps = s.pointers(stripX, stripXStep, rows)
	for r := 0; r < rows; {
		n := (rows - r + narrowStripRows - 1) / narrowStripRows // remaining parts
		var part []int
		for range (rows - r + n - 1) / n {
			part = append(part, r)
			r++
		}
		s.parts = append(s.parts, part)
	}
	return s
}

// line returns half v of a line from disp on.
func (s narrowStrip) line(disp, i, v int) Mem {
	return Mem{Base: s.t, Disp: disp + stripLine*i + 32*v}
}

// turn transposes the 32 bytes from disp on of every row to 8 lines.
func (s narrowStrip) turn(disp int) {
	for v := range 2 {
		for half := range 2 {
			for i, w := range s.turned(8*v, disp+16*half) {
				VMOVDQU(w, s.line(stripTurned, 4*half+i, v))
				s.fetchNear(1)
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
	for k := range s.rows {
		for v := range 2 {
			VMOVDQU(zero, s.line(stripInts, k, v))
		}
	}
	step, scale := GP64(), GP64() // distance from these 32 elements of x to the next ones, and address of the lines of scales
	MOVQ(I32(32), step)
	MOVQ(s.t, scale)
	s.count(4)
	Label("part")
	s.turn(16)
	for upper := range 2 {
		for _, part := range s.parts {
			s.nibbles(part, 64*upper, upper)
			for r, k := range part {
				for v := range 2 {
					sum, to := s.sum(r, v), s.line(stripInts, k, v)
					VPMADDWD(Mem{Base: scale, Disp: stripScales + stripLine*upper + 32*v}, sum, sum)
					VPADDD(to, sum, sum)
					VMOVDQU(sum, to)
				}
			}
			s.prefetch(s.all/(2*len(s.parts)) + 1)
		}
	}
	ADDQ(I32(2*stripLine), scale)
	for _, w := range s.w {
		ADDQ(Imm(32), w)
	}
	for _, x := range s.x {
		ADDQ(step, x)
	}
	XORQ(Imm(32^96), step)
	s.fetchRest(16 * 144 / 4)
	s.again("part")
	for k := range s.rows {
		s.q4kTail(k)
	}
	s.end(144, 128, superRow-256)
	VZEROUPPER()
	RET()
}

// count makes `again` jump n-1 times, and then fall through.
func (s narrowStrip) count(n int) { MOVQ(I32(int32(n)), Mem{Base: s.t, Disp: stripTmp}) }

func (s narrowStrip) again(label string) {
	DECQ(Mem{Base: s.t, Disp: stripTmp})
	JNZ(LabelRef(label))
}

// fetchRest prefetches the remaining lines of the given number of bytes.
func (s narrowStrip) fetchRest(bytes int) {
	s.prefetch(s.all)
	fetchPage(s.fetch)
	ADDQ(I32(bytes), s.fetch)
}

// nibbles sets the sums of a part to the sums of 32 products of every row, in pairs of 16 bits: none exceeds
// 16·15·127.
func (s narrowStrip) nibbles(part []int, disp, upper int) {
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
		for r, k := range part {
			x := YMM()
			VPBROADCASTD(s.X(k, disp+4*i), x)
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

// q4kTail adds the products of a block with row k to the sums in memory. x points past the numbers of a row.
func (s narrowStrip) q4kTail(k int) {
	var off [2]reg.VecVirtual
	for i := range 4 {
		x := YMM()
		VPBROADCASTD(s.X(k, superSums-256+4*i), x)
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
	VBROADCASTSS(s.X(k, superScale-256), dx)
	for v, o := range off {
		n, term, minus, to := YMM(), YMM(), YMM(), s.line(stripSums, k, v)
		VCVTDQ2PS(s.line(stripInts, k, v), n)
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
	scale := GP64() // address of the scales of x
	Label("unit")
	for k := range s.rows {
		dx := XMM()
		VMOVUPS(s.X(k, groupScale), dx)
		VMOVUPS(dx, Mem{Base: s.t, Disp: stripInts + stripLine*k})
	}
	MOVQ(s.t, scale)
	s.count(groupLen)
	Label("block")
	s.turn(2)
	for v := range 2 {
		s.halves(8*v, 0, s.line(stripScales, 0, v))
	}
	for _, part := range s.parts {
		for i := range 8 {
			var w, size [2]reg.VecVirtual
			for v := range w {
				w[v], size[v] = YMM(), YMM()
				VMOVDQU(s.line(stripTurned, i, v), w[v])
				VPABSB(w[v], size[v])
			}
			for r, k := range part {
				x := YMM()
				VPBROADCASTD(s.X(k, 4*i), x)
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
			s.prefetch(1)
		}
		for r, k := range part {
			dx := YMM()
			VBROADCASTSS(Mem{Base: scale, Disp: stripInts + stripLine*k}, dx)
			for v := range 2 {
				sum, d, to := s.sum(r, v), YMM(), s.line(stripSums, k, v)
				VCVTDQ2PS(sum, sum)
				VMULPS(s.line(stripScales, 0, v), dx, d)
				VMULPS(sum, d, d)
				VADDPS(to, d, d)
				VMOVUPS(d, to)
			}
		}
	}
	ADDQ(Imm(4), scale)
	for _, w := range s.w {
		ADDQ(Imm(34), w)
	}
	for _, x := range s.x {
		ADDQ(Imm(32), x)
	}
	s.fetchRest(16 * 34)
	s.again("block")
	s.end(0, 0, groupRow-32*groupLen)
	VZEROUPPER()
	RET()
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
