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

// rounds writes a function that rounds units of as many elements to `row` bytes.
func (f *file) rounds(kind, doc string, elements, row int, body func(r *rounding)) {
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
	f.single(29, func(b *block) { body(&rounding{b, pinned(31), pinned(30), pinned(29)}) })
	f.line("ADD $%d, R%d", 4*elements, roundXAt)
	f.line("ADD $%d, R%d", row, roundRowAt)
	f.line("SUBS $1, R%d, R%d", n, n)
	f.line("BNE loop")
	f.line("RET")
}

// scale returns dx of n elements from the one at `from` on, as the lowest lane and in
// a general register, the inverse in all lanes, and a mask that is 0 where elements
// become 0: see quantScale.
func (r *rounding) scale(from, n int) (scale, inverse, mask value) {
	var top [4]value
	for i := range n / 4 {
		v := r.logic("and", r.load(at(roundXAt, 4*from+16*i)), r.size)
		if i < len(top) {
			top[i] = v
		} else {
			r.mixedInto("umax", "4s", top[i%4], top[i%4], v)
		}
	}
	all := r.mixed("umax", "4s", r.mixed("umax", "4s", top[0], top[1]), r.mixed("umax", "4s", top[2], top[3]))
	largest := r.fresh()
	r.do(func(reg func(value) int) string { return encodeLargest(reg(largest), reg(all)).String() }, all, largest)
	dx := r.div(largest, r.top)
	one := r.div(r.one, dx)
	toGeneral := func(v value, g int) {
		r.do(func(reg func(value) int) string { return fmt.Sprintf("FMOVS F%d, R%d", reg(v), g) }, v)
	}
	const nan = "R21"
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
	var v [4]value
	for i := range v {
		v[i] = r.two("fcvtns", s4, r.mul(r.load(at(roundXAt, 4*from+16*i)), inverse))
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
// 16, or of 32 and zeros behind them.
func (f *file) round(kind string, order [8]int, pairs bool) {
	f.rounds(kind, "blocks of 256", 256, superRow, func(r *rounding) {
		scale, inverse, mask := r.scale(0, 256)
		factor := r.loadAs("FMOVS", mem{"R0", roundFactor})
		r.storeAs("FMOVS", r.mul(scale, factor), at(roundRowAt, superScale))
		var place [8]int
		for at, j := range order {
			place[j] = at
		}
		var sums [2]value
		for h := range sums {
			var v []value
			for i := 8 * h; i < 8*h+8; i++ {
				v = append(v, r.bytes16(16*i, 32*place[i/2]+16*(i%2), inverse, mask))
			}
			sums[h] = r.eight(v)
		}
		if pairs {
			sums[0], sums[1] = r.mixed("addp", "8h", sums[0], sums[1]), r.zero()
		}
		for h, s := range sums {
			r.store(s, at(roundRowAt, superSums+16*h))
		}
	})
}

// roundGroup rounds 4 blocks of 32 at a time.
func (f *file) roundGroup() {
	f.rounds("Group", "4 blocks of 32 at a time", 128, groupRow, func(r *rounding) {
		var v []value
		for b := range groupLen {
			scale, inverse, mask := r.scale(32*b, 32)
			r.storeAs("FMOVS", scale, at(roundRowAt, groupScale+4*b))
			for half := range 2 {
				from := 32*b + 16*half
				v = append(v, r.bytes16(from, from, inverse, mask))
			}
		}
		r.general("MOVWU %d(R0), R%d", roundOffset, g0)
		sums := r.mixed("saddlp", "4s", r.eight(v))
		r.store(r.mixed("mul", "4s", sums, r.everywhere(g0)), at(roundRowAt, groupSums))
	})
}
