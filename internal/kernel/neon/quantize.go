package main

import "fmt"

// rounding writes a function rounding rows for products with weights in blocks. R0 points
// to the arguments, R2 to x, and R3 to the rounded row. R4 and R5 hold the bits of
// infinity and NaN.
type rounding struct {
	*block
	size, top, one value // pinned: all bits but the sign; 127; and 1, as float32
}

// Within a unit, R6 points to the start of the first read of x, and R7 and R8 to the
// destinations of parts of the row. R9 counts the iterations of a loop, and R11 the
// iterations of a nested loop.
const (
	roundXAt, roundRowAt, roundInf, roundNaN = 2, 3, 4, 5
	roundAhead, roundTo, roundSums           = 6, 7, 8
	roundTurns, roundWithin                  = 9, 11
)

// rounds writes a function rounding units of x to `row` bytes each. body writes the work
// on a unit, and advances the pointer to x.
func (f *file) rounds(kind, doc string, row int, body func(r *rounding)) {
	const n = 1
	f.function("neonRound"+kind, "rounds "+doc, "t *byte")
	f.line("MOVD %d(R0), R%d", roundN, n)
	f.line("MOVD %d(R0), R%d", roundX, roundXAt)
	f.line("MOVD %d(R0), R%d", roundRow, roundRowAt)
	f.line("MOVD $0x7f800000, R%d", roundInf)
	f.line("MOVD $0x7fc00000, R%d", roundNaN)
	f.line("MOVD $%s(SB), %s", f.table(), constantsAt)
	f.line("FMOVQ %d(%s), F31", f.bits(1<<31-1), constantsAt)
	f.line("FMOVQ %d(%s), F30", f.number(127), constantsAt)
	f.line("FMOVQ %d(%s), F29", f.number(1), constantsAt)
	f.loop("loop")
	f.single(29, func(b *block) { body(&rounding{b, pinned(31), pinned(30), pinned(29)}) })
	f.line("ADD $%d, R%d", row, roundRowAt)
	f.line("SUBS $1, R%d, R%d", n, n)
	f.line("BNE loop")
	f.line("RET")
}

// scale returns dx of the next n elements in the lowest lane, its inverse in all lanes,
// and a mask that is 0 if all elements become 0: see quantScale in package blocks. It
// reads 16 elements and then `together` elements at a time.
func (r *rounding) scale(n, together int) (scale, inverse, mask value) {
	var top [4]value
	each := func(n int, do func(i int, size value)) {
		for i := 0; i < n; i += 2 {
			for k, x := range r.take(roundAhead) {
				do((i+k)%4, r.logic("and", x, r.size))
			}
		}
	}
	r.general("MOVD R%d, R%d", roundXAt, roundAhead)
	each(4, func(i int, size value) { top[i] = size })
	r.repeat("largest", roundWithin, (n-16)/together, func() {
		each(together/4, func(i int, size value) { r.mixedInto("umax", "4s", top[i], top[i], size) })
	})
	all := r.mixed("umax", "4s", r.mixed("umax", "4s", top[0], top[1]), r.mixed("umax", "4s", top[2], top[3]))
	largest := r.across("umaxv", all)
	dx := r.div(largest, r.top)
	one := r.div(r.one, dx)
	toGeneral := func(v value, g int) {
		r.do(func(reg func(value) int) string { return fmt.Sprintf("FMOVS F%d, R%d", reg(v), g) }, v)
	}
	toGeneral(largest, g0)
	toGeneral(one, g1)
	toGeneral(dx, g2)
	r.general("CMPW R%d, R%d", roundInf, g1) // the inverse is infinite
	r.general("CSELW HS, ZR, R%d, R%d", g2, g2)
	r.general("CSETMW LO, R%d", g3)
	r.general("CMPW R%d, R%d", roundInf, g0) // an element is infinite or NaN
	r.general("CSELW HS, R%d, R%d, R%d", roundNaN, g2, g2)
	r.general("CSELW HS, ZR, R%d, R%d", g3, g3)
	scale, mask, inverse = r.fromGeneral("FMOVS", g2), r.everywhere(g3), r.fresh()
	r.do(func(reg func(value) int) string { return fmt.Sprintf("VDUP V%d.S[0], V%d.S4", reg(one), reg(inverse)) }, one, inverse)
	return scale, inverse, mask
}

// bytes16 rounds the next 16 elements, stores them, and returns their sums by 2 as int16.
func (r *rounding) bytes16(inverse, mask value, to mem) value {
	var words [2]value
	for i := range words {
		v := r.take(roundXAt)
		for k, x := range v {
			v[k] = r.logic("and", r.two("fcvtns", s4, r.mul(x, inverse)), mask)
		}
		words[i] = r.mixed("sqxtn", "4h", v[0])
		r.mixedInto("sqxtn2", "8h", words[i], v[1])
	}
	b := r.mixed("sqxtn", "8b", words[0])
	r.mixedInto("sqxtn2", "16b", b, words[1])
	r.store(b, to)
	return r.mixed("saddlp", "8h", b)
}

// eight returns a vector of the sums of eight vectors of int16, in order.
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

// roundSuper writes the function rounding blocks of 256. The arguments give the place of
// each 32 elements, and whether the sums of every 16 elements are added in pairs.
func (f *file) roundSuper() {
	f.rounds("Super", "blocks of 256", superRow, func(r *rounding) {
		scale, inverse, mask := r.scale(256, 48)
		factor := r.loadAs("FMOVS", mem{"R0", roundFactor})
		r.storeAs("FMOVS", r.mul(scale, factor), at(roundRowAt, superScale))
		r.general("ADD $%d, R0, R%d", roundPlaces, roundAhead)
		r.general("ADD $%d, R%d, R%d", superSums, roundRowAt, roundSums)
		r.repeat("half", roundTurns, 2, func() {
			var v []value
			for range 4 {
				r.general("MOVWU.P 4(R%d), R%d", roundAhead, roundTo)
				r.general("ADD R%d, R%d", roundRowAt, roundTo)
				v = append(v, r.bytes16(inverse, mask, at(roundTo, 0)), r.bytes16(inverse, mask, at(roundTo, 16)))
			}
			r.storeAs("FMOVQ.P", r.eight(v), at(roundSums, 16))
		})
		r.general("MOVWU %d(R0), R%d", roundPairs, g0)
		r.general("CBZ R%d, next", g0)
		sums := r.mixed("addp", "8h", r.load(at(roundSums, -32)), r.load(at(roundSums, -16)))
		r.store(sums, at(roundSums, -32))
		r.store(r.zero(), at(roundSums, -16))
		r.general("next:")
	})
}

// roundGroup writes the function rounding 4 blocks of 32 at a time.
func (f *file) roundGroup() {
	f.rounds("Group", "4 blocks of 32 at a time", groupRow, func(r *rounding) {
		r.general("MOVD R%d, R%d", roundRowAt, roundTo)
		r.general("ADD $%d, R%d, R%d", groupScale, roundRowAt, roundSums)
		offset := r.loadAs("FMOVS", mem{"R0", roundOffset})
		r.repeat("block", roundTurns, groupLen, func() {
			scale, inverse, mask := r.scale(32, 16)
			r.storeAs("FMOVS", scale, at(roundSums, 0))
			first := r.bytes16(inverse, mask, at(roundTo, 0))
			second := r.bytes16(inverse, mask, at(roundTo, 16))
			r.general("ADD $32, R%d", roundTo)
			sum := r.across("saddlv", r.mixed("addp", "8h", first, second))
			r.storeAs("FMOVS", r.mixed("mul", "4s", sum, offset), at(roundSums, groupSums-groupScale))
			r.general("ADD $4, R%d", roundSums)
		})
	})
}
