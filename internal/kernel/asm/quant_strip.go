package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of type stripArgs in package blocks, which checks them.
const (
	stripTmp   = 0
	stripSums  = 192
	stripN     = 704
	stripW     = 712
	stripStep  = 720
	stripX     = 728
	stripXStep = 736
	stripFetch = 744
	stripHop   = 752
)

// stripMost is the largest number of rows of x that a function multiplies with a strip.
const stripMost = 8

// strip is a function multiplying 16 contiguous rows of weights with a few rows of x. It transposes
// weights in registers, so that each row of weights has a lane as in a panel, but writes no panel: with
// few rows of x, storing it would take longer than the products.
type strip struct {
	quantSet
	t, fetch     reg.Register
	w, x         []reg.Register  // of the rows 0, 4, 8 and 12, and of the rows 0 and 4 of x
	steps, jumps [4]reg.Register // distances from a row to the following ones, of weights and of x
	rows         int
	sum, acc     []reg.VecPhysical
	none         reg.VecVirtual // zeros: avo treats a vector as live before it is cleared
	fetched, all int            // cache lines of the next strip prefetched so far in an iteration, and per iteration
	near, ahead  int            // cache lines of this strip prefetched so far, and the offset of the first one of a row
}

// strips writes the functions of all types and numbers of rows of x.
func strips() {
	var table bytes64
	q := quantSet{set{name: "avx512", wide: true}, &table}
	for rows := 2; rows <= stripMost; rows++ {
		q.beginStrip("Q4K", rows, 144/2, 144).q4k()
		q.beginStrip("Q8", rows, groupLen*34, 200).q8()
	}
	q.set = set{name: "avx2"}
	q.table.base = nil
	for rows := 2; rows <= stripMost; rows++ {
		q.narrowStrip("Q4K", rows, 144/4, 144).q4k()
		q.narrowStrip("Q8", rows, 34, 136).q8()
	}
	table.write()
}

func (q quantSet) beginStrip(kind string, rows, size, ahead int) *strip {
	name := fmt.Sprintf("avx512Strip%s%d", kind, rows)
	TEXT(name, NOSPLIT, "func(t *byte)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s adds the products of 16 rows of weights with %d rows of x.", name, rows))
	s := &strip{quantSet: q, t: Load(Param("t"), GP64()), rows: rows, all: 16 * size / 64, ahead: ahead}
	s.fetch = field(s.t, stripFetch)
	s.w, s.steps = s.pointers(stripW, stripStep, 16)
	s.x, s.jumps = s.pointers(stripX, stripXStep, rows)
	z := []reg.VecPhysical{
		reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11,
		reg.Z12, reg.Z13, reg.Z14, reg.Z15,
	}
	s.sum, s.acc = z[:rows], z[8:8+rows]
	q.table.align()
	s.none = ZMM()
	VPXORD(s.none, s.none, s.none)
	return s
}

// pointers returns pointers to every fourth row, and the distances of 1 to 3 rows.
func (s *strip) pointers(at, step, rows int) (to []reg.Register, steps [4]reg.Register) {
	to = append(to, field(s.t, at))
	steps[1] = field(s.t, step)
	for i := 4; i < rows; i += 4 {
		p := GP64()
		LEAQ(Mem{Base: to[len(to)-1], Index: steps[1], Scale: 4}, p)
		to = append(to, p)
	}
	if rows > 3 {
		steps[3] = GP64()
		LEAQ(Mem{Base: steps[1], Index: steps[1], Scale: 2}, steps[3])
	}
	return to, steps
}

// in returns the address of byte disp of row i.
func in(rows []reg.Register, steps [4]reg.Register, i, disp int) Mem {
	m := Mem{Base: rows[i/4], Disp: disp}
	switch i % 4 {
	case 1, 2:
		m.Index, m.Scale = steps[1], uint8(i%4)
	case 3:
		m.Index, m.Scale = steps[3], 1
	}
	return m
}

// W and X return the address of byte disp of a row of weights, or of x.
func (s *strip) W(i, disp int) Mem { return in(s.w, s.steps, i, disp) }
func (s *strip) X(i, disp int) Mem { return in(s.x, s.jumps, i, disp) }

// prefetch prefetches some of the lines of one iteration of the loop.
func (s *strip) prefetch(n int) {
	for ; n > 0 && s.fetched < s.all; n-- {
		PREFETCHT1(Mem{Base: s.fetch, Disp: 64 * s.fetched})
		s.fetched++
	}
}

// fetchNear prefetches some lines of the next iteration to the first-level cache, two of each row.
func (s *strip) fetchNear(n int) {
	for ; n > 0 && s.near < 2*16; n-- {
		PREFETCHT0(s.W(s.near%16, s.ahead+64*(s.near/16)))
		s.near++
	}
}

// fetchRest prefetches the others.
func (s *strip) fetchRest() {
	s.prefetch(s.all)
	fetchPage(s.fetch)
	ADDQ(I32(64*s.all), s.fetch)
}

// four returns functions writing the instructions for the four 32-bit words from disp on of every row:
// lane i belongs to row i. done gets the words.
func (s *strip) four(disp int, done func(i int, v reg.VecVirtual)) (steps []func()) {
	step := func(f func()) { steps = append(steps, f) }
	var r [4]reg.VecVirtual
	for i := range r { // rows i, 4+i, 8+i and 12+i
		var high reg.VecVirtual
		step(func() { r[i] = ZMM(); VBROADCASTI32X4(s.W(i, disp), r[i]) })
		step(func() { VINSERTI32X4(Imm(1), s.W(4+i, disp), r[i].AsY(), r[i].AsY()) })
		step(func() { high = YMM(); VBROADCASTI32X4(s.W(8+i, disp), high) })
		step(func() { VINSERTI32X4(Imm(1), s.W(12+i, disp), high, high) })
		step(func() { VINSERTI64X4(Imm(1), high, r[i], r[i]) })
	}
	var low, high [2]reg.VecVirtual
	for i := range low {
		step(func() { low[i] = ZMM(); VPUNPCKLDQ(r[2*i+1], r[2*i], low[i]) })
		step(func() { high[i] = ZMM(); VPUNPCKHDQ(r[2*i+1], r[2*i], high[i]) })
	}
	for i := range 4 {
		step(func() {
			v, from := ZMM(), low
			if i >= 2 {
				from = high
			}
			if i%2 == 0 {
				VPUNPCKLQDQ(from[1], from[0], v)
			} else {
				VPUNPCKHQDQ(from[1], from[0], v)
			}
			done(i, v)
		})
	}
	return steps
}

// words writes all instructions of four together.
func (s *strip) words(disp int) (out [4]reg.VecVirtual) {
	for _, step := range s.four(disp, func(i int, v reg.VecVirtual) { out[i] = v }) {
		step()
	}
	return out
}

// multiply sets the sums to the products of 32 weights of every row. raw are the weights, and between is
// called before each.
func (s *strip) multiply(disp int, raw []Op, weights func(raw, v Op), between func()) {
	for k := range s.rows {
		VMOVDQA64(s.none, s.sum[k])
	}
	for i := range raw {
		v := ZMM()
		s.fetchNear(1)
		weights(raw[i], v)
		between()
		for k := range s.rows {
			VPDPBUSD_BCST(s.X(k, disp+4*i), v, s.sum[k])
		}
		s.prefetch(1)
	}
}

// end ends the loop over units. The pointers to weights have already advanced by `done` bytes.
func (s *strip) end(size, done, row int) {
	for _, w := range s.w {
		ADDQ(I32(size-done), w)
	}
	for _, x := range s.x {
		ADDQ(I32(row), x)
	}
	DECQ(Mem{Base: s.t, Disp: stripN})
	JNZ(LabelRef("unit"))
}

// turn returns functions transposing the 32 bytes from disp on of every row to 8 lines in memory.
func (s *strip) turn(disp, slot int) []func() {
	half := func(i int) []func() {
		return s.four(disp+16*i, func(j int, v reg.VecVirtual) { VMOVDQU64(v, s.turnedLine(slot, 4*i+j)) })
	}
	return append(half(0), half(1)...)
}

// turnedLine is one of the lines written by turn.
func (s *strip) turnedLine(slot, i int) Mem { return Mem{Base: s.t, Disp: stripTurned + 64*(8*slot+i)} }

// q4k writes the loop over blocks of 256. The lower bits of a byte of weights are multiplied unchanged,
// and the upper ones without a shift, so that sums of the lower ones are multiplied by 16, too. All are at
// most 491 million.
//
// While multiplying 32 bytes of each row, the next 32 are transposed, alternating instructions of both: a
// processor looks ahead over some hundred instructions, and the transposition would otherwise wait for the
// multiplications. The last unit transposes its first bytes again, and no one reads them.
func (s *strip) q4k() {
	low, high := ZMM(), ZMM()
	VMOVDQU64(s.table.same(15), low)
	VMOVDQU64(s.table.same(0xf0), high)
	for _, step := range s.turn(16, 0) {
		step()
	}
	Label("unit")
	hop, again := GP64(), GP64()
	MOVQ(I32(144-64), hop)
	MOVQ(I32(-64), again)
	CMPQ(Mem{Base: s.t, Disp: stripN}, Imm(1))
	CMOVQEQ(again, hop)
	MOVQ(hop, Mem{Base: s.t, Disp: stripHop})
	scales, second := s.q4kHead()
	for k := range s.rows {
		VMOVDQA64(s.none, s.acc[k])
	}
	half := GP64()
	MOVQ(I32(2), half)
	Label("half")
	for j := range 2 {
		next := s.turn(16+32, 1)
		if j == 1 { // the next 32 bytes are in the other half, or in the next unit
			to := GP64()
			MOVQ(I32(64), to)
			CMPQ(half, Imm(1))
			CMOVQEQ(Mem{Base: s.t, Disp: stripHop}, to)
			for _, w := range s.w {
				ADDQ(to, w)
			}
			next = s.turn(16, 0)
		}
		var raw []Op
		for i := range 8 {
			raw = append(raw, s.turnedLine(j, i))
		}
		each := (len(next)-1)/(2*len(raw)) + 1
		for upper, mask := range []reg.VecVirtual{low, high} {
			s.multiply(32*j+64*upper, raw, func(raw, v Op) { VPANDD(raw, mask, v) }, func() {
				for _, step := range next[:min(each, len(next))] {
					step()
				}
				next = next[min(each, len(next)):]
			})
			scale := ZMM()
			b := 2*j + upper
			VPSHUFB(s.table.vector(func(i int) uint8 { return [4]uint8{uint8(i&12 + b), 0x80, 0x80, 0x80}[i%4] }), scales, scale)
			if upper == 0 {
				VPSLLD(Imm(4), scale, scale)
			}
			for k := range s.rows {
				VPMULLD(scale, s.sum[k], s.sum[k])
				VPADDD(s.sum[k], s.acc[k], s.acc[k])
			}
		}
	}
	VMOVDQA64(second, scales)
	for _, x := range s.x {
		ADDQ(I32(128), x)
	}
	s.fetchRest()
	DECQ(half)
	JNZ(LabelRef("half"))
	s.q4kTail()
	s.end(0, 0, superRow-256)
	VZEROUPPER()
	RET()
	s.table.base = nil
}

// q4kHead returns the 8 scales of every row as bytes, and writes the offsets, and d and m, to tmp.
func (s *strip) q4kHead() (first, second reg.VecVirtual) {
	h := s.words(0)
	a, b, c := h[1], h[2], h[3]
	six, four, two := s.table.same(63), s.table.same(15), s.table.same(0x30)
	first, second = ZMM(), ZMM()
	t := ZMM()
	// upper sets v to numbers 4 to 7: see quant.Q4Scale.
	upper := func(from Op, v reg.VecVirtual) {
		VPANDD(four, v, v)
		VPSRLD(Imm(2), from, t)
		VPTERNLOGD(Imm(0xf8), two, t, v) // v | t & 0x30
	}
	VMOVDQA64(c, second)
	upper(a, second)
	VPANDD(six, a, first)
	o := ZMM()
	VPSRLD(Imm(4), c, o)
	upper(b, o)
	VMOVDQU64(o, Mem{Base: s.t, Disp: stripTmp + 64})
	VPANDD(six, b, o)
	VMOVDQU64(o, Mem{Base: s.t, Disp: stripTmp})
	VMOVDQU64(h[0], Mem{Base: s.t, Disp: stripTmp + 128})
	return first, second
}

// q4kTail adds the products of a block to the sums in memory. x points past the numbers of a row.
func (s *strip) q4kTail() {
	d, m, heads := ZMM(), ZMM(), ZMM()
	VMOVDQU64(Mem{Base: s.t, Disp: stripTmp + 128}, heads)
	f16 := func(from, to reg.VecVirtual) {
		y := YMM()
		VPMOVDW(from, y)
		VCVTPH2PS(y, to)
	}
	f16(heads, d)
	VPSRLD(Imm(16), heads, heads)
	f16(heads, m)
	var offsets [4]reg.VecVirtual
	for i := range offsets {
		offsets[i] = ZMM()
		v := ZMM()
		VMOVDQU64(Mem{Base: s.t, Disp: stripTmp + 64*(i/2)}, v)
		VPSHUFB(s.table.vector(func(j int) uint8 {
			return [4]uint8{uint8(j&12 + 2*(i%2)), 0x80, uint8(j&12 + 2*(i%2) + 1), 0x80}[j%4]
		}), v, offsets[i])
	}
	for k := range s.rows {
		off, of := s.sum[k], Mem{Base: s.t, Disp: stripSums + 64*k}
		VMOVDQA64(s.none, off)
		for i, o := range offsets {
			VPDPWSSD_BCST(s.X(k, superSums-256+4*i), o, off)
		}
		term := ZMM()
		VMULPS_BCST(s.X(k, superScale-256), d, term)
		VPSRAD(Imm(4), s.acc[k], s.acc[k])
		VCVTDQ2PS(s.acc[k], s.acc[k])
		VMULPS(s.acc[k], term, term)
		minus := ZMM()
		VMULPS_BCST(s.X(k, superScale-256), m, minus)
		VCVTDQ2PS(off, off)
		VMULPS(off, minus, minus)
		VSUBPS(minus, term, term)
		VADDPS(of, term, term)
		VMOVUPS(term, of)
	}
}

// q8 writes the loop over groups of 4 blocks of 32. An offset makes the weights unsigned. The rounded row
// holds its sum times this offset, for subtracting it.
func (s *strip) q8() {
	for k := range s.rows {
		VMOVUPS(Mem{Base: s.t, Disp: stripSums + 64*k}, s.acc[k])
	}
	offset := ZMM()
	VMOVDQU64(s.table.same(0x80), offset)
	Label("unit")
	for b := range groupLen {
		var raw []Op
		for _, disp := range []int{34*b + 2, 34*b + 18} {
			for _, v := range s.words(disp) {
				raw = append(raw, v)
			}
		}
		s.multiply(32*b, raw, func(raw, v Op) { VPXORD(offset, raw, v) }, func() {})
		d := s.firstHalves(34 * b)
		for k := range s.rows {
			sum, dx := s.sum[k], ZMM()
			VMULPS_BCST(s.X(k, groupScale+4*b), d, dx)
			VPSUBD_BCST(s.X(k, groupSums+4*b), sum, sum)
			VCVTDQ2PS(sum, sum)
			VMULPS(sum, dx, sum)
			VADDPS(sum, s.acc[k], s.acc[k])
		}
	}
	s.fetchRest()
	s.end(groupLen*34, 0, groupRow)
	for k := range s.rows {
		VMOVUPS(s.acc[k], Mem{Base: s.t, Disp: stripSums + 64*k})
	}
	VZEROUPPER()
	RET()
	s.table.base = nil
}

// firstHalves returns the f16 at disp of every row as f32.
func (s *strip) firstHalves(disp int) reg.VecVirtual {
	var q [4]reg.VecVirtual
	for i := range q {
		q[i] = ZMM()
		VPBROADCASTD(s.W(4*i, disp), q[i])
		for l := 1; l < 4; l++ {
			VPINSRD(Imm(uint64(l)), s.W(4*i+l, disp), q[i].AsX(), q[i].AsX())
		}
	}
	d, halves := ZMM(), YMM()
	VINSERTI32X4(Imm(1), q[1].AsX(), q[0].AsY(), q[0].AsY())
	VINSERTI32X4(Imm(1), q[3].AsX(), q[2].AsY(), q[2].AsY())
	VINSERTI64X4(Imm(1), q[2].AsY(), q[0], q[0])
	VPMOVDW(q[0], halves)
	VCVTPH2PS(halves, d)
	return d
}
