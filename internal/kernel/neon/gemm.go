package main

import "fmt"

// Offsets of the fields of type work in package gemm, which checks them. Some fields are
// loaded in pairs, and only the first has a name here.
const (
	workDeepA    = 0
	workBStride  = 16
	workCStride  = 32
	workAdd      = 48
	workCols     = 56
	vectorBytes  = 16
	tileRowsMost = 8
	tileVecsMost = 3
)

// element is float32 or float64, as names and instructions call it.
type element struct {
	name string
	a    arrangement
}

// lanes returns the number of elements in a vector.
func (e element) lanes() int { return vectorBytes / e.a.size() }

func (f *file) gemm() {
	for _, e := range []element{{"F32", s4}, {"F64", d2}} {
		for rows := 1; rows <= tileRowsMost; rows = max(4, 2*rows) {
			for vecs := 1; vecs <= tileVecsMost; vecs++ {
				f.tile(e, rows, vecs)
			}
		}
		f.stream(e, 1, 8)
		f.stream(e, 2, 8)
		f.stream(e, 4, 4)
	}
}

// pack writes loops copying rows to contiguous rows, or transposed.
func (f *file) pack() {
	for bytes := 16; bytes <= 64; bytes += 16 {
		f.copyRows(bytes)
	}
	f.transpose4F32()
	f.transpose2F64()
}

// loads writes loads of n bytes, which are whole vectors or one element, from R`base` to
// the registers from `to` on. If advance is set, or for one element, it advances R`base`
// past them.
func (f *file) loads(n, base, to int, advance bool) {
	if n < vectorBytes {
		move := map[int]string{4: "FMOVS", 8: "FMOVD"}[n]
		f.line("%s.P %d(R%d), F%d", move, n, base, to)
		return
	}
	// The load of the first bytes comes last, because it advances the pointer.
	for at := (n - 1) / 32 * 32; at >= 0; at -= 32 {
		name, target := "FLDPQ", fmt.Sprintf("(F%d, F%d)", to+at/16, to+at/16+1)
		if n-at == vectorBytes {
			name, target = "FMOVQ", fmt.Sprintf("F%d", to+at/16)
		}
		if at == 0 && advance {
			f.line("%s.P %d(R%d), %s", name, n, base, target)
		} else {
			f.line("%s %d(R%d), %s", name, at, base, target)
		}
	}
}

// stores writes stores of n vectors, in the registers from `from` on, to R`base`.
func (f *file) stores(n, base, from int) {
	for i := 0; i < n; i += 2 {
		if i+1 < n {
			f.line("FSTPQ (F%d, F%d), %d(R%d)", from+i, from+i+1, vectorBytes*i, base)
		} else {
			f.line("FMOVQ F%d, %d(R%d)", from+i, vectorBytes*i, base)
		}
	}
}

// tile writes a function for C = 0 + A·B, or C += A·B, for C of rows by vecs vectors, all
// in registers. Each element is one chain of fused multiply-adds, which begins with 0.
// With 8 rows of 3 vectors the sums take 24 of 32 registers, a row of B takes 3, and a
// column of A takes 2, or 4 for float64.
func (f *file) tile(e element, rows, vecs int) {
	const y, x = tileRowsMost * tileVecsMost, tileRowsMost*tileVecsMost + tileVecsMost // registers of B and A
	const deep, a, b, bstride, c, cstride, add, row = 1, 2, 3, 4, 5, 6, 7, 8
	name := fmt.Sprintf("neon%sTile%dx%d", e.name, rows, vecs)
	f.function(name, fmt.Sprintf("multiplies %d rows and %d vectors", rows, vecs), "t *byte")
	f.line("LDP %d(R0), (R%d, R%d)", workDeepA, deep, a)
	f.line("LDP %d(R0), (R%d, R%d)", workBStride, b, bstride)
	f.line("LDP %d(R0), (R%d, R%d)", workCStride, c, cstride)
	f.line("MOVD %d(R0), R%d", workAdd, add)
	// C is needed at the end, so it is fetched while the sums are computed.
	f.line("MOVD R%d, R%d", c, row)
	for i := range rows {
		f.line("PRFM (R%d), PLDL1KEEP", row)
		if i < rows-1 {
			f.line("ADD R%d, R%d", cstride, row)
		}
	}
	sum := func(i, j int) int { return i*vecs + j }
	for i := range rows * vecs {
		f.line("VEOR V%d.B16, V%d.B16, V%d.B16", i, i, i)
	}
	f.loop("loop")
	f.loads(vectorBytes*vecs, b, y, false)
	f.loads(rows*e.a.size(), a, x, true)
	f.line("ADD R%d, R%d", bstride, b)
	for i := range rows {
		for j := range vecs {
			f.line("%v", encodeByElement(e.a, sum(i, j), y+j, x+i/e.lanes(), i%e.lanes()))
		}
	}
	f.line("SUBS $1, R%d, R%d", deep, deep)
	f.line("BNE loop")
	f.line("CBZ R%d, set", add)
	for _, set := range []bool{false, true} {
		if set {
			f.label("set")
			f.line("VEOR V%d.B16, V%d.B16, V%d.B16", y, y, y)
		}
		for i := range rows {
			if !set {
				f.loads(vectorBytes*vecs, c, y, false)
			}
			for j := range vecs {
				to := y + j
				if set {
					to = y
				}
				f.line("%v", encodeThree("fadd", e.a, sum(i, j), sum(i, j), to))
			}
			f.stores(vecs, c, sum(i, 0))
			if i < rows-1 {
				f.line("ADD R%d, R%d", cstride, c)
			}
		}
		f.line("RET")
	}
}

// stream writes a function adding A·B to sums in memory, for few rows of A. It reads
// `deep` rows of B at a time, sequentially, which is the fastest way to read memory. The
// sums of one vector of columns are consecutive, row by row.
func (f *file) stream(e element, rows, deep int) {
	const x, y = 16, 24 // the first registers of A and of B; the sums are in 0 and on
	const left, a, b, bstride, c, cols, from, sums, columns = 1, 2, 3, 4, 5, 6, 8, 19, 20
	name := fmt.Sprintf("neon%sStream%d", e.name, rows)
	f.function(name, fmt.Sprintf("adds the products of %d rows to sums", rows), "t *byte")
	f.line("LDP %d(R0), (R%d, R%d)", workDeepA, left, a)
	f.line("LDP %d(R0), (R%d, R%d)", workBStride, b, bstride)
	f.line("MOVD %d(R0), R%d", workCStride, c)
	f.line("MOVD %d(R0), R%d", workCols, cols)
	for _, n := range []int{deep, 1} {
		f.label(fmt.Sprintf("by%d", n))
		f.line("CMP $%d, R%d", n, left)
		f.line("BLT below%d", n)
		f.loads(n*rows*e.a.size(), a, x, true)
		for p := range n {
			f.line("MOVD R%d, R%d", b, from+p)
			f.line("ADD R%d, R%d", bstride, b)
		}
		f.line("MOVD R%d, R%d", c, sums)
		f.line("MOVD R%d, R%d", cols, columns)
		f.loop(fmt.Sprintf("columns%d", n))
		f.loads(rows*vectorBytes, sums, 0, false)
		for p := range n {
			f.line("FMOVQ.P %d(R%d), F%d", vectorBytes, from+p, y+p)
		}
		for p := range n {
			for r := range rows {
				at := p*rows + r
				f.line("%v", encodeByElement(e.a, r, y+p, x+at/e.lanes(), at%e.lanes()))
			}
		}
		f.stores(rows, sums, 0)
		f.line("ADD $%d, R%d", rows*vectorBytes, sums)
		f.line("SUBS $%d, R%d, R%d", vectorBytes, columns, columns)
		f.line("BNE columns%d", n)
		f.line("SUB $%d, R%d", n, left)
		f.line("B by%d", n)
		f.label(fmt.Sprintf("below%d", n))
	}
	f.line("RET")
}

// copyRows writes a function copying rows of this number of bytes, with a stride of
// stride bytes, to contiguous rows.
func (f *file) copyRows(bytes int) {
	const n, dst, src, stride = 0, 1, 2, 3
	name := fmt.Sprintf("neonCopy%d", bytes)
	f.function(name, fmt.Sprintf("copies n rows of %d bytes, stride bytes apart in src, with nothing between them in dst", bytes),
		"n int", "dst *byte", "src *byte", "stride uintptr")
	f.loop("loop")
	f.loads(bytes, src, 0, false)
	f.stores(bytes/vectorBytes, dst, 0)
	f.line("ADD R%d, R%d", stride, src)
	f.line("ADD $%d, R%d", bytes, dst)
	f.line("SUBS $1, R%d, R%d", n, n)
	f.line("BNE loop")
	f.line("RET")
}

// transposition writes the frame of a function that reads `lanes` rows and writes them as
// columns, `lanes` elements of each row in one round. R`row`+i points to row i, and vector
// register i holds it.
func (f *file) transposition(name string, lanes int, round func()) {
	const n, dst, pitch, src, stride, row = 0, 1, 2, 3, 4, 5
	f.function(name, fmt.Sprintf("writes columns of src, n of %d elements, as rows of dst. Rows are stride bytes apart in src and pitch bytes in dst; n is a multiple of %d", lanes, lanes),
		"n int", "dst *byte", "pitch uintptr", "src *byte", "stride uintptr")
	for i := range lanes {
		f.line("MOVD R%d, R%d", src, row+i)
		f.line("ADD R%d, R%d", stride, src)
	}
	f.loop("loop")
	for i := range lanes {
		f.line("FMOVQ.P %d(R%d), F%d", vectorBytes, row+i, i)
	}
	round()
	for i := range lanes {
		f.line("FMOVQ F%d, (R%d)", i, dst)
		f.line("ADD R%d, R%d", pitch, dst)
	}
	f.line("SUBS $%d, R%d, R%d", lanes, n, n)
	f.line("BNE loop")
	f.line("RET")
}

func (f *file) transpose4F32() {
	f.transposition("neonTranspose4F32", 4, func() {
		pair := func(op, arrangement string, m, n, d int) {
			f.line("%s V%d.%s, V%d.%s, V%d.%s", op, m, arrangement, n, arrangement, d, arrangement)
		}
		pair("VTRN1", "S4", 1, 0, 4) // columns 0 and 2 of rows 0 and 1
		pair("VTRN2", "S4", 1, 0, 5)
		pair("VTRN1", "S4", 3, 2, 6)
		pair("VTRN2", "S4", 3, 2, 7)
		pair("VTRN1", "D2", 6, 4, 0)
		pair("VTRN1", "D2", 7, 5, 1)
		pair("VTRN2", "D2", 6, 4, 2)
		pair("VTRN2", "D2", 7, 5, 3)
	})
}

func (f *file) transpose2F64() {
	f.transposition("neonTranspose2F64", 2, func() {
		f.line("VTRN1 V1.D2, V0.D2, V2.D2")
		f.line("VTRN2 V1.D2, V0.D2, V1.D2")
		f.line("VORR V2.B16, V2.B16, V0.B16")
	})
}
