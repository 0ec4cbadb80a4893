package main

import "fmt"

// rotateLeft rotates the bits of 32-bit lanes left.
func (b *block) rotateLeft(x value, by int) value {
	d := b.shift("shl", x, by)
	b.do(func(r func(value) int) string { return encodeShift("sri", r(d), r(x), 32-by).String() }, x, d)
	return d
}

// threefry writes the function that encrypts the counters (hi, lo), (hi, lo+1), … like
// Threefry2x32, and stores the exclusive or of both words. It processes several vectors
// at once, because every step depends on the one before. The numbers added after every
// four rounds are on the stack.
func (f *file) threefry() {
	const n, y, key, sum, added, end, hi, lo, first, second, pins = 0, 1, 2, 5, 6, 7, 31, 30, 29, 28, 4
	f.framed("neonThreefry", "is the random bits of n counters from (hi, lo) upwards, which do not pass 2^32, under the key",
		"(n int, y *float32, k0, k1, hi, lo uint32)", 40, 32)
	f.line("MOVD n+0(FP), R%d", n)
	f.line("MOVD y+8(FP), R%d", y)
	f.line("MOVD $%s(SB), %s", f.table(), constantsAt)
	for i, name := range []string{"k0", "k1"} {
		f.line("MOVWU %s+%d(FP), R%d", name, 16+4*i, key+i)
		f.line("MOVWU %s+%d(FP), R%d", []string{"hi", "lo"}[i], 24+4*i, sum)
		f.line("ADDW R%d, R%d, R%d", key+i, sum, sum)
		f.line("VDUP R%d, V%d.S4", sum, hi-i)
	}
	f.line("MOVW $0x1bd11bda, R%d", key+2)
	f.line("EORW R%d, R%d, R%d", key, key+2, key+2)
	f.line("EORW R%d, R%d, R%d", key+1, key+2, key+2)
	for i := range 5 {
		f.line("MOVW R%d, table-%d(SP)", key+(i+1)%3, 40-8*i)
		f.line("ADDW $%d, R%d, R%d", i+1, key+(i+2)%3, sum)
		f.line("MOVW R%d, table-%d(SP)", sum, 36-8*i)
	}
	f.line("MOVD $table-0(SP), R%d", end)
	f.single(32-pins, func(b *block) {
		b.into("add", s4, pinned(lo), pinned(lo), b.load(mem{constantsAt, f.constant([2]uint64{1 << 32, 3<<32 | 2})}))
	})
	// The last counters, fewer than 4, are encrypted as 4; only the needed results are
	// stored.
	for _, count := range []int{16, 4} {
		f.loop(fmt.Sprintf("by%d", count))
		if count == 16 {
			f.line("CMP $16, R%d", n)
			f.line("BLT by4")
		} else {
			f.line("CBZ R%d, done", n)
		}
		parts := make([]struct{ u, v value }, count/4)
		blocks, all := make([]*block, len(parts)), &block{f: f, next: new(value)}
		each := func(do func(b *block, i int)) {
			for i := range blocks {
				blocks[i] = &block{f: f, next: all.next}
				do(blocks[i], i)
			}
			all.steps = append(all.steps, interleave(blocks)...)
		}
		each(func(b *block, i int) {
			parts[i].u = b.copy(pinned(hi))
			parts[i].v = b.three("add", s4, pinned(lo), b.bits(uint32(4*i)))
		})
		four := func(by [4]int) {
			each(func(b *block, i int) {
				u, v := parts[i].u, parts[i].v
				for _, by := range by {
					b.into("add", s4, u, u, v)
					turned := b.rotateLeft(v, by)
					b.do(func(r func(value) int) string { return encodeLogic("eor", r(v), r(turned), r(u)).String() }, turned, u, v)
				}
			})
			for _, r := range []int{first, second} {
				all.general("VLD1R.P 4(R%d), [V%d.S4]", added, r)
			}
			each(func(b *block, i int) {
				b.into("add", s4, parts[i].u, parts[i].u, pinned(first))
				b.into("add", s4, parts[i].v, parts[i].v, pinned(second))
			})
		}
		all.general("MOVD $table-40(SP), R%d", added)
		all.general("rounds%d:", count) // 20 rounds: four, then four with other rotations, and so on
		four([4]int{13, 15, 26, 6})
		all.general("CMP R%d, R%d", end, added)
		all.general("BEQ encrypted%d", count)
		four([4]int{17, 29, 16, 24})
		all.general("B rounds%d", count)
		all.general("encrypted%d:", count)
		if count == 4 {
			all.general("CMP $4, R%d", n)
			all.general("BLT one")
		}
		each(func(b *block, i int) { b.store(b.logic("eor", parts[i].u, parts[i].v), at(y, 16*i)) })
		all.into("add", s4, pinned(lo), pinned(lo), all.bits(uint32(count)))
		all.general("ADD $%d, R%d", 4*count, y)
		all.general("SUB $%d, R%d", count, n)
		all.general("B by%d", count)
		if count == 4 {
			all.general("one:")
			word := all.logic("eor", parts[0].u, parts[0].v)
			all.general("last:")
			all.do(func(r func(value) int) string { return fmt.Sprintf("FMOVS.P F%d, 4(R%d)", r(word), y) }, word)
			all.do(func(r func(value) int) string {
				return fmt.Sprintf("VEXT $4, V%d.B16, V%d.B16, V%d.B16", r(word), r(word), r(word))
			}, word)
			all.general("SUBS $1, R%d, R%d", n, n)
			all.do(func(func(value) int) string { return "BNE last" }, word)
		}
		f.assigned(all.steps, 32-pins)
	}
	f.label("done")
	f.line("RET")
}

// uniform writes the function making uniform numbers from random bits. The upper 23 bits
// are the fraction of u in [1, 2).
func (f *file) uniform() {
	const lo, span, low = 31, 30, 29 // lo and span in float64, and lo in float32
	f.pointwise(pointwise{name: "Uniform", doc: "y = max(lo, (u-1)·span + lo) of random bits x, as Uniform in Go has it", args: []string{"y", "x"},
		more: ", lo, span float32", bytes: 8, pinned: 3,
		before: func() {
			for i, name := range []string{"lo", "span"} {
				f.line("FMOVS %s+%d(FP), F%d", name, 24+4*i, lo-i)
				f.line("VDUP V%d.S[0], V%d.S4", lo-i, lo-i)
				if i == 0 {
					f.line("VORR V%d.B16, V%d.B16, V%d.B16", lo, lo, low)
				}
				f.line("%v", encodeConvert("fcvtl", lo-i, lo-i))
			}
		},
		body: func(b *block, x []value) value {
			one := b.number(1)
			u := b.sub(b.logic("orr", b.shift("ushr", x[0], 9), one), one)
			y := b.inWide(u, func(u value) value {
				// The product is exact, the sum rounded once.
				sum := b.copy(pinned(lo))
				b.into("fmla", d2, sum, u, pinned(span))
				return sum
			})
			return b.three("fmax", s4, y, pinned(low))
		}})
}
