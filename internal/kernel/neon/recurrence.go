package main

// Offsets of the fields of type rowArgs in package recurrence, which checks them.
const (
	rowN     = 0 // rows of the state, and its stride in bytes
	rowState = 16
	rowKey   = 32
	rowReads = 48
	rowRead  = 64
	rowStep  = 80 // between the factors of two rows, in bytes
	rowRate  = 88
)

// recurrence writes the step of a linear recurrence for 16 columns of its state.
func (f *file) recurrence() {
	const vecs = 4
	const n, stride, state, factors, key, query, reads, value, read, out, step = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
	const u, o, r, v, one = 0, 4, 8, 12, 16 // registers of vectors, 4 each
	three := func(op string, d, n, m int) { f.line("%v", encodeThree(op, s4, d, n, m)) }
	f.function("neonRow", "is u = rate·(value - read), state = factors·state + key·u, out = query·state, read = reads·state", "t *byte")
	f.line("LDP %d(R0), (R%d, R%d)", rowN, n, stride)
	f.line("LDP %d(R0), (R%d, R%d)", rowState, state, factors)
	f.line("LDP %d(R0), (R%d, R%d)", rowKey, key, query)
	f.line("LDP %d(R0), (R%d, R%d)", rowReads, reads, value)
	f.line("LDP %d(R0), (R%d, R%d)", rowRead, read, out)
	f.line("MOVD %d(R0), R%d", rowStep, step)
	f.line("ADD $%d, R0", rowRate)
	f.line("VLD1R (R0), [V%d.S4]", one)
	f.loads(vecs*vectorBytes, value, u, false)
	f.loads(vecs*vectorBytes, read, r, false)
	for i := range vecs {
		three("fsub", u+i, u+i, r+i)
		three("fmul", u+i, u+i, one)
		f.line("VEOR V%d.B16, V%d.B16, V%d.B16", o+i, o+i, o+i)
		f.line("VEOR V%d.B16, V%d.B16, V%d.B16", r+i, r+i, r+i)
	}
	f.loop("loop")
	f.line("VLD1R (R%d), [V%d.S4]", factors, one)
	f.line("ADD R%d, R%d", step, factors)
	for i, base := range []int{key, query, reads} {
		f.line("VLD1R.P 4(R%d), [V%d.S4]", base, one+1+i)
	}
	f.loads(vecs*vectorBytes, state, v, false)
	for i := range vecs {
		three("fmul", v+i, v+i, one)
		three("fmla", v+i, u+i, one+1)
		three("fmla", o+i, v+i, one+2)
		three("fmla", r+i, v+i, one+3)
	}
	f.stores(vecs, state, v)
	f.line("ADD R%d, R%d", stride, state)
	f.line("SUBS $1, R%d, R%d", n, n)
	f.line("BNE loop")
	f.stores(vecs, out, o)
	f.stores(vecs, read, r)
	f.line("RET")
}
