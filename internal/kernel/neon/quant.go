package main

import "fmt"

// Offsets of the fields of types quantArgs and roundArgs in package blocks, which checks
// them, and of the parts of a rounded row, see quantize.go there.
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
	roundPlaces = 32
	roundPairs  = 64

	superRow, superSums, superScale           = 320, 256, 288
	groupRow, groupScale, groupSums, groupLen = 192, 128, 144, 4
)

// General registers of a function of products. R0 points to the arguments, and R10 is
// constantsAt.
const (
	quantLeft               = 1
	quantBookAt, quantSigns = 11, 12
	quantFar                = 13
	// Scratch registers: they are used for a few lines only.
	g0, g1, g2, g3 = 14, 15, 19, 20
	// For a block of 256: pointers to its weights and to weights further on in it, and
	// the remaining iterations.
	quantBlock, quantFurther, quantTurns = 21, 22, 23
	// For four rows of weights, which leave R7 to R9 free: the location of the pointer to
	// the next row, the offset of the block in that row, and the remaining rows.
	quantNext, quantOffset, quantRowsLeft = 7, 8, 9
)

// quant writes the products of weights in blocks and rows of int8: four rows of weights
// with one row, and one row of weights with four rows. The four products are the lanes of
// a vector. Every function is written twice: with the instructions of FEAT_DotProd, which
// sum 4 products of int8, and with products to int16, which every processor has. The
// integers are the same.
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
			p := &products{file: f, dot: dot, columns: columns, signs: at, ws: []int{2, 3, 4, 5}, xs: []int{6}}
			if columns {
				p.ws, p.xs = []int{2}, []int{6, 7, 8, 9}
			}
			p.super("Q4K", 144, p.q4k)
			p.super("Q6K", 210, p.q6k)
			p.super("Q2K", 84, p.q2k)
			p.super("IQ2", 66, p.iq2)
			p.group("Q8", 34, p.q8)
			p.group("MX", 17, p.mx)
			if !columns {
				p.unpacked()
			}
		}
	}
	f.roundSuper()
	f.roundGroup()
}

// signByte returns -1 if bit j of i is set, and 1 otherwise. i has 7 bits; the eighth is
// set if the number of set bits would otherwise be odd.
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

// products writes a function adding products.
type products struct {
	*file
	dot, columns bool
	signs        int   // the offset of the table of signs
	ws, xs       []int // the registers pointing to rows of weights and of x
	*block
	acc    value
	pinned int
	// turns is the number of iterations of the loop over a block of 256. The loop
	// advances the pointers to rows of x by `moved` bytes.
	turns, moved int
}

// same pins a vector of 16 equal bytes.
func (p *products) same(b uint8) value { return p.pin(p.pair(uint64(b) * 0x0101010101010101)) }

// pin loads the constant at an offset of the table to a register, before the loop.
func (p *products) pin(at int) value {
	p.pinned++
	p.file.line("FMOVQ %d(%s), F%d", at, constantsAt, 32-p.pinned)
	return pinned(32 - p.pinned)
}

func at(register, disp int) mem { return mem{fmt.Sprintf("R%d", register), disp} }

// step returns the suffix and the address of a load, disp bytes past a register. Every
// iteration of the loop advances the register by `by` bytes; the first load of an
// iteration, at 0, does so.
func (p *products) step(register, disp, by int) (string, mem) {
	switch {
	case p.turns == 1:
		return "", at(register, disp)
	case disp == 0:
		return ".P", at(register, by)
	}
	return "", at(register, disp-by)
}

func (p *products) walk(register, disp, by int) [2]value {
	return p.loadPair(p.step(register, disp, by))
}

// function writes a function with a loop over units of `size` bytes of weights. unit pins
// the constants needed, and returns a function writing the work on a unit.
func (p *products) function(kind string, size int, unit func() func()) {
	name, way, doc := "neon", "Rows", "of four rows of weights with one"
	if p.dot {
		name = "neonDot"
	}
	if p.columns {
		way, doc = "Columns", "of one row of weights with four"
	}
	f := p.file
	f.function(name+kind+way, "adds the products "+doc, "t *byte")
	f.line("MOVD %d(R0), R%d", quantN, quantLeft)
	for l, r := range p.ws {
		f.line("MOVD %d(R0), R%d", quantW+8*l, r)
	}
	for l, r := range p.xs {
		f.line("MOVD %d(R0), R%d", quantX+8*l, r)
	}
	f.line("MOVD %d(R0), R%d", quantBook, quantBookAt)
	f.line("MOVD %d(R0), R%d", quantFetch, quantFar)
	f.line("MOVD $%s(SB), %s", f.table(), constantsAt)
	f.line("ADD $%d, %s, R%d", p.signs, constantsAt, quantSigns)
	f.line("ADD $%d, R0, R%d", quantOut, g0)
	p.pinned = 1
	p.acc = pinned(31)
	f.line("FMOVQ (R%d), F31", g0)
	body := unit()
	f.loop("loop")
	if kind != "Group" { // with weights in the first-level cache
		for at := 0; at < len(p.ws)*size; at += 64 {
			f.line("PRFM %d(R%d), PLDL1KEEP", at, quantFar)
		}
		f.line("ADD $%d, R%d", len(p.ws)*size, quantFar)
	}
	// All constants are pinned before the loop; there are at most 8.
	f.single(32-p.pinned, func(b *block) {
		p.block = b
		body()
	})
	f.line("SUBS $1, R%d, R%d", quantLeft, quantLeft)
	f.line("BNE loop")
	f.line("ADD $%d, R0, R%d", quantOut, g0)
	f.line("FMOVQ F31, (R%d)", g0)
	f.line("RET")
}

// advance moves registers on by `by` bytes.
func (p *products) advance(registers []int, by int) {
	for _, r := range registers {
		p.general("ADD $%d, R%d", by, r)
	}
}

// fromGeneral returns a vector with general register g as its lower part. The instruction
// move determines the size of that part.
func (b *block) fromGeneral(move string, g int) value {
	d := b.fresh()
	b.do(func(r func(value) int) string { return fmt.Sprintf("%s R%d, F%d", move, g, r(d)) }, d)
	return d
}

// everywhere returns a vector with the lower 32 bits of general register g in all lanes.
func (b *block) everywhere(g int) value {
	d := b.fresh()
	b.do(func(r func(value) int) string { return fmt.Sprintf("VDUP R%d, V%d.S4", g, r(d)) }, d)
	return d
}

// mixed returns op(n, m), and mixedInto writes d = op(d, n, m). m is omitted if op has no
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

// arrange returns a permutation of n and m, by an instruction of Go's assembler.
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

func (b *block) across(op string, n value) value {
	d := b.fresh()
	b.do(func(r func(value) int) string { return encodeAcross(op, r(d), r(n)).String() }, n, d)
	return d
}

func (b *block) zero() value {
	d := b.fresh()
	b.do(func(r func(value) int) string { return encodeZero(r(d)).String() }, d)
	return d
}

// scaleInto writes sum += n·scale[i] for integers.
func (b *block) scaleInto(sum, n, scale value, i int) {
	b.do(func(r func(value) int) string { return encodeScale(r(sum), r(n), r(scale), i).String() }, n, scale, sum)
}

// dotOf returns four sums that together are the sum of the products of w and x. The sum
// of two products of int8 fits into int16, because one factor of each is never -128.
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

// lanes returns a vector of the sums of four vectors of int32.
func (p *products) lanes(v [4]value) value {
	ab, cd := p.mixed("addp", "4s", v[0], v[1]), p.mixed("addp", "4s", v[2], v[3])
	return p.mixed("addp", "4s", ab, cd)
}

// push moves the lanes of `lanes` down by one, setting the last to the sum of v's lanes.
func (p *products) push(lanes, v value) {
	sum := p.across("addv", v)
	p.do(func(r func(value) int) string {
		return fmt.Sprintf("VEXT $4, V%d.B16, V%d.B16, V%d.B16", r(sum), r(lanes), r(lanes))
	}, sum, lanes)
}

// gather loads a number of 8, 16 or 32 bits from each register's address to the lanes of
// a vector, and advances the registers. With one register, all lanes get its number.
func (p *products) gather(bits int, registers []int) value {
	lane := map[int]string{8: "B", 16: "H", 32: "S"}[bits]
	all := map[int]string{8: "B16", 16: "H8", 32: "S4"}[bits]
	d := p.fresh()
	for l, from := range registers {
		p.do(func(r func(value) int) string {
			if l == 0 {
				return fmt.Sprintf("VLD1R.P %d(R%d), [V%d.%s]", bits/8, from, r(d), all)
			}
			return fmt.Sprintf("VLD1.P %d(R%d), V%d.%s[%d]", bits/8, from, r(d), lane, l)
		}, d)
	}
	return d
}

// gatherAt is gather at an offset of disp bytes. It does not advance the registers.
func (p *products) gatherAt(bits, disp int, registers []int) value {
	scratch := []int{g0, g1, g2, g3}[:len(registers)]
	for l, from := range registers {
		p.general("ADD $%d, R%d, R%d", disp, from, scratch[l])
	}
	return p.gather(bits, scratch)
}

// halves returns a vector of f16 as float32.
func (p *products) halves(v value) value { return p.mixed("fcvtl", "4s", v) }

// group writes a function with a loop over groups of 4 blocks of 32. All parts of a group
// except the scales of x are stored in the order of reading.
func (p *products) group(kind string, size int, of func() groupOf) {
	p.function(kind, groupLen*size, func() func() {
		g := of()
		return func() {
			scales := []int{quantBlock, quantFurther, 24, 25}[:len(p.xs)]
			for l, x := range p.xs {
				p.general("ADD $%d, R%d, R%d", groupScale, x, scales[l])
			}
			p.repeat("block", quantTurns, groupLen, func() {
				var w, x [2]value
				var sum [4]value
				d := p.mul(g.scales(), p.gather(32, scales))
				for l := range sum {
					if l < len(p.ws) {
						w = g.weights(p.ws[l])
					}
					if l < len(p.xs) {
						x = p.take(p.xs[l])
					}
					sum[l] = p.dotOf(w[:], x[:])
				}
				p.into("fadd", s4, p.acc, p.acc, p.mul(d, p.mixed("scvtf", "4s", p.lanes(sum))))
			})
			p.advance(p.xs, groupRow-groupLen*32)
		}
	})
}

// unpacked writes a function with a loop over quant.Group, which has the layout of a rounded
// row, with offsets instead of sums.
func (p *products) unpacked() {
	p.function("Group", groupRow, func() func() {
		return func() {
			// The pointers to the numbers of rows of weights and of x.
			rows, x := []int{quantNext, quantOffset, quantRowsLeft, quantBookAt}, []int{quantBlock}
			for l, w := range p.ws {
				p.general("ADD $%d, R%d, R%d", groupScale, w, rows[l])
			}
			p.general("ADD $%d, R%d, R%d", groupScale, p.xs[0], x[0])
			p.repeat("block", quantTurns, groupLen, func() {
				const behind = groupSums - groupScale - 4 // pointers have advanced by 4
				scale, dx := p.gather(32, rows), p.gather(32, x)
				offset, t := p.gatherAt(32, behind, rows), p.gatherAt(32, behind, x)
				q := p.take(p.xs[0])
				var sum [4]value
				for l := range sum {
					w := p.take(p.ws[l])
					sum[l] = p.dotOf(w[:], q[:])
				}
				term := p.mul(p.mul(scale, dx), p.mixed("scvtf", "4s", p.lanes(sum)))
				rest := p.mul(p.mul(offset, dx), p.mixed("scvtf", "4s", p.shift("sshr", t, 7)))
				p.into("fadd", s4, term, term, rest)
				p.into("fadd", s4, p.acc, p.acc, term)
			})
			p.advance(p.ws, groupRow-groupLen*32)
			p.advance(p.xs, groupRow-groupLen*32)
		}
	})
}

// groupOf describes a type of weights in blocks of 32. scales loads the scales of all
// lanes, which precede the weights; weights loads a row's weights.
type groupOf struct {
	scales  func() value
	weights func(w int) [2]value
}

func (p *products) q8() groupOf {
	return groupOf{
		func() value { return p.halves(p.gather(16, p.ws)) },
		func(w int) [2]value { return p.take(w) },
	}
}

func (p *products) mx() groupOf {
	mask, values := p.same(15), p.pin(p.constant([2]uint64{0x0c08060403020100, 0xf4f8fafcfdfeff00}))
	one, two, small := p.pin(p.file.bits(1)), p.pin(p.file.bits(2)), p.pin(p.file.bits(0x00200000))
	return groupOf{
		// 2^(e-128), as in quant.MXScale.
		func() value {
			e := p.mixed("uxtl", "4s", p.mixed("uxtl", "8h", p.gather(8, p.ws)))
			normal := p.shift("shl", p.three("sub", s4, e, one), 23)
			below := p.mixed("ushl", "4s", small, e)
			d := p.mixed("cmgt", "4s", two, e)
			p.do(func(r func(value) int) string { return encodeLogic("bsl", r(d), r(below), r(normal)).String() }, below, normal, d)
			return d
		},
		func(w int) [2]value {
			v := p.loadAs("FMOVQ.P", at(w, 16))
			low, high := p.logic("and", v, mask), p.shiftBytes("ushr", v, 4)
			look := func(i value) value {
				d := p.fresh()
				p.do(func(r func(value) int) string {
					return fmt.Sprintf("VTBL V%d.B16, [V%d.B16], V%d.B16", r(i), r(values), r(d))
				}, i, d)
				return d
			}
			return [2]value{look(low), look(high)}
		},
	}
}
