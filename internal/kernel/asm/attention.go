package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of type laneProduct in package attention, which checks them.
const (
	productTiles   = 0
	productDeep    = 8
	productA       = 16
	productAStride = 24
	productB       = 32
	productBStride = 40
	productC       = 48
	productCStride = 56
	productAdd     = 64
)

// product writes a function for C = A·B, or C += A·B if add is set. C is tiles of s.rows rows and
// vecs vectors, stacked vertically. A is read in place: if byRow is set, element i,p is element p
// of row i, otherwise it is element i of row p. The row stride of A is astride bytes.
func (s set) product(byRow bool, vecs int) {
	name := fmt.Sprintf("%sByCol%d", s.name, vecs)
	if byRow {
		name = fmt.Sprintf("%sByRow%d", s.name, vecs)
	}
	onWork(name)
	Doc(fmt.Sprintf("%s multiplies tiles of %d rows and %d vectors.", name, s.rows, vecs))
	t := Load(Param("t"), GP64())
	tiles, a, astride := field(t, productTiles), field(t, productA), field(t, productAStride)
	bstride, c, cstride := field(t, productBStride), field(t, productC), field(t, productCStride)
	multiple := map[int]reg.GPVirtual{}
	if byRow {
		for _, n := range []int{3, 5, 7} {
			if n < s.rows {
				multiple[n] = GP64()
			}
		}
		LEAQ(Mem{Base: astride, Index: astride, Scale: 2}, multiple[3])
		if s.rows > 4 {
			LEAQ(Mem{Base: astride, Index: astride, Scale: 4}, multiple[5])
			LEAQ(Mem{Base: multiple[3], Index: astride, Scale: 4}, multiple[7])
		}
	}
	element := func(from reg.Register, i, p int) Mem {
		if !byRow {
			return Mem{Base: from, Disp: i * s.size}
		}
		m := Mem{Base: from, Disp: p * s.size}
		switch i {
		case 0:
		case 1, 2, 4:
			m.Index, m.Scale = astride, uint8(i)
		case 6:
			m.Index, m.Scale = multiple[3], 2
		default:
			m.Index, m.Scale = multiple[i], 1
		}
		return m
	}
	from, b, deep := GP64(), GP64(), GP64()
	sums := make([][]reg.VecVirtual, s.rows)
	for i := range sums {
		for range vecs {
			sums[i] = append(sums[i], s.vector())
		}
	}
	y := make([]reg.VecVirtual, vecs)
	for j := range y {
		y[j] = s.vector()
	}
	step := func(p int) {
		for j := range y {
			VMOVUPS(Mem{Base: b, Disp: j * s.bytes()}, y[j])
		}
		for i := range sums {
			x := s.vector()
			s.broadcast(element(from, i, p), x)
			for j := range y {
				s.fma(y[j], x, sums[i][j])
			}
		}
		ADDQ(bstride, b)
		if !byRow {
			ADDQ(astride, from)
		}
	}
	Label("tile")
	MOVQ(a, from)
	MOVQ(Mem{Base: t, Disp: productB}, b)
	MOVQ(Mem{Base: t, Disp: productDeep}, deep)
	for i := range sums {
		for j := range sums[i] {
			if s.wide {
				VPXORD(sums[i][j], sums[i][j], sums[i][j])
			} else {
				VXORPS(sums[i][j], sums[i][j], sums[i][j])
			}
		}
	}
	SUBQ(Imm(2), deep)
	JLT(LabelRef("last"))
	Label("loop")
	step(0)
	step(1)
	if byRow {
		ADDQ(Imm(uint64(2*s.size)), from)
	}
	SUBQ(Imm(2), deep)
	JGE(LabelRef("loop"))
	Label("last")
	ADDQ(Imm(2), deep)
	JZ(LabelRef("done"))
	step(0)
	Label("done")
	CMPQ(Mem{Base: t, Disp: productAdd}, Imm(0))
	row := GP64()
	MOVQ(c, row)
	JE(LabelRef("set"))
	for i := range sums {
		for j, sum := range sums[i] {
			VADDPS(Mem{Base: row, Disp: j * s.bytes()}, sum, sum)
		}
		ADDQ(cstride, row)
	}
	Label("set")
	for i := range sums {
		for j, sum := range sums[i] {
			VMOVUPS(sum, Mem{Base: c, Disp: j * s.bytes()})
		}
		ADDQ(cstride, c)
	}
	if byRow {
		LEAQ(Mem{Base: a, Index: astride, Scale: uint8(s.rows)}, a)
	} else {
		ADDQ(Imm(uint64(s.rows*s.size)), a)
	}
	DECQ(tiles)
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

// Offsets of the fields of type laneScores in package attention.
const (
	scoresKeys   = 0
	scoresP      = 8
	scoresStride = 16 // of p and ds
	scoresDS     = 24
	scoresSums   = 32
	scoresRows   = 40
	scoresBase   = 48
	scoresFill   = 52
	scoresTop    = 56 // 16 float32, like the following fields
	scoresTotal  = scoresTop + 64
	scoresLSE    = scoresTotal + 64
	scoresDelta  = scoresLSE + 64
)

// lanesOf writes a function of one argument, a laneScores. body writes the instructions for a
// vector of the 16 queries; `at` is the vector's offset in bytes in a row of 16.
func (s set) lanesOf(name, doc string, body func(t reg.Register, at int)) {
	name = s.name + name
	onWork(name)
	Doc(name + " " + doc + ".")
	t := Load(Param("t"), GP64())
	for at := 0; at < 64; at += s.bytes() {
		body(t, at)
	}
	VZEROUPPER()
	RET()
}

// rows writes a loop over the rows of matrices, at least one. Fields of t point to the matrices,
// and field count has the number of rows. body writes the instructions for a row.
func rows(label string, t reg.Register, fields []int, stride reg.Register, count, at int, body func(m []Mem)) {
	n := field(t, count)
	var m []Mem
	for _, f := range fields {
		m = append(m, Mem{Base: field(t, f), Disp: at})
	}
	Label(label)
	body(m)
	for _, m := range m {
		ADDQ(stride, m.Base)
	}
	DECQ(n)
	JNZ(LabelRef(label))
}

// power returns a function with the bits of exp, keeping its constants in registers if there are
// enough.
func (s set) power() func(x reg.VecVirtual) reg.VecVirtual {
	if !s.wide {
		return s.exp
	}
	k := func(x float64) reg.VecVirtual { return s.load(s.number(x)) }
	low, high, log2e, ln2a, ln2b, one := k(-104), k(89), k(math.Log2E), k(0.693359375), k(-2.12194440e-4), k(1)
	c0 := k(1.9875691500e-4)
	var c []reg.VecVirtual
	for _, x := range []float64{1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1} {
		c = append(c, k(x))
	}
	return func(x reg.VecVirtual) reg.VecVirtual {
		y, n, q, yy := s.vector(), s.vector(), s.vector(), s.vector()
		VMAXPS(x, low, y) // NaN is x
		VMINPS(y, high, y)
		VMULPS(log2e, y, n)
		VRNDSCALEPS(Imm(8), n, n)
		VFNMADD231PS(ln2a, n, y)
		VFNMADD231PS(ln2b, n, y)
		VMOVAPS(c0, q)
		for _, c := range c {
			VFMADD213PS(c, y, q)
		}
		VMULPS(y, y, yy)
		VFMADD213PS(y, yy, q)
		VADDPS(one, q, q)
		VSCALEFPS(n, q, q)
		return q
	}
}

// softmaxBlock writes the function adding the scores of 16 queries and a block of keys to a softmax
// over all keys: see lanes.softmax in package attention.
func (s set) softmaxBlock() {
	s.lanesOf("SoftmaxBlock", "takes a block of keys into the softmax of 16 queries", func(t reg.Register, at int) {
		label := func(name string) string { return fmt.Sprintf("%s%d", name, at) }
		stride, exp := field(t, scoresStride), s.power()
		before := s.load(Mem{Base: t, Disp: scoresTop + at})
		top := s.vector()
		VMOVAPS(before, top)
		rows(label("max"), t, []int{scoresP}, stride, scoresKeys, at, func(m []Mem) {
			VMAXPS(top, s.load(m[0]), top) // skips NaN
		})
		VMOVUPS(top, Mem{Base: t, Disp: scoresTop + at})
		// If all scores are -Inf the shift is 0: -Inf - (-Inf) would be NaN.
		shift := s.vector()
		least := s.load(s.number(math.Inf(-1)))
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
		total := s.load(Mem{Base: t, Disp: scoresTotal + at})
		VMULPS(keep, total, total)
		// Without a larger score the sums need no rescaling.
		changed, all := GP32(), uint32(0xff)
		if s.wide {
			k := K()
			all = 0xffff
			VCMPPS(Imm(0), s.number(1), keep, k)
			KMOVW(k, changed)
		} else {
			same := s.vector()
			VCMPPS(Imm(0), s.number(1), keep, same)
			VMOVMSKPS(same, changed)
		}
		CMPL(changed, U32(all))
		JEQ(LabelRef(label("powers")))
		rows(label("rescale"), t, []int{scoresSums}, stride, scoresRows, at, func(m []Mem) {
			VMOVUPS(s.mul(m[0], keep), m[0])
		})
		Label(label("powers"))
		sum := s.zero()
		rows(label("exp"), t, []int{scoresP}, stride, scoresKeys, at, func(m []Mem) {
			x := s.load(m[0])
			VSUBPS(shift, x, x)
			y := exp(x)
			VMOVUPS(y, m[0])
			VADDPS(y, sum, sum)
		})
		VADDPS(sum, total, total)
		VMOVUPS(total, Mem{Base: t, Disp: scoresTotal + at})
	})
}

// scoresGrad writes the function replacing scores by p, and dp by ds, for 16 queries: see
// lanes.grad in package attention.
func (s set) scoresGrad() {
	s.lanesOf("ScoresGrad", "is p = exp(s - lse), ds = p·(dp - delta) for 16 queries", func(t reg.Register, at int) {
		stride, exp := field(t, scoresStride), s.power()
		lse, delta := s.load(Mem{Base: t, Disp: scoresLSE + at}), s.load(Mem{Base: t, Disp: scoresDelta + at})
		rows(fmt.Sprintf("row%d", at), t, []int{scoresP, scoresDS}, stride, scoresKeys, at, func(m []Mem) {
			x := s.load(m[0])
			VSUBPS(lse, x, x)
			p, d := exp(x), s.load(m[1])
			VMOVUPS(p, m[0])
			VSUBPS(delta, d, d)
			VMOVUPS(s.mul(d, p), m[1])
		})
	})
}

// scoresMask writes the function setting p to fill for keys after the query: where the row is
// greater than base plus the query's lane.
func (s set) scoresMask() {
	s.lanesOf("ScoresMask", "sets p to fill where the row is greater than base plus the lane", func(t reg.Register, at int) {
		stride := field(t, scoresStride)
		left, fill, one := s.vector(), s.vector(), s.vector()
		VPBROADCASTD(Mem{Base: t, Disp: scoresBase}, left) // below 0 from the first key after the query on
		VPADDD(s.iota(at), left, left)
		VBROADCASTSS(Mem{Base: t, Disp: scoresFill}, fill)
		VMOVUPS(s.table.bits(1), one)
		rows(fmt.Sprintf("row%d", at), t, []int{scoresP}, stride, scoresKeys, at, func(m []Mem) {
			x := s.load(m[0])
			VMOVUPS(s.signed(left, fill, x), m[0])
			VPSUBD(one, left, left)
		})
	})
}

// iota returns the lane numbers, starting with the lane at `at` bytes.
func (s set) iota(at int) Mem {
	return NewDataAddr(Symbol{Name: "laneNumbers", Static: true}, at)
}

// divideSums writes the function dividing the sums of 16 queries, row by row, by the queries'
// totals.
func (s set) divideSums() {
	s.lanesOf("DivideSums", "divides rows of the sums of 16 queries by their totals", func(t reg.Register, at int) {
		stride, total := field(t, scoresStride), s.load(Mem{Base: t, Disp: scoresTotal + at})
		rows(fmt.Sprintf("row%d", at), t, []int{scoresSums}, stride, scoresRows, at, func(m []Mem) {
			x := s.load(m[0])
			VDIVPS(total, x, x)
			VMOVUPS(x, m[0])
		})
	})
}

// Offsets of the fields of type laneRows in package attention.
const (
	rowsCount   = 0
	rowsBytes   = 8
	rowsDst     = 16
	rowsDStride = 24
	rowsSrc     = 32
	rowsSStride = 40
	rowsScale   = 48
	rowsOdd     = 52 // not 0 if an element was Inf or NaN
)

// eachRow writes a function of one argument, a laneRows. body writes the instructions for each
// vector of the rows, before and after the instructions run once.
func (s set) eachRow(name, doc string, before func(t reg.Register), body func(dst, src Mem), after func(t reg.Register)) {
	name = s.name + name
	onWork(name)
	Doc(name + " " + doc + ".")
	t := Load(Param("t"), GP64())
	n, bytes := field(t, rowsCount), field(t, rowsBytes)
	dst, dstride, src, sstride := field(t, rowsDst), field(t, rowsDStride), field(t, rowsSrc), field(t, rowsSStride)
	before(t)
	at := GP64()
	Label("row")
	XORQ(at, at)
	Label("vector")
	for part := 0; part < 64; part += s.bytes() {
		body(Mem{Base: dst, Index: at, Scale: 1, Disp: part}, Mem{Base: src, Index: at, Scale: 1, Disp: part})
	}
	ADDQ(Imm(64), at)
	CMPQ(at, bytes)
	JLT(LabelRef("vector"))
	ADDQ(dstride, dst)
	ADDQ(sstride, src)
	DECQ(n)
	JNZ(LabelRef("row"))
	after(t)
	VZEROUPPER()
	RET()
}

// rowLoops writes functions scaling and adding rows of whole vectors.
func (s set) rowLoops() {
	nothing := func(reg.Register) {}
	var scale, odd reg.VecVirtual
	s.eachRow("ScaleRows", "is dst = scale·src; it sets odd if one of src is Inf or NaN", func(t reg.Register) {
		scale, odd = s.vector(), s.zero()
		VBROADCASTSS(Mem{Base: t, Disp: rowsScale}, scale)
	}, func(dst, src Mem) {
		x := s.load(src)
		y := s.mul(s.number(0), x) // NaN if x is Inf or NaN
		VADDPS(y, odd, odd)
		VMOVUPS(s.mul(scale, x), dst)
	}, func(t reg.Register) {
		r := GP32()
		if s.wide {
			k := K()
			VCMPPS(Imm(3), odd, odd, k)
			KMOVW(k, r)
		} else {
			VCMPPS(Imm(3), odd, odd, odd)
			VMOVMSKPS(odd, r)
		}
		MOVL(r, Mem{Base: t, Disp: rowsOdd})
	})
	s.eachRow("AddRows", "is dst += src", nothing, func(dst, src Mem) {
		x := s.load(dst)
		VADDPS(src, x, x)
		VMOVUPS(x, dst)
	}, nothing)
}

func (s set) attention() {
	for vecs := 1; vecs <= 3; vecs++ {
		s.product(true, vecs)
		s.product(false, vecs)
	}
	s.softmaxBlock()
	s.scoresGrad()
	s.scoresMask()
	s.divideSums()
	s.rowLoops()
	s.few()
}

// laneNumbers defines the table of lanes.
func laneNumbers() {
	GLOBL("laneNumbers", RODATA|NOPTR)
	for i := range 16 {
		DATA(4*i, U32(uint32(i)))
	}
}
