package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// countFrom writes a table of the numbers 0 to 15.
func countFrom() {
	GLOBL("mathCount", RODATA|NOPTR)
	for i := range 16 {
		DATA(4*i, U32(uint32(i)))
	}
}

// param returns a parameter of 4 bytes in all lanes.
func (s lanes) param(name string) vec {
	v := s.vector()
	VBROADCASTSS(address(Param(name)), v)
	return v
}

// rotate rotates the bits of 32-bit lanes left.
func (s lanes) rotate(v vec, by uint64) {
	if s.wide {
		VPROLD(Imm(by), v, v)
		return
	}
	right := s.vector()
	VPSRLD(Imm(32-by), v, right)
	VPSLLD(Imm(by), v, v)
	VPOR(right, v, v)
}

// keys writes instructions putting on the stack the numbers that Threefry2x32 adds to both words after
// every four rounds: five pairs of numbers of 4 bytes. It returns their address.
func keys() Mem {
	var k [3]reg.GPVirtual
	for i, name := range []string{"k0", "k1"} {
		k[i] = GP32()
		Load(Param(name), k[i])
	}
	k[2] = GP32()
	MOVL(U32(0x1bd11bda), k[2])
	XORL(k[0], k[2])
	XORL(k[1], k[2])
	table, sum := AllocLocal(40), GP32()
	for i := range 5 {
		MOVL(k[(i+1)%3], table.Offset(8*i))
		LEAL(Mem{Base: k[(i+2)%3].As64(), Disp: i + 1}, sum)
		MOVL(sum, table.Offset(8*i+4))
	}
	return table
}

// threefry writes the function encrypting the counters (hi, lo), (hi, lo+1), … by Threefry2x32, and
// storing the exclusive or of both words. It processes several vectors at once, because every step waits
// for the previous one.
func (s lanes) threefry() {
	TEXT(s.name+"Threefry", NOSPLIT, "func(n int, y *float32, k0, k1, hi, lo uint32)")
	Pragma("noescape")
	Doc(s.name + "Threefry is the random bits of n counters from (hi, lo) upwards, which do not pass 2^32, under the key.")
	n, y := Load(Param("n"), GP64()), Load(Param("y"), GP64())
	table := keys()
	hi, lo := s.param("hi"), s.param("lo")
	VPADDD(s.param("k0"), hi, hi)
	VPADDD(NewDataAddr(Symbol{Name: "mathCount", Static: true}, 0), lo, lo)
	VPADDD(s.param("k1"), lo, lo)
	step, many := s.bytes()/4, 4
	if !s.wide {
		many = 3
	}
	Label("many")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	a, b := make(vs, many), make(vs, many)
	each := func(f func(a, b vec)) {
		for i := range a {
			f(a[i], b[i])
		}
	}
	for i := range a {
		a[i], b[i] = s.vector(), s.vector()
		VMOVAPS(hi, a[i])
		VMOVAPS(lo, b[i])
		VPADDD(s.table.bits(uint32(step)), lo, lo)
	}
	at := GP64()
	XORQ(at, at)
	four := func(by [4]uint64) {
		for _, by := range by {
			each(func(a, b vec) { VPADDD(b, a, a) })
			each(func(_, b vec) { s.rotate(b, by) })
			each(func(a, b vec) {
				if s.wide {
					VPXORD(a, b, b)
				} else {
					VPXOR(a, b, b)
				}
			})
		}
		first, second := s.vector(), s.vector()
		VPBROADCASTD(table.Idx(at, 1), first)
		VPBROADCASTD(table.Offset(4).Idx(at, 1), second)
		each(func(a, b vec) {
			VPADDD(first, a, a)
			VPADDD(second, b, b)
		})
		ADDQ(Imm(8), at)
	}
	Label("rounds") // 20 rounds: four, then four with other rotations, and so on
	four([4]uint64{13, 15, 26, 6})
	CMPQ(at, Imm(40))
	JEQ(LabelRef("encrypted"))
	four([4]uint64{17, 29, 16, 24})
	JMP(LabelRef("rounds"))
	Label("encrypted")
	words := make(vs, many)
	for i := range a {
		words[i] = s.xor(a[i], b[i])
	}
	CMPQ(n, I32(many*step))
	JLT(LabelRef("last"))
	for i, w := range words {
		VMOVUPS(w, Mem{Base: y, Disp: i * s.bytes()})
	}
	ADDQ(I32(many*s.bytes()), y)
	SUBQ(I32(many*step), n)
	JMP(LabelRef("many"))
	Label("last")
	for i, w := range words {
		if i < many-1 {
			next := fmt.Sprintf("whole%d", i)
			CMPQ(n, I32(step))
			JGE(LabelRef(next))
			left := GP64()
			MOVQ(n, left)
			s.put(w, Mem{Base: y}, s.tailOf(left))
			JMP(LabelRef("done"))
			Label(next)
			VMOVUPS(w, Mem{Base: y})
			ADDQ(I32(s.bytes()), y)
			SUBQ(I32(step), n)
			continue
		}
		s.put(w, Mem{Base: y}, s.tailOf(n))
	}
	Label("done")
	VZEROUPPER()
	RET()
}

// uniform writes the function making numbers from lo to lo + span of random bits, like Uniform in package
// random.
func (s lanes) uniform() {
	s = s.halved()
	var lo, low, span vec
	s.loopOf(pointwise{name: "Uniform", doc: "y = max(lo, (bits/2^32)·span + lo) with 23 of x's bits, in float64 rounded once", args: []string{"y", "x"}, more: ", lo, span float32)", long: true,
		before: func() {
			lo = s.param("lo")
			low, _ = s.widened(lo)
			span, _ = s.widened(s.param("span"))
		},
		body: func(x vs) vec {
			u := s.vector()
			VPSRLD(Imm(9), x[0], u)
			u = s.or(s.table.bits(math.Float32bits(1)), u)
			VSUBPS(s.number(1), u, u)
			y := s.doubled(func(x vs) vec { return s.addD(s.mulD(x[0], span), low) })(vs{u})
			return s.op2(VMAXPS, lo, y)
		}})
}

// roundBrain writes the function rounding to bf16 by random bits, like RoundBrain in package random.
func (s lanes) roundBrain() {
	name := s.name + "RoundBrain"
	TEXT(name, NOSPLIT, "func(n int, y *uint16, x *float32, bits *uint32)")
	Pragma("noescape")
	Doc(name + " is the upper halves of x plus 16 random bits each, or a quiet NaN, for n elements, a positive multiple of 16.")
	n, y, x, bits := Load(Param("n"), GP64()), Load(Param("y"), GP64()), Load(Param("x"), GP64()), Load(Param("bits"), GP64())
	Label("loop")
	var z []reg.VecVirtual
	for at := 0; at < 64; at += s.bytes() {
		v, r, low := s.load(Mem{Base: x, Disp: at}), s.words(Mem{Base: bits, Disp: at / 2}), s.vector()
		VPSRLD(Imm(16), v, low)
		nan := s.or(s.table.bits(0x40), low)
		VPADDD(v, r, r)
		VPSRLD(Imm(16), r, r)
		z = append(z, s.blendNaN(v, r, nan))
	}
	if s.wide {
		VPMOVDW(z[0], Mem{Base: y})
	} else {
		VPACKUSDW(z[1], z[0], z[0])
		VPERMQ(Imm(0xd8), z[0], z[0])
		VMOVUPS(z[0], Mem{Base: y})
	}
	ADDQ(Imm(64), x)
	ADDQ(Imm(32), bits)
	ADDQ(Imm(32), y)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// erfinv writes the function √2 times erfinv32, except that products and sums are fused. Weights are
// initialized once, so AVX2 is fast enough.
func (s lanes) erfinv() {
	if s.wide {
		return
	}
	s = s.halved()
	log1p := s.doubled(func(x vs) vec { return s.log1pD(x[0]) })
	near := []float64{2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941}
	far := []float64{-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682}
	s.unary("Normal", "√2·erf⁻¹(x)", 0, func(x vec) vec {
		minus := s.table.bits(1 << 31)
		w := s.xor(minus, log1p(vs{s.xor(minus, s.mul(x, x))}))
		t, root := s.vector(), s.vector()
		VSUBPS(s.number(2.5), w, t)
		VSQRTPS(w, root)
		VSUBPS(s.number(3), root, root)
		small := s.is(less, w, s.number(5))
		t = s.where(small, t, root)
		q := s.where(small, s.number(near[0]), s.load(s.number(far[0])))
		for i := range near[1:] {
			VFMADD213PS(s.where(small, s.number(near[1+i]), s.load(s.number(far[1+i]))), t, q)
		}
		return s.mul(s.number(math.Sqrt2), s.mul(x, q))
	})
}
