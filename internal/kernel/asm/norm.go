package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of type normArgs in package norm, which checks them.
const (
	normRows  = 0
	normN     = 8 // elements of a row: a positive multiple of 16
	normX     = 16
	normGain  = 24
	normBias  = 32
	normCt    = 40
	normY     = 48
	normMean  = 56
	normInv   = 64
	normStep  = 72 // stride of the means in bytes
	normEps   = 80
	normCount = 88 // N, in float64
	normPitch = 96 // row stride of x, ct and y in bytes
)

// normLoop is a loop over rows of float32 computing in float64.
type normLoop struct {
	set
	name  string
	t     reg.Register
	bytes reg.GPVirtual // the bytes of a row
	at    map[int]reg.GPVirtual
	loops int
}

// normLoop writes a function of one argument, a normArgs. body writes the instructions for a row.
// The pointers in the fields `rows` advance by a row after each; the pointers in `once` do not.
func (s set) normLoop(name, doc string, rows, once []int, body func(l *normLoop)) {
	name = s.name + name
	onWork(name)
	Doc(name + " is " + doc + ".")
	l := &normLoop{set: s, name: name, t: Load(Param("t"), GP64()), at: map[int]reg.GPVirtual{}}
	l.bytes = field(l.t, normN)
	SHLQ(Imm(2), l.bytes)
	for _, f := range append(append([]int(nil), rows...), once...) {
		l.at[f] = field(l.t, f)
	}
	left := field(l.t, normRows)
	Label("row")
	body(l)
	for _, f := range rows {
		ADDQ(Mem{Base: l.t, Disp: normPitch}, l.at[f])
	}
	DECQ(left)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// each writes a loop over the vectors of a row. In body, load returns a vector of a field as
// float64, `to` returns the address of a vector of a field, and part is the index of the vector
// within 16 elements.
func (l *normLoop) each(body func(load func(field int) reg.VecVirtual, to func(field int) Mem, part int)) {
	at, label := GP64(), fmt.Sprintf("vector%d", l.loops)
	l.loops++
	XORQ(at, at)
	Label(label)
	step := l.set.bytes() / 2
	for part := range 64 / step {
		mem := func(f int) Mem { return Mem{Base: l.at[f], Index: at, Scale: 1, Disp: part * step} }
		body(func(f int) reg.VecVirtual { return l.widen(mem(f)) }, mem, part)
	}
	ADDQ(Imm(64), at)
	CMPQ(at, l.bytes)
	JLT(LabelRef(label))
}

// sums returns registers for 16 sums, initially 0.
func (l *normLoop) sums() []reg.VecVirtual {
	var sums []reg.VecVirtual
	for range 128 / l.set.bytes() {
		sums = append(sums, l.zero())
	}
	return sums
}

// total returns the sum of 16 lanes, adding lanes 8 apart first, then 4, 2 and 1 apart.
func (s set) total(sums []reg.VecVirtual) reg.VecVirtual {
	for apart := len(sums) / 2; apart > 0; apart /= 2 {
		for i := range apart {
			VADDPD(sums[i+apart], sums[i], sums[i])
		}
	}
	y := sums[0].AsY()
	if s.wide {
		high := YMM()
		VEXTRACTF64X4(Imm(1), sums[0], high)
		VADDPD(high, y, y)
	}
	x, high := XMM(), XMM()
	VEXTRACTF128(Imm(0), y, x)
	VEXTRACTF128(Imm(1), y, high)
	VADDPD(high, x, x)
	VPERMILPD(Imm(1), x, high)
	VADDPD(high, x, x)
	return x
}

func (l *normLoop) wide64(x reg.VecVirtual) reg.VecVirtual {
	v := l.vector()
	VBROADCASTSD(x.AsX(), v)
	return v
}

func mul64(x, y Op, z reg.VecVirtual) reg.VecVirtual { VMULPD(y, x, z); return z }

// inverse returns 1/√(squares/N + eps) in the lowest lane.
func (l *normLoop) inverse(squares reg.VecVirtual) reg.VecVirtual {
	one, bits := XMM(), GP64()
	VDIVSD(Mem{Base: l.t, Disp: normCount}, squares, squares)
	VADDSD(Mem{Base: l.t, Disp: normEps}, squares, squares)
	VSQRTSD(squares, squares, squares)
	MOVQ(U64(0x3ff0000000000000), bits)
	VMOVQ(bits, one)
	VDIVSD(squares, one, one)
	return one
}

// moments returns the mean and 1/√(variance + eps), in the lowest lanes.
func (l *normLoop) moments() (mean, inv reg.VecVirtual) {
	sums := l.sums()
	l.each(func(load func(int) reg.VecVirtual, _ func(int) Mem, part int) {
		VADDPD(load(normX), sums[part], sums[part])
	})
	mean = l.total(sums)
	VDIVSD(Mem{Base: l.t, Disp: normCount}, mean, mean)
	m, squares := l.wide64(mean), l.sums()
	l.each(func(load func(int) reg.VecVirtual, _ func(int) Mem, part int) {
		x := load(normX)
		VSUBPD(m, x, x)
		VADDPD(mul64(x, x, x), squares[part], squares[part])
	})
	return mean, l.inverse(l.total(squares))
}

// factor returns dot·(inv·inv/N) in all lanes.
func (l *normLoop) factor(dot, inv reg.VecVirtual) reg.VecVirtual {
	k := XMM()
	VMULSD(inv, inv, k)
	VDIVSD(Mem{Base: l.t, Disp: normCount}, k, k)
	VMULSD(k, dot, dot)
	return l.wide64(dot)
}

// put writes x to the array of field f, having one element for each row.
func (l *normLoop) put(x reg.VecVirtual, f int) {
	VMOVSD(x.AsX(), Mem{Base: l.at[f]})
	ADDQ(Imm(8), l.at[f])
}

type (
	loadFunc = func(int) reg.VecVirtual
	memFunc  = func(int) Mem
)

func (s set) rmsLoops() {
	square := func(l *normLoop) reg.VecVirtual {
		squares := l.sums()
		l.each(func(load loadFunc, _ memFunc, part int) {
			x := load(normX)
			VADDPD(mul64(x, x, x), squares[part], squares[part])
		})
		return l.inverse(l.total(squares))
	}
	s.normLoop("RMSNorm", "y = x·inv·gain", []int{normX, normY}, []int{normGain}, func(l *normLoop) {
		inv := l.wide64(square(l))
		l.each(func(load loadFunc, to memFunc, _ int) {
			x := load(normX)
			mul64(x, inv, x)
			s.narrow(mul64(x, load(normGain), x), to(normY))
		})
	})
	s.normLoop("RMSInverse", "inv = 1/√(mean(x²) + eps)", []int{normX}, []int{normInv}, func(l *normLoop) { l.put(square(l), normInv) })
	s.normLoop("RMSNormGrad", "rms_norm's cotangent of x", []int{normX, normCt, normY}, []int{normGain}, func(l *normLoop) {
		squares, dots := l.sums(), l.sums()
		l.each(func(load loadFunc, _ memFunc, part int) {
			x, g := load(normX), load(normCt)
			mul64(g, load(normGain), g)
			VADDPD(mul64(g, x, g), dots[part], dots[part])
			VADDPD(mul64(x, x, x), squares[part], squares[part])
		})
		one := l.inverse(l.total(squares))
		inv, dot := l.wide64(one), l.factor(l.total(dots), one)
		l.each(func(load loadFunc, to memFunc, _ int) {
			x, g := load(normX), load(normCt)
			mul64(g, load(normGain), g)
			VSUBPD(mul64(x, dot, x), g, g)
			s.narrow(mul64(g, inv, g), to(normY))
		})
	})
}

func (s set) layerLoops() {
	s.normLoop("LayerNorm", "y = (x - mean)·inv·gain + bias", []int{normX, normY}, []int{normGain, normBias}, func(l *normLoop) {
		m, i := l.moments()
		mean, inv := l.wide64(m), l.wide64(i)
		l.each(func(load loadFunc, to memFunc, _ int) {
			x := load(normX)
			VSUBPD(mean, x, x)
			mul64(x, inv, x)
			mul64(x, load(normGain), x)
			VADDPD(load(normBias), x, x)
			s.narrow(x, to(normY))
		})
	})
	s.normLoop("Moments", "the mean of x and 1/√(variance + eps)", []int{normX}, []int{normMean, normInv}, func(l *normLoop) {
		mean, inv := l.moments()
		l.put(mean, normMean)
		l.put(inv, normInv)
	})
	s.normLoop("LayerNormGrad", "layer_norm's cotangent of x", []int{normX, normCt, normY}, []int{normGain}, func(l *normLoop) {
		m, one := l.moments()
		mean, sums, dots := l.wide64(m), l.sums(), l.sums()
		l.each(func(load loadFunc, _ memFunc, part int) {
			x, g := load(normX), load(normCt)
			mul64(g, load(normGain), g)
			VADDPD(g, sums[part], sums[part])
			VSUBPD(mean, x, x)
			VADDPD(mul64(g, x, g), dots[part], dots[part])
		})
		sum := l.total(sums)
		VDIVSD(Mem{Base: l.t, Disp: normCount}, sum, sum)
		dot := l.factor(l.total(dots), one)
		all, inv := l.wide64(sum), l.wide64(one)
		l.each(func(load loadFunc, to memFunc, _ int) {
			x, g := load(normX), load(normCt)
			mul64(g, load(normGain), g)
			VSUBPD(all, g, g)
			VSUBPD(mean, x, x)
			VSUBPD(mul64(x, dot, x), g, g)
			s.narrow(mul64(g, inv, g), to(normY))
		})
	})
}

// columnSums writes the functions adding rows to the float64 sums in y.
func (s set) columnSums() {
	sum := func(l *normLoop, addend func(load loadFunc) reg.VecVirtual) {
		l.each(func(load loadFunc, to memFunc, _ int) {
			m := to(normY)
			m.Index, m.Scale, m.Disp = to(normCt).Index, 2, 2*m.Disp
			x := addend(load)
			VADDPD(m, x, x)
			VMOVUPD(x, m)
		})
	}
	s.normLoop("AddGain", "y += ct·(x - mean)·inv", []int{normX, normCt}, []int{normY, normMean, normInv}, func(l *normLoop) {
		mean, inv := l.vector(), l.vector()
		VBROADCASTSD(Mem{Base: l.at[normMean]}, mean)
		VBROADCASTSD(Mem{Base: l.at[normInv]}, inv)
		sum(l, func(load loadFunc) reg.VecVirtual {
			x, c := load(normX), load(normCt)
			VSUBPD(mean, x, x)
			mul64(c, x, c)
			return mul64(c, inv, c)
		})
		ADDQ(Mem{Base: l.t, Disp: normStep}, l.at[normMean])
		ADDQ(Imm(8), l.at[normInv])
	})
	s.normLoop("AddBias", "y += ct", []int{normCt}, []int{normY}, func(l *normLoop) {
		sum(l, func(load loadFunc) reg.VecVirtual { return load(normCt) })
	})
}

// rope writes the function rotating pairs. The fields have other meanings here: it rotates pairs of
// x and ct to pairs of y and gain; mean points to cosines and inv to sines, which are multiplied by
// count.
func (s set) rope() {
	s.normLoop("Rope", "rows of two halves, x and ct, turned by angles", []int{normX, normCt, normY, normGain}, []int{normMean, normInv}, func(l *normLoop) {
		sign := l.vector()
		VBROADCASTSD(Mem{Base: l.t, Disp: normCount}, sign)
		l.each(func(load loadFunc, to memFunc, _ int) {
			angle := func(f int) Mem {
				m := to(f)
				m.Scale, m.Disp = 2, 2*m.Disp
				return m
			}
			cos, sin := l.vector(), l.vector()
			VMOVUPD(angle(normMean), cos)
			mul64(sign, angle(normInv), sin)
			x1, x2, y := load(normX), load(normCt), l.vector()
			mul64(x1, cos, y)
			z := mul64(x2, sin, l.vector())
			VSUBPD(z, y, y)
			s.narrow(y, to(normY))
			mul64(x2, cos, x2)
			mul64(x1, sin, x1)
			VADDPD(x1, x2, x2)
			s.narrow(x2, to(normGain))
		})
	})
}

func (s set) norms() {
	s.rmsLoops()
	s.layerLoops()
	s.columnSums()
	s.rope()
}
