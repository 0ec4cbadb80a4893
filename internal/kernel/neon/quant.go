package main

import "fmt"

// Offsets of the fields of types quantArgs and roundArgs in the kernel package,
// which checks them, and of a rounded row, see quantize.go there.
const (
	quantN     = 0
	quantW     = 8
	quantX     = 40
	quantOut   = 72
	quantBook  = 104
	quantFetch = 112

	roundN      = 0
	roundX      = 8
	roundRow    = 16
	roundFactor = 24
	roundOffset = 28

	superRow, superSums, superScale           = 320, 256, 288
	groupRow, groupScale, groupSums, groupLen = 192, 128, 144, 4
)

// Registers of a function of products: R0 points to the arguments, the weights' rows
// are at R2 to R5, those of x at R6 to R9, and R10 is constantsAt.
const (
	quantLeft               = 1
	quantRowsW, quantRowsX  = 2, 6
	quantBookAt, quantSigns = 11, 12
	quantFar                = 13
	// Of loops within one over units: in rows over lanes, whose weights are at R2, the
	// bytes done of each row of weights, where the next row's address is, where the lane's
	// integers and its f16 go, and how many lanes are left.
	// Of columns, the upper bits of weights of which they are apart.
	quantDone, quantNext, quantInts, quantHalves, quantLanes, quantHigh = 3, 4, 5, 21, 22, 3
	// Scratch; nothing in them lasts longer than a few lines.
	g0, g1, g2, g3 = 14, 15, 19, 20
)

// quant is products of weights in blocks with rows of int8: of four rows of weights
// with one row, and of one row of weights with four. The four products are lanes. All
// of it is once with the products of FEAT_DotProd, which sum 4 int8, and once with
// those to int16 that every processor has; the integers are the same.
func (f *file) quant() {
	signs := make([]uint64, 128)
	for i := range signs {
		for j := range 8 {
			signs[i] |= uint64(signByte(i, j)) << (8 * j)
		}
	}
	at := f.words(signs)
	for _, dot := range []bool{true, false} {
		for _, columns := range []bool{false, true} {
			p := &products{file: f, dot: dot, columns: columns, signs: at}
			p.super("Q4K", 144, p.q4k)
			p.super("Q6K", 210, p.q6k)
			p.super("Q2K", 84, p.q2k)
			p.super("IQ2", 66, p.iq2)
			p.group("Q8", 34, p.q8)
			p.group("MX", 17, p.mx)
		}
	}
	f.round("Q4K", [8]int{0, 2, 1, 3, 4, 6, 5, 7}, true)
	f.round("Q2K", [8]int{0, 4, 1, 5, 2, 6, 3, 7}, false)
	f.round("Q6K", [8]int{0, 1, 2, 3, 4, 5, 6, 7}, false)
	f.roundGroup()
}

// signByte is 1, or -1 where bit j of the 7 bits i is set; an eighth bit makes their
// number even.
func signByte(i, j int) uint8 {
	odd := 0
	for b := range 7 {
		odd ^= i >> b & 1
	}
	if (i|odd<<7)>>j&1 != 0 {
		return 0xff
	}
	return 1
}

// products is a function of products.
type products struct {
	*file
	dot, columns bool
	signs        int // where their table is
	*block
	acc    value
	pinned int
}

// same pins a vector of equal bytes.
func (p *products) same(b uint8) value { return p.pin(p.pair(uint64(b) * 0x0101010101010101)) }

// pin loads a constant before the loop.
func (p *products) pin(at int) value {
	p.pinned++
	p.file.line("FMOVQ %d(%s), F%d", at, constantsAt, 32-p.pinned)
	return pinned(32 - p.pinned)
}

// keep returns a register that parts of a function share.
func (p *products) keep() value {
	p.pinned++
	return pinned(32 - p.pinned)
}

// move copies n to what keep has returned.
func (b *block) move(d, n value) {
	b.do(func(r func(value) int) string { return encodeLogic("orr", r(d), r(n), r(n)).String() }, n, d)
}

// w and x return the register that points to lane l's weights, and to its row.
func (p *products) w(l int) int {
	if p.columns {
		l = 0
	}
	return quantRowsW + l
}

func (p *products) x(l int) int {
	if !p.columns {
		l = 0
	}
	return quantRowsX + l
}

func at(register, disp int) mem { return mem{fmt.Sprintf("R%d", register), disp} }

// begin begins a function of products. before pins what it needs.
func (p *products) begin(kind string, before func()) {
	name, way, doc, nw, nx := "neon", "Rows", "of four rows of weights with one", 4, 1
	if p.dot {
		name = "neonDot"
	}
	if p.columns {
		way, doc, nw, nx = "Columns", "of one row of weights with four", 1, 4
	}
	f := p.file
	f.function(name+kind+way, "adds the products "+doc, "t *byte")
	f.line("MOVD %d(R0), R%d", quantN, quantLeft)
	for l := range nw {
		f.line("MOVD %d(R0), R%d", quantW+8*l, quantRowsW+l)
	}
	for l := range nx {
		f.line("MOVD %d(R0), R%d", quantX+8*l, quantRowsX+l)
	}
	f.line("MOVD %d(R0), R%d", quantBook, quantBookAt)
	f.line("MOVD %d(R0), R%d", quantFetch, quantFar)
	f.line("MOVD $%s(SB), %s", f.table(), constantsAt)
	f.line("ADD $%d, %s, R%d", p.signs, constantsAt, quantSigns)
	f.line("ADD $%d, R0, R%d", quantOut, g0)
	p.pinned = 1
	p.acc = pinned(31)
	f.line("FMOVQ (R%d), F31", g0)
	before()
}

// unit begins the loop over units, whose weights are fetched.
func (p *products) unit(bytes int) {
	p.file.loop("loop")
	for at := 0; at < bytes; at += 64 {
		p.file.line("PRFM %d(R%d), PLDL1KEEP", at, quantFar)
	}
	p.file.line("ADD $%d, R%d", bytes, quantFar)
}

// part writes instructions without branches. What pins are is known before.
func (p *products) part(body func()) {
	p.file.single(32-p.pinned, func(b *block) {
		p.block = b
		body()
	})
}

// end ends the loop over units and the function.
func (p *products) end() {
	f := p.file
	f.line("SUBS $1, R%d, R%d", quantLeft, quantLeft)
	f.line("BNE loop")
	f.line("ADD $%d, R0, R%d", quantOut, g0)
	f.line("FMOVQ F31, (R%d)", g0)
	f.line("RET")
}

// function writes a function that does body for every unit: `size` bytes of weights
// and `row` of x. before pins what it needs.
func (p *products) function(kind string, size, row int, before func(), body func()) {
	nw, nx := 4, 1
	if p.columns {
		nw, nx = 1, 4
	}
	p.begin(kind, before)
	p.unit(nw * size)
	p.part(body)
	for l := range nw {
		p.file.line("ADD $%d, R%d", size, quantRowsW+l)
	}
	for l := range nx {
		p.file.line("ADD $%d, R%d", row, quantRowsX+l)
	}
	p.end()
}

// general appends an instruction on general registers.
func (b *block) general(format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	b.do(func(func(value) int) string { return text })
}

// fromGeneral is a vector whose lower half, or other part that move moves, is a
// general register's.
func (b *block) fromGeneral(move string, g int) value {
	d := b.fresh()
	b.do(func(r func(value) int) string { return fmt.Sprintf("%s R%d, F%d", move, g, r(d)) }, d)
	return d
}

// everywhere is four times a general register's 32 bits.
func (b *block) everywhere(g int) value {
	d := b.fresh()
	b.do(func(r func(value) int) string { return fmt.Sprintf("VDUP R%d, V%d.S4", g, r(d)) }, d)
	return d
}

// mixed is d = op(n, m), and mixedInto d = op(d, n, m); m may be n where op has no
// third register.
func (b *block) mixed(op, d string, n ...value) value {
	x := b.fresh()
	b.mixedInto(op, d, x, n...)
	return x
}

func (b *block) mixedInto(op, arrangement string, d value, n ...value) {
	m := n[len(n)-1]
	b.do(func(r func(value) int) string { return encodeMixed(op, arrangement, r(d), r(n[0]), r(m)).String() }, append(n, d)...)
}

// arrange is a permutation that Go's assembler has.
func (b *block) arrange(op, arrangement string, n, m value) value {
	d := b.fresh()
	b.do(func(r func(value) int) string {
		return fmt.Sprintf("%s V%d.%s, V%d.%s, V%d.%s", op, r(m), arrangement, r(n), arrangement, r(d), arrangement)
	}, n, m, d)
	return d
}

func (b *block) shiftBytes(op string, n value, by int) value {
	d := b.fresh()
	b.do(func(r func(value) int) string { return encodeShiftBytes(op, r(d), r(n), by).String() }, n, d)
	return d
}

func (b *block) zero() value {
	d := b.fresh()
	b.do(func(r func(value) int) string { return encodeZero(r(d)).String() }, d)
	return d
}

// scaleInto is sum += n·scale[i] of integers.
func (b *block) scaleInto(sum, n, scale value, i int) {
	b.do(func(r func(value) int) string { return encodeScale(r(sum), r(n), r(scale), i).String() }, n, scale, sum)
}

// dotOf returns four sums, together that of the products of w and x. Two products of
// int8 of which one is not -128 fit into int16.
func (p *products) dotOf(w, x []value) value {
	if p.dot {
		sum := p.zero()
		for i := range w {
			p.mixedInto("sdot", "4s", sum, w[i], x[i])
		}
		return sum
	}
	var sum value
	for i := range w {
		two := p.mixed("smull", "8h", w[i], x[i])
		p.mixedInto("smlal2", "8h", two, w[i], x[i])
		if i == 0 {
			sum = p.mixed("saddlp", "4s", two)
		} else {
			p.mixedInto("sadalp", "4s", sum, two)
		}
	}
	return sum
}

// lanes returns the sums of four vectors of int32 as float32.
func (p *products) lanes(v [4]value) value {
	ab, cd := p.mixed("addp", "4s", v[0], v[1]), p.mixed("addp", "4s", v[2], v[3])
	return p.mixed("scvtf", "4s", p.mixed("addp", "4s", ab, cd))
}

// gather loads what lies at disp to each of four registers, of 8, 16 or 32 bits, to a
// vector's lower bits, or one lane's to all where the four are one.
func (p *products) gather(bits, disp int, register func(l int) int) value {
	load := map[int]string{8: "MOVBU", 16: "MOVHU", 32: "MOVWU"}[bits]
	p.general("%s %d(R%d), R%d", load, disp, register(0), g0)
	for l := 1; l < 4; l++ {
		to := g1
		if bits*l == 64 {
			to = g2
		}
		p.general("%s %d(R%d), R%d", load, disp, register(l), to)
		switch {
		case bits*l < 64:
			p.general("ORR R%d<<%d, R%d, R%d", g1, bits*l, g0, g0)
		case bits*l > 64:
			p.general("ORR R%d<<%d, R%d, R%d", g1, bits*l-64, g2, g2)
		}
	}
	d := p.fromGeneral("FMOVD", g0)
	if 4*bits > 64 {
		p.do(func(r func(value) int) string { return fmt.Sprintf("VMOV R%d, V%d.D[1]", g2, r(d)) }, d)
	}
	return d
}

// halves returns the f16 at disp of every lane's weights as float32.
func (p *products) halves(disp int) value {
	if p.columns {
		p.general("MOVHU %d(R%d), R%d", disp, p.w(0), g0)
		return p.mixed("fcvtl", "4s", p.dupHalf())
	}
	return p.mixed("fcvtl", "4s", p.gather(16, disp, p.w))
}

func (p *products) dupHalf() value {
	d := p.fresh()
	p.do(func(r func(value) int) string { return fmt.Sprintf("VDUP R%d, V%d.H8", g0, r(d)) }, d)
	return d
}

// halfPairs returns two adjacent f16 at disp of the weights.
func (p *products) halfPairs(disp int) (first, second value) {
	p.general("MOVWU %d(R%d), R%d", disp, p.w(0), g0)
	return p.pairOf(p.everywhere(g0))
}

// pairOf returns the even and the odd f16 of v as float32.
func (p *products) pairOf(v value) (first, second value) {
	first, second = p.arrange("VUZP1", "H8", v, v), p.arrange("VUZP2", "H8", v, v)
	return p.mixed("fcvtl", "4s", first), p.mixed("fcvtl", "4s", second)
}

// floats returns the float32 at disp of every lane's row.
func (p *products) floats(disp int) value {
	if p.columns {
		return p.gather(32, disp, p.x)
	}
	p.general("MOVWU %d(R%d), R%d", disp, p.x(0), g0)
	return p.everywhere(g0)
}

// group is the loop over 4 blocks of 32.
func (p *products) group(kind string, size int, of func() groupOf) {
	var g groupOf
	p.function(kind, groupLen*size, groupRow, func() { g = of() }, func() {
		for b := range groupLen {
			var w, x []value
			var sum [4]value
			for l := range 4 {
				if l == 0 || !p.columns {
					w = g.weights(p.w(l), b*size)
				}
				if l == 0 || p.columns {
					x = []value{p.load(at(p.x(l), 32*b)), p.load(at(p.x(l), 32*b+16))}
				}
				sum[l] = p.dotOf(w, x)
			}
			d := p.mul(g.scales(b*size), p.floats(groupScale+4*b))
			p.into("fadd", s4, p.acc, p.acc, p.mul(d, p.lanes(sum)))
		}
	})
}

// groupOf is a type of weights in blocks of 32, one of which is at disp.
type groupOf struct {
	weights func(w, disp int) []value
	scales  func(disp int) value // of every lane
}

func (p *products) q8() groupOf {
	return groupOf{
		func(w, disp int) []value { return []value{p.load(at(w, disp+2)), p.load(at(w, disp+18))} },
		p.halves,
	}
}

func (p *products) mx() groupOf {
	mask, values := p.same(15), p.pin(p.constant([2]uint64{0x0c08060403020100, 0xf4f8fafcfdfeff00}))
	one, two, small := p.pin(p.file.bits(1)), p.pin(p.file.bits(2)), p.pin(p.file.bits(0x00200000))
	return groupOf{
		func(w, disp int) []value {
			v := p.load(at(w, disp+1))
			low, high := p.logic("and", v, mask), p.shiftBytes("ushr", v, 4)
			look := func(i value) value {
				d := p.fresh()
				p.do(func(r func(value) int) string {
					return fmt.Sprintf("VTBL V%d.B16, [V%d.B16], V%d.B16", r(i), r(values), r(d))
				}, i, d)
				return d
			}
			return []value{look(low), look(high)}
		},
		// 2^(e-128), as in quant.MXScale.
		func(disp int) value {
			var e value
			if p.columns {
				p.general("MOVBU %d(R%d), R%d", disp, p.w(0), g0)
				e = p.everywhere(g0)
			} else {
				e = p.mixed("uxtl", "4s", p.mixed("uxtl", "8h", p.gather(8, disp, p.w)))
			}
			normal := p.shift("shl", p.three("sub", s4, e, one), 23)
			below := p.mixed("ushl", "4s", small, e)
			d := p.mixed("cmgt", "4s", two, e)
			p.do(func(r func(value) int) string { return encodeLogic("bsl", r(d), r(below), r(normal)).String() }, below, normal, d)
			return d
		},
	}
}
