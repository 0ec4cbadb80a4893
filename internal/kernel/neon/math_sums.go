package main

import "fmt"

// clearVectors sets the n vector registers from `from` on to 0.
func (f *file) clearVectors(from, n int) {
	for i := range n {
		f.line("%v", encodeZero(from+i))
	}
}

// wideAdd adds the 4 float32 in V`x` to the 4 float64 in V`to` and the register after it. It
// uses V`free` and the register after that.
func (f *file) wideAdd(to, x, free int) {
	for i, half := range []string{"fcvtl", "fcvtl2"} {
		f.line("%v", encodeConvert(half, free+i, x))
		f.line("%v", encodeThree("fadd", d2, to+i, to+i, free+i))
	}
}

// sum writes the function returning the sum of x, or of x·y. Sums begin with 0 and so are
// never -0. So the zeros added after the last element change nothing.
func (f *file) sum(name, doc string, dot bool) {
	const n, x, y = 0, 1, 2
	const v, w, free = 16, 18, 20 // the first registers of x, of y, and of free ones
	args, size := "x", 24
	if dot {
		args, size = "x, y", 32
	}
	f.begin("neon"+name, "is "+doc, fmt.Sprintf("(n int, %s *float32) float64", args), size)
	f.line("MOVD n+0(FP), R%d", n)
	f.line("MOVD x+8(FP), R%d", x)
	if dot {
		f.line("MOVD y+16(FP), R%d", y)
	}
	// load writes a load of x, and of y if there is one.
	load := func(format string, bytes, offset int) {
		f.line(format, bytes, x, v+offset)
		if dot {
			f.line(format, bytes, y, w+offset)
		}
	}
	add := func() {
		for i := range 2 {
			if !dot {
				f.wideAdd(2*i, v+i, free)
				continue
			}
			for k, half := range []string{"fcvtl", "fcvtl2"} {
				f.line("%v", encodeConvert(half, free, v+i))
				f.line("%v", encodeConvert(half, free+1, w+i))
				// The product is exact, the sum rounded once.
				f.line("%v", encodeThree("fmla", d2, 2*i+k, free, free+1))
			}
		}
	}
	// rest loads the last 0 to 3 elements.
	rest := func(i int) {
		f.line("TBZ $1, R%d, one%d", n, i)
		load("FMOVD.P %d(R%d), F%d", 8, i)
		f.line("TBZ $0, R%d, add", n)
		f.line("VLD1 (R%d), V%d.S[2]", x, v+i)
		if dot {
			f.line("VLD1 (R%d), V%d.S[2]", y, w+i)
		}
		f.line("B add")
		f.label(fmt.Sprintf("one%d", i))
		f.line("TBZ $0, R%d, add", n)
		load("FMOVS %d(R%d), F%d", 0, i)
		f.line("B add")
	}
	f.clearVectors(0, 4)
	f.line("CMP $8, R%d", n)
	f.line("BLT below")
	f.loop("loop")
	for i := range 2 {
		load("FMOVQ.P %d(R%d), F%d", 16, i)
	}
	add()
	f.line("SUB $8, R%d", n)
	f.line("CMP $8, R%d", n)
	f.line("BGE loop")
	f.label("below")
	f.line("CBZ R%d, done", n)
	f.clearVectors(v, 4)
	f.line("TBZ $2, R%d, few", n)
	load("FMOVQ.P %d(R%d), F%d", 16, 0)
	rest(1)
	f.label("few")
	rest(0)
	f.label("add")
	add()
	f.label("done")
	for apart := 2; apart > 0; apart /= 2 {
		for i := range apart {
			f.line("%v", encodeThree("fadd", d2, i, i, i+apart))
		}
	}
	f.line("VDUP V0.D[1], V1.D2")
	f.line("%v", encodeThree("fadd", d2, 0, 0, 1))
	f.line("FMOVD F0, ret+%d(FP)", size-8)
	f.line("RET")
}

// byColumns writes loops over columns. counts has the numbers of columns that the loops
// handle at a time, in falling order.
func (f *file) byColumns(n int, counts []int, body func(count int)) {
	for _, count := range counts {
		f.label(fmt.Sprintf("by%d", count))
		f.line("CMP $%d, R%d", count, n)
		f.line("BLT below%d", count)
		body(count)
		f.line("SUB $%d, R%d", count, n)
		f.line("B by%d", count)
		f.label(fmt.Sprintf("below%d", count))
	}
	f.line("RET")
}

func (f *file) sumRows() {
	const n, sums, x, stride, rows, row, left = 0, 1, 2, 3, 4, 5, 6
	const v, free = 16, 20
	f.function("neonSumRows", "adds to each of n sums its column of x, of rows, 1 or more, that are stride bytes apart",
		"n int", "sums *float64", "x *float32", "stride int", "rows int")
	f.byColumns(n, []int{16, 4, 1}, func(count int) {
		moveSums, moveX, vectors := "FMOVQ", "FMOVQ", max(count/4, 1)
		if count == 1 {
			moveSums, moveX = "FMOVD", "FMOVS"
		}
		wide := max(count/2, 1)
		for i := range wide {
			f.line("%s %d(R%d), F%d", moveSums, 16*i, sums, i)
		}
		f.line("MOVD R%d, R%d", x, row)
		f.line("MOVD R%d, R%d", rows, left)
		f.loop(fmt.Sprintf("rows%d", count))
		for i := range vectors {
			f.line("%s %d(R%d), F%d", moveX, 16*i, row, v+i)
		}
		f.line("ADD R%d, R%d", stride, row)
		for i := range vectors {
			f.wideAdd(2*i, v+i, free)
		}
		f.line("SUBS $1, R%d, R%d", left, left)
		f.line("BNE rows%d", count)
		for i := range wide {
			f.line("%s F%d, %d(R%d)", moveSums, i, 16*i, sums)
		}
		f.line("ADD $%d, R%d", 8*count, sums)
		f.line("ADD $%d, R%d", 4*count, x)
	})
}

func (f *file) sumTree() {
	const n, y, sums, stride, row = 0, 1, 2, 3, 5
	f.function("neonSumTree", "sets each of n elements to the sum of 8 that are stride bytes apart, added 4, 2 and 1 apart",
		"n int", "y *float32", "sums *float64", "stride int")
	f.byColumns(n, []int{4, 1}, func(count int) {
		load, store := "FMOVQ", "FMOVQ"
		if count == 1 {
			load, store = "FMOVD", "FMOVS"
		}
		for half := range max(count/2, 1) {
			v := 8 * half
			f.line("ADD $%d, R%d, R%d", 16*half, sums, row)
			for k := range 8 {
				f.line("%s (R%d), F%d", load, row, v+k)
				f.line("ADD R%d, R%d", stride, row)
			}
			for apart := 4; apart > 0; apart /= 2 {
				for i := range apart {
					f.line("%v", encodeThree("fadd", d2, v+i, v+i, v+i+apart))
				}
			}
			f.line("%v", encodeConvert([]string{"fcvtn", "fcvtn2"}[half], 16, v))
		}
		f.line("%s F16, (R%d)", store, y)
		f.line("ADD $%d, R%d", 4*count, y)
		f.line("ADD $%d, R%d", 8*count, sums)
	})
}

// extreme writes the function returning the largest or the smallest of n elements.
func (f *file) extreme(name, doc, op string, none float64) {
	const n, x, v = 0, 1, 16
	f.begin("neon"+name, "is "+doc, "(n int, x *float32) float32", 20)
	f.line("MOVD n+0(FP), R%d", n)
	f.line("MOVD x+8(FP), R%d", x)
	f.line("MOVD $%s(SB), %s", f.table(), constantsAt)
	for i := range 4 {
		f.line("FMOVQ %d(%s), F%d", f.number(none), constantsAt, i)
	}
	for _, count := range []int{16, 1} {
		f.line("CMP $%d, R%d", count, n)
		f.line("BLT below%d", count)
		f.loop(fmt.Sprintf("by%d", count))
		vectors := max(count/4, 1)
		for i := range vectors {
			if count == 1 {
				f.line("VLD1R.P 4(R%d), [V%d.S4]", x, v)
			} else {
				f.line("FMOVQ.P 16(R%d), F%d", x, v+i)
			}
		}
		for i := range vectors {
			f.line("%v", encodeThree(op, s4, i, i, v+i))
		}
		f.line("SUB $%d, R%d", count, n)
		f.line("CMP $%d, R%d", count, n)
		f.line("BGE by%d", count)
		f.label(fmt.Sprintf("below%d", count))
	}
	for apart := 2; apart > 0; apart /= 2 {
		for i := range apart {
			f.line("%v", encodeThree(op, s4, i, i, i+apart))
		}
	}
	for _, bytes := range []int{8, 4} {
		f.line("VEXT $%d, V0.B16, V0.B16, V1.B16", bytes)
		f.line("%v", encodeThree(op, s4, 0, 0, 1))
	}
	f.line("FMOVS F0, ret+16(FP)")
	f.line("RET")
}
