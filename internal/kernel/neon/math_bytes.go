package main

// bools writes the frame of a function of n elements. n is a positive multiple of 16. The
// argument with index `bytes` has n bytes, and the others have n words.
func (f *file) bools(name, doc, signature string, args []string, bytes int, body func(b *block)) {
	const n = 0
	f.begin("neon"+name, "is "+doc+"; n is a multiple of 16, not 0", signature, 8+8*len(args))
	f.line("MOVD n+0(FP), R%d", n)
	for i, a := range args {
		f.line("MOVD %s+%d(FP), R%d", a, 8+8*i, 1+i)
	}
	f.line("MOVD $%s(SB), %s", f.table(), constantsAt)
	f.loop("loop")
	f.single(32, body)
	for i := range args {
		size := 64
		if i == bytes {
			size = 16
		}
		f.line("ADD $%d, R%d", size, 1+i)
	}
	f.line("SUBS $16, R%d, R%d", n, n)
	f.line("BNE loop")
	f.line("RET")
}

// comparisons writes functions with bytes, 0 or 1, as results.
func (f *file) comparisons() {
	for _, c := range []struct {
		name, doc, op string
		swap, not     bool
	}{
		{"IsEqual", "x == y", "fcmeq", false, false}, {"IsUnequal", "x != y", "fcmeq", false, true},
		{"IsLess", "x < y", "fcmgt", true, false}, {"IsAtMost", "x <= y", "fcmge", true, false},
		{"IsGreater", "x > y", "fcmgt", false, false}, {"IsAtLeast", "x >= y", "fcmge", false, false},
	} {
		f.bools(c.name, "z = "+c.doc, "(n int, z *byte, x, y *float32)", []string{"z", "x", "y"}, 0, func(b *block) {
			var is [4]value
			for i := range is {
				x, y := b.load(at(2, 16*i)), b.load(at(3, 16*i))
				if c.swap {
					x, y = y, x
				}
				is[i] = b.three(c.op, s4, x, y)
			}
			z := b.arrange("VUZP1", "B16", b.arrange("VUZP1", "H8", is[0], is[1]), b.arrange("VUZP1", "H8", is[2], is[3]))
			if c.not {
				z = b.mixed("mvn", "16b", z)
			}
			b.store(b.logic("and", z, b.bits(0x01010101)), at(1, 0))
		})
	}
}

// selects writes a function taking each word from one of two slices, selected by a byte,
// 0 or 1.
func (f *file) selects() {
	f.bools("Select", "z = yes where which is 1, no where it is 0", "(n int, z, yes, no *float32, which *byte)", []string{"z", "yes", "no", "which"}, 3, func(b *block) {
		which := b.mixed("neg", "16b", b.load(at(4, 0)))
		for i, half := range []string{"sxtl", "sxtl2"} {
			words := b.mixed(half, "8h", which)
			for k, quarter := range []string{"sxtl", "sxtl2"} {
				where := 16 * (2*i + k)
				z := b.choose(b.mixed(quarter, "4s", words), b.load(at(2, where)), b.load(at(3, where)))
				b.store(z, at(1, where))
			}
		}
	})
}
