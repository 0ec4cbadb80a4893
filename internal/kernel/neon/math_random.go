package main

import "fmt"

// rotateLeft rotates the bits of 32-bit lanes left.
func (b *block) rotateLeft(x value, by int) value {
	d := b.shift("shl", x, by)
	b.do(func(r func(value) int) string { return encodeShift("sri", r(d), r(x), 32-by).String() }, x, d)
	return d
}

// threefry writes the function that encrypts the counters (hi, lo), (hi, lo+1), … as
// Threefry2x32 does, and stores the exclusive or of both words. It does several vectors at
// once, since every step waits for the one before.
func (f *file) threefry() {
	const n, y, k0, k1, k2, hi, lo, pins = 0, 1, 31, 30, 29, 28, 27, 5
	f.begin("neonThreefry", "is the random bits of n counters from (hi, lo) upwards, which do not pass 2^32, under the key",
		"(n int, y *float32, k0, k1, hi, lo uint32)", 32)
	f.line("MOVD n+0(FP), R%d", n)
	f.line("MOVD y+8(FP), R%d", y)
	f.line("MOVD $%s(SB), %s", f.table(), constantsAt)
	for i, name := range []string{"k0", "k1", "hi", "lo"} {
		f.line("MOVWU %s+%d(FP), R%d", name, 16+4*i, g0)
		f.line("VDUP R%d, V%d.S4", g0, []int{k0, k1, hi, lo}[i])
	}
	f.single(k2, func(b *block) {
		x := b.logic("eor", pinned(k0), pinned(k1))
		count := b.load(mem{constantsAt, f.constant([2]uint64{1 << 32, 3<<32 | 2})})
		parity := b.bits(0x1bd11bda)
		b.do(func(r func(value) int) string { return encodeLogic("eor", k2, r(x), r(parity)).String() }, x, parity)
		b.into("add", s4, pinned(hi), pinned(hi), pinned(k0))
		b.into("add", s4, pinned(lo), pinned(lo), pinned(k1))
		b.into("add", s4, pinned(lo), pinned(lo), count)
	})
	for _, count := range []int{16, 4, 1} {
		f.line("CMP $%d, R%d", count, n)
		f.line("BLT below%d", count)
		f.loop(fmt.Sprintf("by%d", count))
		blocks, next := make([]*block, max(count/4, 1)), value(0)
		for part := range blocks {
			b := &block{f: f, next: &next}
			blocks[part] = b
			add := func(x, y value) value { return b.three("add", s4, x, y) }
			u, v := pinned(hi), add(pinned(lo), b.bits(uint32(4*part)))
			for i := range 5 {
				for _, by := range [2][4]int{{13, 15, 26, 6}, {17, 29, 16, 24}}[i%2] {
					u = add(u, v)
					v = b.logic("eor", b.rotateLeft(v, by), u)
				}
				key := [3]value{pinned(k0), pinned(k1), pinned(k2)}
				u = add(u, key[(i+1)%3])
				v = add(add(v, key[(i+2)%3]), b.bits(uint32(i+1)))
			}
			move := "FMOVQ"
			if count == 1 {
				move = "FMOVS"
			}
			b.storeAs(move, b.logic("eor", u, v), at(y, 16*part))
		}
		texts, ok := assign(interleave(blocks), 32-pins)
		if !ok {
			panic("neon: threefry does not fit the registers")
		}
		for _, text := range texts {
			f.line("%s", text)
		}
		f.single(32-pins, func(b *block) { b.into("add", s4, pinned(lo), pinned(lo), b.bits(uint32(count))) })
		f.line("ADD $%d, R%d", 4*count, y)
		f.line("SUB $%d, R%d", count, n)
		f.line("CMP $%d, R%d", count, n)
		f.line("BGE by%d", count)
		f.label(fmt.Sprintf("below%d", count))
	}
	f.line("RET")
}

// uniform writes the function that makes uniform numbers of random bits. The upper 23 bits
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
