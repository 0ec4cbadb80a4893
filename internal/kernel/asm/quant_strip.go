package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of type stripArgs in package blocks, which checks them.
const (
	stripTmp     = 0
	stripSums    = 192
	stripN       = 704
	stripW       = 712
	stripStep    = 720
	stripX       = 728
	stripXStep   = 736
	stripFetch   = 744
	stripHop     = 752
	stripTurned  = 832                  // lines of four weights of each row, transposed
	stripFactors = stripTurned + 2*8*64 // for AVX-512, 8 lines of scales

	// Loop counters, and values with no register of their own.
	stripOuter = 776
	stripPart  = 784
	stripRow   = 792
	stripNext  = 800 // the distance from 32 elements of x to the next ones
	stripScale = 808 // the address of the next scales, less stripFactors
	stripTable = 816 // the address of the constants
	stripAt    = 824 // the address in x
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
	near, ahead  int            // rows of this strip prefetched so far in an iteration, from this offset on
}

// strips writes the functions of all types and numbers of rows of x.
func strips() {
	var table bytes64
	q := quantSet{set{name: "avx512", wide: true}, &table}
	for rows := 2; rows <= stripMost; rows++ {
		q.beginStrip("Q4K", rows, 144/4, 144).q4k()
		q.beginStrip("Q8", rows, 34, 136).q8()
	}
	q.set = set{name: "avx2"}
	q.table.base = nil
	for rows := 2; rows <= narrowStripRows; rows++ {
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
	s := &strip{quantSet: q, t: Load(Param("t"), GP64()), rows: rows, all: (16*size + 63) / 64, ahead: ahead}
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

// fetchNear prefetches a line of some rows to the first-level cache.
func (s *strip) fetchNear(n int) {
	for ; n > 0 && s.near < 16; n-- {
		PREFETCHT0(s.W(s.near, s.ahead))
		s.near++
	}
}

// fetchRest prefetches the remaining lines of the given number of bytes.
func (s *strip) fetchRest(bytes int) {
	s.prefetch(s.all)
	fetchPage(s.fetch)
	ADDQ(I32(int32(bytes)), s.fetch)
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
		s.fetchNear(16 / len(raw))
		weights(raw[i], v)
		between()
		for k := range s.rows {
			VPDPBUSD_BCST(s.X(k, disp+4*i), v, s.sum[k])
		}
		s.prefetch(1)
	}
}

// end ends the loop over units, advancing x by row bytes.
func (s *strip) end(row int) {
	for _, x := range s.x {
		ADDQ(I32(row), x)
	}
	DECQ(Mem{Base: s.t, Disp: stripN})
	JNZ(LabelRef("unit"))
}

// turn returns functions transposing the 32 bytes from disp on of every row to 8 lines.
func (s *strip) turn(disp int, to reg.Register) []func() {
	half := func(i int) []func() {
		return s.four(disp+16*i, func(j int, v reg.VecVirtual) { VMOVDQU64(v, Mem{Base: to, Disp: 64 * (4*i + j)}) })
	}
	return append(half(0), half(1)...)
}

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
	MOVQ(s.table.base, Mem{Base: s.t, Disp: stripTable})
	lines, next := GP64(), GP64() // of these 32 bytes of each row, and of the next ones
	LEAQ(Mem{Base: s.t, Disp: stripTurned}, lines)
	LEAQ(Mem{Base: s.t, Disp: stripTurned + 8*64}, next)
	for _, step := range s.turn(16, lines) {
		step()
	}
	Label("unit")
	s.q4kHead()
	for k := range s.rows {
		VMOVDQA64(s.none, s.acc[k])
	}
	MOVQ(I32(4), Mem{Base: s.t, Disp: stripOuter})
	MOVQ(I32(32), Mem{Base: s.t, Disp: stripHop})
	MOVQ(I32(32), Mem{Base: s.t, Disp: stripNext})
	MOVQ(s.t, Mem{Base: s.t, Disp: stripScale})
	Label("quarter")
	hop := field(s.t, stripHop)
	for _, w := range s.w {
		ADDQ(hop, w)
	}
	turn := s.turn(16, next)
	each := (len(turn)-1)/(2*8) + 1
	for upper, mask := range []reg.VecVirtual{low, high} {
		var raw []Op
		for i := range 8 {
			raw = append(raw, Mem{Base: lines, Disp: 64 * i})
		}
		s.multiply(64*upper, raw, func(raw, v Op) { VPANDD(raw, mask, v) }, func() {
			for _, step := range turn[:min(each, len(turn))] {
				step()
			}
			turn = turn[min(each, len(turn)):]
		})
		at, scale := field(s.t, stripScale), ZMM()
		VMOVDQU64(Mem{Base: at, Disp: stripFactors + 64*upper}, scale)
		if upper == 1 {
			ADDQ(I32(2*64), at)
			MOVQ(at, Mem{Base: s.t, Disp: stripScale})
		}
		for k := range s.rows {
			VPMULLD(scale, s.sum[k], s.sum[k])
			VPADDD(s.sum[k], s.acc[k], s.acc[k])
		}
	}
	XCHGQ(lines, next)
	hop = field(s.t, stripNext)
	for _, x := range s.x {
		ADDQ(hop, x)
	}
	XORQ(Imm(32^96), hop)
	MOVQ(hop, Mem{Base: s.t, Disp: stripNext})
	s.fetchRest(16 * 144 / 4)
	left := field(s.t, stripOuter)
	DECQ(left)
	MOVQ(left, Mem{Base: s.t, Disp: stripOuter})
	CMPQ(left, Imm(1))
	JHI(LabelRef("quarter"))
	JB(LabelRef("tail"))
	MOVQ(I32(144-3*32), Mem{Base: s.t, Disp: stripHop}) // to the next unit
	CMPQ(Mem{Base: s.t, Disp: stripN}, Imm(1))
	JNE(LabelRef("quarter"))
	MOVQ(I32(-3*32), Mem{Base: s.t, Disp: stripHop})
	JMP(LabelRef("quarter"))
	Label("tail")
	s.q4kTail()
	s.end(superRow - 256)
	VZEROUPPER()
	RET()
	s.table.base = nil
}

// q4kHead writes the 8 scales of every row, and the offsets, and d and m, to tmp.
func (s *strip) q4kHead() {
	s.table.base = field(s.t, stripTable)
	h := s.words(0)
	a, b, c := h[1], h[2], h[3]
	six, four, two := s.table.same(63), s.table.same(15), s.table.same(0x30)
	first, second, t := ZMM(), ZMM(), ZMM()
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
	for i := range 8 {
		from, b, scale := first, i%4, ZMM()
		if i >= 4 {
			from = second
		}
		VPSHUFB(s.table.vector(func(j int) uint8 { return [4]uint8{uint8(j&12 + b), 0x80, 0x80, 0x80}[j%4] }), from, scale)
		if i%2 == 0 {
			VPSLLD(Imm(4), scale, scale)
		}
		VMOVDQU64(scale, Mem{Base: s.t, Disp: stripFactors + 64*i})
	}
}

// q4kTail adds the products of a block to the sums in memory. x points past the numbers of a row.
func (s *strip) q4kTail() {
	s.table.base = field(s.t, stripTable)
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
		VMOVDQU64(s.acc[k], Mem{Base: s.t, Disp: stripFactors + 64*k})
	}
	line := GP64()
	MOVQ(s.t, line)
	MOVQ(s.x[0], Mem{Base: s.t, Disp: stripAt})
	MOVQ(I32(int32(s.rows)), Mem{Base: s.t, Disp: stripRow})
	Label("row")
	off, acc, of := ZMM(), ZMM(), Mem{Base: line, Disp: stripSums}
	VMOVDQA64(s.none, off)
	for i, o := range offsets {
		VPDPWSSD_BCST(s.X(0, superSums-256+4*i), o, off)
	}
	term := ZMM()
	VMULPS_BCST(s.X(0, superScale-256), d, term)
	VPSRAD(Imm(4), Mem{Base: line, Disp: stripFactors}, acc)
	VCVTDQ2PS(acc, acc)
	VMULPS(acc, term, term)
	minus := ZMM()
	VMULPS_BCST(s.X(0, superScale-256), m, minus)
	VCVTDQ2PS(off, off)
	VMULPS(off, minus, minus)
	VSUBPS(minus, term, term)
	VADDPS(of, term, term)
	VMOVUPS(term, of)
	ADDQ(s.jumps[1], s.x[0])
	ADDQ(Imm(64), line)
	DECQ(Mem{Base: s.t, Disp: stripRow})
	JNZ(LabelRef("row"))
	MOVQ(Mem{Base: s.t, Disp: stripAt}, s.x[0])
}

// q8 writes the loop over groups of 4 blocks of 32. An offset makes the weights unsigned. The rounded row
// holds its sum times this offset, for subtracting it.
func (s *strip) q8() {
	for k := range s.rows {
		VMOVUPS(Mem{Base: s.t, Disp: stripSums + 64*k}, s.acc[k])
	}
	offset := ZMM()
	VMOVDQU64(s.table.same(0x80), offset)
	var scales []reg.Register // of the rows 0 and 4 of x
	for _, x := range s.x {
		p := GP64()
		MOVQ(x, p)
		scales = append(scales, p)
	}
	Label("unit")
	MOVQ(I32(groupLen), Mem{Base: s.t, Disp: stripOuter})
	Label("block")
	var raw []Op
	for _, disp := range []int{2, 18} {
		for _, v := range s.words(disp) {
			raw = append(raw, v)
		}
	}
	s.multiply(0, raw, func(raw, v Op) { VPXORD(offset, raw, v) }, func() {})
	d := s.firstHalves(0)
	for k := range s.rows {
		sum, dx := s.sum[k], ZMM()
		VMULPS_BCST(in(scales, s.jumps, k, groupScale), d, dx)
		VPSUBD_BCST(in(scales, s.jumps, k, groupSums), sum, sum)
		VCVTDQ2PS(sum, sum)
		VMULPS(sum, dx, sum)
		VADDPS(sum, s.acc[k], s.acc[k])
	}
	for _, w := range s.w {
		ADDQ(Imm(34), w)
	}
	for i, x := range s.x {
		ADDQ(Imm(32), x)
		ADDQ(Imm(4), scales[i])
	}
	s.fetchRest(16 * 34)
	DECQ(Mem{Base: s.t, Disp: stripOuter})
	JNZ(LabelRef("block"))
	for _, p := range scales {
		ADDQ(I32(groupRow-4*groupLen), p)
	}
	s.end(groupRow - 32*groupLen)
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
