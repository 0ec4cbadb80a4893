package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of type vectorArgs in package vector, which checks them.
const (
	argsN       = 0
	argsOut     = 8
	argsIn      = 32
	argsWide    = 64  // the float64 constants
	argsMax     = 144 // 16 float32
	argsSum     = 208 // 16 float64
	argsTotal   = 336
	argsLargest = 344
	argsC       = 348 // the float32 constants
)

// constants is a table with 16 copies of each float32 constant, so that a vector of them can be an
// operand in memory: AVX2 has too few registers for keeping them.
type constants []uint32

func (c *constants) bits(x uint32) Mem {
	at := slices.Index(*c, x)
	if at < 0 {
		at = len(*c)
		*c = append(*c, x)
	}
	return NewDataAddr(Symbol{Name: "vectorConstants", Static: true}, 64*at)
}

// write defines the table, after all functions using it.
func (c constants) write() {
	var table []byte
	for _, x := range c {
		table = append(table, bytes.Repeat(binary.LittleEndian.AppendUint32(nil, x), 16)...)
	}
	data("vectorConstants", table)
}

func (s set) number(x float64) Mem { return s.table.bits(math.Float32bits(float32(x))) }

// load returns a register holding m.
func (s set) load(m Mem) reg.VecVirtual {
	v := s.vector()
	VMOVUPS(m, v)
	return v
}

func (s set) and(x, y Op) reg.VecVirtual {
	z := s.vector()
	if s.wide {
		VPANDD(x, y, z)
	} else {
		VANDPS(x, y, z)
	}
	return z
}

func (s set) or(x, y Op) reg.VecVirtual {
	z := s.vector()
	if s.wide {
		VPORD(x, y, z)
	} else {
		VORPS(x, y, z)
	}
	return z
}

// signed returns neg where x has its sign bit set, and pos elsewhere.
func (s set) signed(x, neg, pos reg.VecVirtual) reg.VecVirtual {
	z := s.vector()
	if s.wide {
		k := K()
		VPTESTMD(s.table.bits(1<<31), x, k)
		VBLENDMPS(neg, pos, k, z)
	} else {
		VBLENDVPS(x, neg, pos, z)
	}
	return z
}

func (s set) mul(x, y Op) reg.VecVirtual {
	z := s.vector()
	VMULPS(x, y, z)
	return z
}

// exp returns e to the power of x. It computes 2ⁿ times a polynomial in r, where x = n log 2 + r.
// The polynomial is expf's in Moshier's Cephes library. Results below the smallest normal number
// are rounded once, like all others.
func (s set) exp(x reg.VecVirtual) reg.VecVirtual {
	y := s.load(s.number(-104)) // exp(-104) is less than half of the smallest number
	VMAXPS(x, y, y)             // x if x is NaN
	high := s.load(s.number(89))
	VMINPS(y, high, y)
	n := s.mul(s.number(math.Log2E), y)
	if s.wide {
		VRNDSCALEPS(Imm(8), n, n)
	} else {
		VROUNDPS(Imm(8), n, n)
	}
	VFNMADD231PS(s.number(0.693359375), n, y) // exact
	VFNMADD231PS(s.number(-2.12194440e-4), n, y)
	q := s.load(s.number(1.9875691500e-4))
	for _, c := range []float64{1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1} {
		VFMADD213PS(s.number(c), y, q)
	}
	VFMADD213PS(y, s.mul(y, y), q)
	VADDPS(s.number(1), q, q)
	if s.wide {
		VSCALEFPS(n, q, q)
		return q
	}
	// 2ⁿ is two factors, each with half of n: only the second product can round, and both factors
	// are normal numbers.
	i, half := s.vector(), s.vector()
	VCVTPS2DQ(n, i)
	VPSRAD(Imm(1), i, half)
	VPSUBD(half, i, i)
	for _, e := range []reg.VecVirtual{half, i} {
		VPADDD(s.table.bits(127), e, e)
		VPSLLD(Imm(23), e, e)
		VMULPS(e, q, q)
	}
	return q
}

// sigmoid returns s = 1/(1 + exp(-x)) and 1-s, both to full precision.
func (s set) sigmoid(x reg.VecVirtual) (y, rest reg.VecVirtual) {
	z := s.exp(s.or(s.table.bits(1<<31), x))
	d, large := s.vector(), s.load(s.number(1))
	VADDPS(large, z, d)
	VDIVPS(d, large, large) // the sigmoid of |x|
	small := s.mul(z, large)
	return s.signed(x, small, large), s.signed(x, large, small)
}

// tanh returns Cephes' tanhf where |x| is below 0.625, and elsewhere (1 - z)/(1 + z) with
// z = exp(-2|x|) and the sign of x.
func (s set) tanh(x reg.VecVirtual) reg.VecVirtual {
	xx := s.mul(x, x)
	q := s.load(s.number(-5.70498872745e-3))
	for _, c := range []float64{2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1} {
		VFMADD213PS(s.number(c), xx, q)
	}
	VFMADD213PS(x, s.mul(xx, x), q)

	negative := s.or(s.table.bits(1<<31), x)
	z := s.exp(s.mul(s.number(2), negative))
	num, den := s.load(s.number(1)), s.vector()
	VADDPS(num, z, den)
	VSUBPS(z, num, num)
	VDIVPS(den, num, num)
	num = s.or(s.and(s.table.bits(1<<31), x), num)

	less := s.load(s.number(-0.625)) // -0.625 - (-|x|) is below 0 where |x| is small
	VSUBPS(negative, less, less)
	return s.signed(less, q, num)
}

// slope returns silu's derivative where the sigmoid is y and rest = 1-y.
func (s set) slope(x, y, rest reg.VecVirtual) reg.VecVirtual {
	z := s.load(s.number(1))
	VFMADD231PS(x, rest, z)
	VMULPS(z, y, z)
	return z
}

// loop writes a function of one argument, a vectorArgs. A round of its loop processes `round` bytes
// of each slice. body writes the instructions for `step` bytes of these.
func (s set) loop(name, doc string, outs, ins, step, round int, before func(t reg.Register), body func(out, in []Mem, part int), after func(t reg.Register)) {
	name = s.name + name
	TEXT(name, NOSPLIT, "func(t *byte)")
	Pragma("noescape")
	Doc(name + " is " + doc + ".")
	t := Load(Param("t"), GP64())
	n, at := field(t, argsN), GP64()
	SHLQ(Imm(2), n)
	XORQ(at, at)
	out, in := make([]Mem, outs), make([]Mem, ins)
	for i := range out {
		out[i] = Mem{Base: field(t, argsOut+8*i), Index: at, Scale: 1}
	}
	for i := range in {
		in[i] = Mem{Base: field(t, argsIn+8*i), Index: at, Scale: 1}
	}
	if before != nil {
		before(t)
	}
	Label("loop")
	for part := range round / step {
		o, x := append([]Mem(nil), out...), append([]Mem(nil), in...)
		for _, m := range [][]Mem{o, x} {
			for i := range m {
				m[i] = m[i].Offset(part * step)
			}
		}
		body(o, x, part)
	}
	ADDQ(Imm(uint64(round)), at)
	CMPQ(at, n)
	JLT(LabelRef("loop"))
	if after != nil {
		after(t)
	}
	VZEROUPPER()
	RET()
}

// each writes a loop applying f to every element.
func (s set) each(name, doc string, outs, ins int, f func(x []reg.VecVirtual) []reg.VecVirtual) {
	s.loop(name, doc, outs, ins, s.bytes(), s.bytes(), nil, func(out, in []Mem, _ int) {
		var x []reg.VecVirtual
		for _, m := range in {
			x = append(x, s.load(m))
		}
		for i, y := range f(x) {
			VMOVUPS(y, out[i])
		}
	}, nil)
}

func (s set) elementwise() {
	type vs = []reg.VecVirtual
	s.each("Exp", "y = exp(x)", 1, 1, func(x vs) vs { return vs{s.exp(x[0])} })
	s.each("Tanh", "y = tanh(x)", 1, 1, func(x vs) vs { return vs{s.tanh(x[0])} })
	s.each("Logistic", "y = 1/(1 + exp(-x))", 1, 1, func(x vs) vs {
		y, _ := s.sigmoid(x[0])
		return vs{y}
	})
	s.each("SiLU", "y = x·logistic(x)", 1, 1, func(x vs) vs {
		y, _ := s.sigmoid(x[0])
		return vs{s.mul(x[0], y)}
	})
	s.each("SiLUGrad", "dx = ct·silu'(x)", 1, 2, func(x vs) vs {
		y, rest := s.sigmoid(x[0])
		return vs{s.mul(x[1], s.slope(x[0], y, rest))}
	})
	s.each("SwiGLU", "y = silu(gate)·up", 1, 2, func(x vs) vs {
		y, _ := s.sigmoid(x[0])
		return vs{s.mul(x[1], s.mul(x[0], y))}
	})
	s.each("SwiGLUGrad", "dgate = ct·up·silu'(gate), dup = ct·silu(gate)", 2, 3, func(x vs) vs {
		y, rest := s.sigmoid(x[0])
		return vs{s.mul(s.mul(x[2], x[1]), s.slope(x[0], y, rest)), s.mul(x[2], s.mul(x[0], y))}
	})
}

// c returns constant i of the arguments, a float32, in all lanes.
func (s set) c(t reg.Register, i int) reg.VecVirtual {
	v := s.vector()
	VBROADCASTSS(Mem{Base: t, Disp: argsC + 4*i}, v)
	return v
}

// max writes the function finding the largest of args.max and x, for each lane and of all lanes. It
// skips NaN.
func (s set) max() {
	var top []reg.VecVirtual
	s.loop("Max", "the largest by lane", 0, 1, s.bytes(), 64, func(t reg.Register) {
		for at := 0; at < 64; at += s.bytes() {
			top = append(top, s.load(Mem{Base: t, Disp: argsMax + at}))
		}
	}, func(_, in []Mem, part int) {
		VMAXPS(top[part], s.load(in[0]), top[part])
	}, func(t reg.Register) {
		for i, v := range top {
			VMOVUPS(v, Mem{Base: t, Disp: argsMax + i*s.bytes()})
		}
		y := top[0].AsY()
		if s.wide {
			high := YMM()
			VEXTRACTF64X4(Imm(1), top[0], high)
			VMAXPS(high, y, y)
		} else {
			VMAXPS(top[1], y, y)
		}
		x, high := XMM(), XMM()
		VEXTRACTF128(Imm(0), y, x)
		VEXTRACTF128(Imm(1), y, high)
		VMAXPS(high, x, x)
		VPERMILPS(Imm(0x4e), x, high)
		VMAXPS(high, x, x)
		VPERMILPS(Imm(0xb1), x, high)
		VMAXPS(high, x, x)
		VMOVSS(x, Mem{Base: t, Disp: argsLargest})
	})
}

// expSum writes the function setting y = exp(x - c0), if store is set, and adding it in float64 to
// args.sum, lane by lane. Then it adds the lanes to the total: first lanes 8 apart, then 4, 2 and 1
// apart.
func (s set) expSum(name, doc string, store bool) {
	outs := 0
	if store {
		outs = 1
	}
	var shift reg.VecVirtual
	var sums []reg.VecVirtual
	s.loop(name, doc, outs, 1, s.bytes(), 64, func(t reg.Register) {
		shift = s.c(t, 0)
		for at := 0; at < 128; at += s.bytes() {
			sums = append(sums, s.load(Mem{Base: t, Disp: argsSum + at}))
		}
	}, func(out, in []Mem, part int) {
		x := s.load(in[0])
		VSUBPS(shift, x, x)
		y := s.exp(x)
		if store {
			VMOVUPS(y, out[0])
		}
		low, high := s.vector(), s.vector()
		if s.wide {
			half := YMM()
			VEXTRACTF64X4(Imm(1), y, half)
			VCVTPS2PD(half, high)
			VCVTPS2PD(y.AsY(), low)
		} else {
			half := XMM()
			VEXTRACTF128(Imm(1), y, half)
			VCVTPS2PD(half, high)
			VCVTPS2PD(y.AsX(), low)
		}
		VADDPD(low, sums[2*part], sums[2*part])
		VADDPD(high, sums[2*part+1], sums[2*part+1])
	}, func(t reg.Register) {
		for i, v := range sums {
			VMOVUPS(v, Mem{Base: t, Disp: argsSum + i*s.bytes()})
		}
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
		VMOVSD(x, Mem{Base: t, Disp: argsTotal})
	})
}

// widen loads float32 as float64, and narrow stores float64 as float32.
func (s set) widen(m Mem) reg.VecVirtual {
	v := s.vector()
	VCVTPS2PD(m, v)
	return v
}

func (s set) narrow(v reg.VecVirtual, m Mem) {
	if s.wide {
		y := YMM()
		VCVTPD2PS(v, y)
		VMOVUPS(y, m)
		return
	}
	x := XMM()
	VCVTPD2PSY(v, x)
	VMOVUPS(x, m)
}

// scaled writes the function y = x·c, computed in float64.
func (s set) scaled() {
	c := s.vector()
	s.loop("Scaled", "y = x·c in float64", 1, 1, s.bytes()/2, s.bytes()/2, func(t reg.Register) {
		VBROADCASTSD(Mem{Base: t, Disp: argsWide}, c)
	}, func(out, in []Mem, _ int) {
		x := s.widen(in[0])
		VMULPD(c, x, x)
		s.narrow(x, out[0])
	}, nil)
}

// addScaled writes the function y = sum + x·c0, rounded twice.
func (s set) addScaled() {
	var c reg.VecVirtual
	s.loop("AddScaled", "y = sum + x·c0, rounded twice", 1, 2, s.bytes(), s.bytes(), func(t reg.Register) { c = s.c(t, 0) }, func(out, in []Mem, _ int) {
		x, sum := s.mul(in[1], c), s.load(in[0])
		VADDPS(x, sum, sum)
		VMOVUPS(sum, out[0])
	}, nil)
}

// adamw writes AdamW's update in float64, operation by operation as in Go.
func (s set) adamw() {
	var from reg.Register
	const b1, a1, b2, a2, scale, c1, c2, eps, decay, lr = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
	k := func(i int) reg.VecVirtual {
		v := s.vector()
		VBROADCASTSD(Mem{Base: from, Disp: argsWide + 8*i}, v)
		return v
	}
	s.loop("AdamW", "AdamW's update in float64", 3, 4, s.bytes()/2, s.bytes()/2, func(t reg.Register) { from = t }, func(out, in []Mem, _ int) {
		g := s.widen(in[3])
		VMULPD(k(scale), g, g)
		m, v, y := s.widen(in[1]), s.widen(in[2]), s.vector()
		VMULPD(k(b1), m, m)
		VMULPD(k(a1), g, y)
		VADDPD(y, m, m)
		VMULPD(k(b2), v, v)
		VMULPD(k(a2), g, y)
		VMULPD(g, y, y)
		VADDPD(y, v, v)
		x, root := s.widen(in[0]), s.vector()
		s.narrow(m, out[1])
		s.narrow(v, out[2])
		VDIVPD(k(c2), v, root)
		VSQRTPD(root, root)
		VADDPD(k(eps), root, root)
		VDIVPD(k(c1), m, m)
		VDIVPD(root, m, m)
		VMULPD(k(decay), x, y)
		VADDPD(y, m, m)
		VMULPD(k(lr), m, m)
		VSUBPD(m, x, x)
		s.narrow(x, out[0])
	}, nil)
}

func (s set) vectors() {
	s.elementwise()
	s.max()
	s.expSum("ExpSum", "y = exp(x - c0), with the sums by lane", true)
	s.expSum("ExpTotal", "the sums of exp(x - c0) by lane", false)
	s.scaled()
	s.addScaled()
	s.adamw()
}
