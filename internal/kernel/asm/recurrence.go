package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of type rowArgs in package recurrence, which checks them.
const (
	rowN       = 0 // rows of the state
	rowStride  = 8 // of the state, in bytes
	rowState   = 16
	rowFactors = 24
	rowKey     = 32
	rowQuery   = 40
	rowReads   = 48
	rowValue   = 56
	rowRead    = 64
	rowOut     = 72
	rowStep    = 80 // between the factors of two rows, in bytes
	rowRate    = 88
)

// recurrence writes the step of a linear recurrence for the columns of two vectors of its state.
func recurrence() {
	for _, s := range []set{{name: "avx512", size: 4, wide: true}, {name: "avx2", size: 4}} {
		s.recurrenceRow()
	}
}

func (s set) recurrenceRow() {
	const vecs = 2
	onWork(s.name + "Row")
	Doc(s.name + "Row is u = rate·(value - read), state = factors·state + key·u, out = query·state, read = reads·state.")
	t := Load(Param("t"), GP64())
	n, stride, state := field(t, rowN), field(t, rowStride), field(t, rowState)
	factors, key, query, reads := field(t, rowFactors), field(t, rowKey), field(t, rowQuery), field(t, rowReads)
	value, read, out, step := field(t, rowValue), field(t, rowRead), field(t, rowOut), field(t, rowStep)
	broadcast := func(m Mem) reg.VecVirtual {
		v := s.vector()
		VBROADCASTSS(m, v)
		return v
	}
	at := func(base reg.GPVirtual, i int) Mem { return Mem{Base: base, Disp: i * s.bytes()} }
	var u, o, r [vecs]reg.VecVirtual
	rate := broadcast(Mem{Base: t, Disp: rowRate})
	for i := range vecs {
		u[i], o[i], r[i] = s.load(at(value, i)), s.zero(), s.zero()
		VSUBPS(at(read, i), u[i], u[i])
		VMULPS(rate, u[i], u[i])
	}
	row := GP64()
	XORQ(row, row)
	Label("row")
	of := func(base reg.GPVirtual) reg.VecVirtual { return broadcast(Mem{Base: base, Index: row, Scale: 4}) }
	f, k, q, x := broadcast(Mem{Base: factors}), of(key), of(query), of(reads)
	for i := range vecs {
		v := s.vector()
		VMULPS(at(state, i), f, v)
		VFMADD231PS(k, u[i], v)
		VMOVUPS(v, at(state, i))
		VFMADD231PS(q, v, o[i])
		VFMADD231PS(x, v, r[i])
	}
	ADDQ(stride, state)
	ADDQ(step, factors)
	INCQ(row)
	CMPQ(row, n)
	JLT(LabelRef("row"))
	for i := range vecs {
		VMOVUPS(o[i], at(out, i))
		VMOVUPS(r[i], at(read, i))
	}
	VZEROUPPER()
	RET()
}
