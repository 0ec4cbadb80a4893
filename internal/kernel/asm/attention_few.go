package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of type fewWork in package attention, which checks them.
const (
	fewGroups  = 0
	fewK       = 8
	fewKStride = 16
	fewDeep    = 24
	fewQ       = 32
	fewP       = 40
	fewPStride = 48
	fewRows    = 56
	fewKeys    = 64
	fewV       = 72
	fewVStride = 80
	fewC       = 88
	fewCStride = 96
	fewFirst   = 104
	fewTop     = 112 // 8 float32, like the following fields
	fewKeep    = fewTop + 32
	fewTotal   = fewKeep + 32
)

// fewScores writes a function for the products of `rows` queries with groups of 16 keys. Keys are
// rows; four elements of a vector of keys at a time are transposed in registers into four vectors,
// with a lane per key. Each product is a sum from the first element to the last.
func (s set) fewScores(rows int) {
	name := fmt.Sprintf("%sFewScores%d", s.name, rows)
	onWork(name)
	Doc(fmt.Sprintf("%s multiplies %d queries with groups of 16 keys.", name, rows))
	t := Load(Param("t"), GP64())
	k, p := field(t, fewK), field(t, fewP)
	one := field(t, fewKStride)
	three, five, seven := GP64(), GP64(), GP64()
	LEAQ(Mem{Base: one, Index: one, Scale: 2}, three)
	LEAQ(Mem{Base: one, Index: one, Scale: 4}, five)
	LEAQ(Mem{Base: three, Index: one, Scale: 4}, seven)
	eights := []reg.GPVirtual{GP64(), GP64()} // addresses of key 0 and key 8 of a group
	key := func(i int) Mem {
		m := Mem{Base: eights[i/8]}
		switch i % 8 {
		case 0:
		case 1, 2, 4:
			m.Index, m.Scale = one, uint8(i%8)
		case 6:
			m.Index, m.Scale = three, 2
		default:
			m.Index, m.Scale = map[int]reg.GPVirtual{3: three, 5: five, 7: seven}[i%8], 1
		}
		return m
	}
	vecs := 64 / s.bytes() // vectors at once: a group or, if registers are scarce, half of one
	if rows == 8 {
		vecs = 1
	}
	keys := vecs * s.bytes() / 4
	sums := make([][]reg.VecVirtual, vecs)
	for v := range sums {
		for range rows {
			sums[v] = append(sums[v], s.vector())
		}
	}
	q, deep, count := GP64(), GP64(), field(t, fewGroups)
	if keys < 16 {
		ADDQ(count, count)
	}
	Label("group")
	MOVQ(k, eights[0])
	if keys > 8 {
		LEAQ(Mem{Base: k, Index: one, Scale: 8}, eights[1])
	}
	MOVQ(Mem{Base: t, Disp: fewQ}, q)
	MOVQ(Mem{Base: t, Disp: fewDeep}, deep)
	for v := range sums {
		for _, x := range sums[v] {
			s.clear(x)
		}
	}
	Label("elements")
	for v := range sums {
		for d, x := range s.fourColumns(func(i int) Mem { return key(v*keys/vecs + i) }) {
			for i, sum := range sums[v] {
				from := Mem{Base: q, Disp: 4 * (d*rows + i)}
				if s.wide {
					VFMADD231PS_BCST(from, x, sum)
				} else {
					y := s.vector()
					VBROADCASTSS(from, y)
					VFMADD231PS(y, x, sum)
				}
			}
		}
	}
	ADDQ(Imm(uint64(16*rows)), q)
	ADDQ(Imm(16), eights[0])
	if keys > 8 {
		ADDQ(Imm(16), eights[1])
	}
	DECQ(deep)
	JNZ(LabelRef("elements"))
	row, pstride := GP64(), GP64()
	MOVQ(p, row)
	MOVQ(Mem{Base: t, Disp: fewPStride}, pstride)
	for i := range rows {
		for v := range sums {
			VMOVUPS(sums[v][i], Mem{Base: row, Disp: v * s.bytes()})
		}
		if i < rows-1 {
			ADDQ(pstride, row)
		}
	}
	ADDQ(Imm(uint64(4*keys)), p)
	for range keys / 8 {
		LEAQ(Mem{Base: k, Index: one, Scale: 8}, k)
	}
	DECQ(count)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}

// clear sets v to zeros.
func (s set) clear(v reg.VecVirtual) {
	if s.wide {
		VPXORD(v, v, v)
	} else {
		VXORPS(v, v, v)
	}
}

// fourColumns returns the first four elements of rows, as many as a vector has lanes, as
// columns.
func (s set) fourColumns(row func(i int) Mem) [4]reg.VecVirtual {
	var r [4]reg.VecVirtual // the four-lane parts of r[i] are the rows i, 4+i and so on
	for i := range r {
		r[i] = s.vector()
		if s.wide { // broadcast to all parts, so that the register allocator sees it set
			VBROADCASTF32X4(row(i), r[i])
		} else {
			VBROADCASTF128(row(i), r[i])
		}
		for part := 1; part < s.bytes()/16; part++ {
			if s.wide {
				VINSERTF32X4(Imm(uint64(part)), row(4*part+i), r[i], r[i])
			} else {
				VINSERTF128(Imm(uint64(part)), row(4*part+i), r[i], r[i])
			}
		}
	}
	var pairs, columns [4]reg.VecVirtual
	for i := range pairs {
		pairs[i], columns[i] = s.vector(), s.vector()
	}
	VUNPCKLPS(r[1], r[0], pairs[0])
	VUNPCKHPS(r[1], r[0], pairs[1])
	VUNPCKLPS(r[3], r[2], pairs[2])
	VUNPCKHPS(r[3], r[2], pairs[3])
	VUNPCKLPD(pairs[2], pairs[0], columns[0])
	VUNPCKHPD(pairs[2], pairs[0], columns[1])
	VUNPCKLPD(pairs[3], pairs[1], columns[2])
	VUNPCKHPD(pairs[3], pairs[1], columns[3])
	return columns
}

// fewPowers writes the function adding a block of keys to the softmax of few queries. Scores are in
// rows of whole groups of 16 lanes, padded with -Inf.
func (s set) fewPowers() {
	name := s.name + "FewPowers"
	onWork(name)
	Doc(name + " takes a block of keys into the softmax of few queries.")
	t := Load(Param("t"), GP64())
	p, pstride, count := field(t, fewP), field(t, fewPStride), field(t, fewRows)
	query := GP64() // the query's state, at the same offset from t as the query in a row of float32
	MOVQ(t, query)
	exp := s.power()
	lowest := math.Inf(-1)
	Label("row")
	top := s.load(s.number(lowest))
	n, at := field(t, fewGroups), GP64()
	MOVQ(p, at)
	Label("max")
	for part := 0; part < 64; part += s.bytes() {
		VMAXPS(top, s.load(Mem{Base: at, Disp: part}), top) // skips NaN
	}
	ADDQ(Imm(64), at)
	DECQ(n)
	JNZ(LabelRef("max"))
	x := XMM()
	if s.wide {
		y := YMM()
		VEXTRACTF64X4(Imm(1), top, y)
		VMAXPS(top.AsY(), y, top.AsY())
	}
	VEXTRACTF128(Imm(1), top.AsY(), x)
	VMAXPS(top.AsX(), x, top.AsX())
	VPERMILPS(Imm(0b01001110), top.AsX(), x)
	VMAXPS(top.AsX(), x, top.AsX())
	VPERMILPS(Imm(0b10110001), top.AsX(), x)
	VMAXPS(top.AsX(), x, top.AsX())
	before := s.vector()
	VBROADCASTSS(Mem{Base: query, Disp: fewTop}, before)
	VMAXPS(top.AsX(), before.AsX(), top.AsX())
	VMOVSS(top.AsX(), Mem{Base: query, Disp: fewTop})
	VBROADCASTSS(top.AsX(), top)
	// If all scores are -Inf the shift is 0: -Inf - (-Inf) would be NaN.
	shift, least := s.vector(), s.load(s.number(lowest))
	if s.wide {
		k := K()
		VCMPPS(Imm(4), least, top, k) // not equal
		VMOVAPS_Z(top, k, shift)
	} else {
		VCMPPS(Imm(4), least, top, shift)
		VANDPS(top, shift, shift)
	}
	VSUBPS(shift, before, before)
	keep := exp(before)
	VMOVSS(keep.AsX(), Mem{Base: query, Disp: fewKeep})
	MOVQ(Mem{Base: t, Disp: fewGroups}, n)
	MOVQ(p, at)
	Label("exp")
	for part := 0; part < 64; part += s.bytes() {
		y := s.load(Mem{Base: at, Disp: part})
		VSUBPS(shift, y, y)
		VMOVUPS(exp(y), Mem{Base: at, Disp: part})
	}
	ADDQ(Imm(64), at)
	DECQ(n)
	JNZ(LabelRef("exp"))
	ADDQ(Imm(4), query)
	ADDQ(pstride, p)
	DECQ(count)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// fewValues writes a function weighting values by the powers of `rows` queries: it scales a query's
// row of c by the query's keep and adds the sum of the values of a block of keys, in vecs vectors.
// It also sets the sums of the powers. Sums run from the first key to the last.
func (s set) fewValues(rows, vecs int) {
	name := fmt.Sprintf("%sFewValues%dx%d", s.name, rows, vecs)
	onWork(name)
	Doc(fmt.Sprintf("%s weighs values for %d queries, %d vectors of each.", name, rows, vecs))
	t := Load(Param("t"), GP64())
	p, pstride, v, vstride, n := field(t, fewP), field(t, fewPStride), field(t, fewV), field(t, fewVStride), field(t, fewKeys)
	three := GP64()
	if rows > 2 {
		LEAQ(Mem{Base: pstride, Index: pstride, Scale: 2}, three)
	}
	power := func(i int) Mem {
		m := Mem{Base: p}
		switch i {
		case 1, 2:
			m.Index, m.Scale = pstride, uint8(i)
		case 3:
			m.Index, m.Scale = three, 1
		}
		return m
	}
	sums := make([][]reg.VecVirtual, rows)
	var totals, x []reg.VecVirtual
	for i := range sums {
		totals, x = append(totals, s.zero()), append(x, s.vector())
		for range vecs {
			sums[i] = append(sums[i], s.zero())
		}
	}
	Label("key")
	for i := range x {
		s.broadcast(power(i), x[i])
		VADDPS(x[i], totals[i], totals[i])
	}
	for j := range vecs {
		m := Mem{Base: v, Disp: j * s.bytes()}
		y := Op(m)
		if rows > 1 {
			y = s.load(m)
		}
		for i := range x {
			s.fma(y, x[i], sums[i][j])
		}
	}
	ADDQ(Imm(4), p)
	ADDQ(vstride, v)
	DECQ(n)
	JNZ(LabelRef("key"))
	c, cstride, first := field(t, fewC), field(t, fewCStride), field(t, fewFirst)
	for i := range sums {
		VMOVSS(totals[i].AsX(), Mem{Base: t, Index: first, Scale: 4, Disp: fewTotal + 4*i})
		keep := s.vector()
		s.broadcast(Mem{Base: t, Index: first, Scale: 4, Disp: fewKeep + 4*i}, keep)
		for j, sum := range sums[i] {
			m := Mem{Base: c, Disp: j * s.bytes()}
			before := s.vector()
			VMULPS(m, keep, before)
			VADDPS(before, sum, sum)
			VMOVUPS(sum, m)
		}
		if i < rows-1 {
			ADDQ(cstride, c)
		}
	}
	VZEROUPPER()
	RET()
}

// few writes the functions for attention of few queries to the same keys.
func (s set) few() {
	for rows := 1; rows <= 8; rows *= 2 {
		s.fewScores(rows)
	}
	s.fewPowers()
	most := 8 // vectors of sums
	if s.wide {
		most = 16
	}
	for rows := 1; rows <= most/4; rows *= 2 {
		for vecs := 1; vecs <= min(8, most/rows); vecs *= 2 {
			s.fewValues(rows, vecs)
		}
	}
}
