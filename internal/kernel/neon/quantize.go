package main

import "fmt"

// rounding is a function that rounds rows for products with weights in blocks: R0
// points to the arguments, x and the row are at R2 and R3, and R4 is the bits of
// infinity.
type rounding struct {
	*block
	size, top, one value // pinned: all bits but the sign, 127, and 1 as float32
}

const roundXAt, roundRowAt, roundInf = 2, 3, 4

// rounds writes a function that rounds units of as many elements to `row` bytes: body
// writes what is done for one.
func (f *file) rounds(kind, doc string, elements, row int, body func()) {
	const n = 1
	f.function("neonRound"+kind, "rounds "+doc, "t *byte")
	f.line("MOVD %d(R0), R%d", roundN, n)
	f.line("MOVD %d(R0), R%d", roundX, roundXAt)
	f.line("MOVD %d(R0), R%d", roundRow, roundRowAt)
	f.line("MOVD $0x7f800000, R%d", roundInf)
	f.line("MOVD $%s(SB), %s", f.table(), constantsAt)
	f.line("FMOVQ %d(%s), F31", f.bits(1<<31-1), constantsAt)
	f.line("FMOVQ %d(%s), F30", f.number(127), constantsAt)
	f.line("FMOVQ %d(%s), F29", f.number(1), constantsAt)
	f.loop("loop")
	body()
	f.line("ADD $%d, R%d", 4*elements, roundXAt)
	f.line("ADD $%d, R%d", row, roundRowAt)
	f.line("SUBS $1, R%d, R%d", n, n)
	f.line("BNE loop")
	f.line("RET")
}

// rounded writes instructions of a rounding without branches, with so many registers
// pinned beside its own.
func (f *file) rounded(pins int, body func(r *rounding)) {
	f.single(29-pins, func(b *block) { body(&rounding{b, pinned(31), pinned(30), pinned(29)}) })
}

// largest raises the four parts of the largest size by those of n elements from the one
// at `from` on, or sets them.
func (r *rounding) largest(top *[4]value, from, n int, set bool) {
	x := r.loads(from, n)
	for i := range x {
		v := r.logic("and", x[i], r.size)
		if set && i < len(top) {
			top[i] = v
		} else {
			r.mixedInto("umax", "4s", top[i%4], top[i%4], v)
		}
	}
}

// loads loads n elements of x from the one at `from` on.
func (r *rounding) loads(from, n int) []value {
	var x []value
	for i := 0; i < n; i += 8 {
		first, second := r.loadPair(at(roundXAt, 4*(from+i)))
		x = append(x, first, second)
	}
	return x
}

// scale returns dx of elements whose largest size is in four parts, as the lowest lane and in
// a general register, the inverse in all lanes, and a mask that is 0 where elements
// become 0: see quantScale.
func (r *rounding) scale(top [4]value) (scale, inverse, mask value) {
	all := r.mixed("umax", "4s", r.mixed("umax", "4s", top[0], top[1]), r.mixed("umax", "4s", top[2], top[3]))
	largest := r.fresh()
	r.do(func(reg func(value) int) string { return encodeLargest(reg(largest), reg(all)).String() }, all, largest)
	dx := r.div(largest, r.top)
	one := r.div(r.one, dx)
	toGeneral := func(v value, g int) {
		r.do(func(reg func(value) int) string { return fmt.Sprintf("FMOVS F%d, R%d", reg(v), g) }, v)
	}
	const nan = "R25"
	toGeneral(largest, g0)
	toGeneral(one, g1)
	toGeneral(dx, g2)
	r.general("MOVD $0x7fc00000, %s", nan)
	r.general("MOVD $-1, R%d", g3)
	r.general("CMPW R%d, R%d", roundInf, g1) // the inverse is infinite
	r.general("CSELW HS, ZR, R%d, R%d", g2, g2)
	r.general("CSELW HS, ZR, R%d, R%d", g3, g3)
	r.general("CMPW R%d, R%d", roundInf, g0) // an element is, or is NaN
	r.general("CSELW HS, %s, R%d, R%d", nan, g2, g2)
	r.general("CSELW HS, ZR, R%d, R%d", g3, g3)
	scale, mask, inverse = r.fromGeneral("FMOVS", g2), r.everywhere(g3), r.fresh()
	r.do(func(reg func(value) int) string { return fmt.Sprintf("VDUP V%d.S[0], V%d.S4", reg(one), reg(inverse)) }, one, inverse)
	return scale, inverse, mask
}

// bytes16 rounds 16 elements, stores them at disp, and returns sums of 2 as int16.
func (r *rounding) bytes16(from, disp int, inverse, mask value) value {
	v := r.loads(from, 16)
	for i := range v {
		v[i] = r.two("fcvtns", s4, r.mul(v[i], inverse))
		v[i] = r.logic("and", v[i], mask)
	}
	var words [2]value
	for i := range words {
		words[i] = r.mixed("sqxtn", "4h", v[2*i])
		r.mixedInto("sqxtn2", "8h", words[i], v[2*i+1])
	}
	b := r.mixed("sqxtn", "8b", words[0])
	r.mixedInto("sqxtn2", "16b", b, words[1])
	r.store(b, at(roundRowAt, disp))
	return r.mixed("saddlp", "8h", b)
}

// eight returns the sums of eight vectors of int16, in their order.
func (r *rounding) eight(v []value) value {
	for len(v) > 1 {
		var half []value
		for i := 0; i < len(v); i += 2 {
			half = append(half, r.mixed("addp", "8h", v[i], v[i+1]))
		}
		v = half
	}
	return v[0]
}

// round rounds blocks of 256, of which 32 elements go where order says, with sums of
// 16, or of 32 and zeros behind them. Both halves of a block go to the same places, but for
// where the first 32 elements go.
func (f *file) round(kind string, order [8]int, pairs bool) {
	var place [8]int
	for at, j := range order {
		place[j] = at
	}
	var top [4]value
	for i := range top {
		top[i] = pinned(28 - i)
	}
	const quarters, x, row, sums = 21, 22, 23, 24
	f.rounds(kind, "blocks of 256", 256, superRow, func() {
		f.rounded(4, func(r *rounding) {
			for _, v := range top {
				r.do(func(reg func(value) int) string { return encodeZero(reg(v)).String() }, v)
			}
		})
		f.line("MOVD R%d, R%d", roundXAt, x)
		f.line("MOVD $4, R%d", quarters)
		f.loop("largest")
		f.rounded(4, func(r *rounding) { r.largest(&top, 0, 64, false) })
		f.line("ADD $256, R%d", roundXAt)
		f.line("SUBS $1, R%d, R%d", quarters, quarters)
		f.line("BNE largest")
		f.line("MOVD R%d, R%d", x, roundXAt)
		inverse, mask := top[0], top[1] // which are not needed any more
		f.rounded(4, func(r *rounding) {
			scale, i, m := r.scale(top)
			factor := r.loadAs("FMOVS", mem{"R0", roundFactor})
			r.storeAs("FMOVS", r.mul(scale, factor), at(roundRowAt, superScale))
			r.move(inverse, i)
			r.move(mask, m)
		})
		f.line("MOVD R%d, R%d", roundRowAt, row)
		f.line("ADD $%d, R%d, R%d", superSums, roundRowAt, sums)
		f.line("MOVD $2, R%d", quarters)
		f.loop("half")
		f.rounded(4, func(r *rounding) {
			var v []value
			for i := range 8 {
				v = append(v, r.bytes16(16*i, 32*place[i/2]+16*(i%2), inverse, mask))
			}
			r.store(r.eight(v), at(sums, 0))
		})
		f.line("ADD $512, R%d", roundXAt)
		f.line("ADD $%d, R%d", 32*(place[4]-place[0]), roundRowAt)
		f.line("ADD $16, R%d", sums)
		f.line("SUBS $1, R%d, R%d", quarters, quarters)
		f.line("BNE half")
		f.line("MOVD R%d, R%d", x, roundXAt)
		f.line("MOVD R%d, R%d", row, roundRowAt)
		if pairs {
			f.rounded(0, func(r *rounding) {
				first, second := at(roundRowAt, superSums), at(roundRowAt, superSums+16)
				r.store(r.mixed("addp", "8h", r.load(first), r.load(second)), first)
				r.store(r.zero(), second)
			})
		}
	})
}

// roundGroup rounds 4 blocks of 32 at a time, in a loop that leaves sums in the frame.
func (f *file) roundGroup() {
	const left, row, scales, sums = 21, 22, 23, 24
	f.frame = 128
	f.rounds("Group", "4 blocks of 32 at a time", 128, groupRow, func() {
		f.frame = 0
		f.line("MOVD R%d, R%d", roundRowAt, row)
		f.line("ADD $%d, R%d, R%d", groupScale, roundRowAt, scales)
		f.line("ADD $8, RSP, R%d", sums)
		f.line("MOVD $%d, R%d", groupLen, left)
		f.loop("block")
		f.rounded(0, func(r *rounding) {
			var top [4]value
			r.largest(&top, 0, 32, true)
			scale, inverse, mask := r.scale(top)
			r.storeAs("FMOVS.P", scale, at(scales, 4))
			first, second := r.bytes16(0, 0, inverse, mask), r.bytes16(16, 16, inverse, mask)
			r.do(func(reg func(value) int) string {
				return fmt.Sprintf("FSTPQ.P (F%d, F%d), 32(R%d)", reg(first), reg(second), sums)
			}, first, second)
		})
		f.line("ADD $128, R%d", roundXAt)
		f.line("ADD $32, R%d", roundRowAt)
		f.line("SUBS $1, R%d, R%d", left, left)
		f.line("BNE block")
		f.line("SUB $512, R%d", roundXAt)
		f.line("MOVD R%d, R%d", row, roundRowAt)
		f.rounded(0, func(r *rounding) {
			var v []value
			for b := range groupLen {
				first, second := r.loadPair(at(sums, 32*(b-groupLen)))
				v = append(v, first, second)
			}
			r.general("MOVWU %d(R0), R%d", roundOffset, g0)
			all := r.mixed("saddlp", "4s", r.eight(v))
			r.store(r.mixed("mul", "4s", all, r.everywhere(g0)), at(roundRowAt, groupSums))
		})
	})
}
