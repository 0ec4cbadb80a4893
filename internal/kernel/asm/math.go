package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// lanes holds the instructions of one set for float32, and for float64 after widening float32.
type lanes struct {
	set
	doubles *doubles
	half    bool // uses only the lower half of a vector of float32: as many lanes as a vector of float64
}

// doubles holds 8 copies of each float64 constant, as constants does for float32.
type doubles []uint64

func (c *doubles) bits(x uint64) Mem {
	at := slices.Index(*c, x)
	if at < 0 {
		at = len(*c)
		*c = append(*c, x)
	}
	return NewDataAddr(Symbol{Name: "mathDoubles", Static: true}, 64*at)
}

func (c doubles) write() {
	var table []byte
	for _, x := range c {
		table = append(table, bytes.Repeat(binary.LittleEndian.AppendUint64(nil, x), 8)...)
	}
	data("mathDoubles", table)
}

func (s lanes) double(x float64) Mem { return s.doubles.bits(math.Float64bits(x)) }

// tailMasks writes 8 words of ones followed by 8 of zeros. For AVX2, the mask of the first n lanes
// starts n words before the zeros.
func tailMasks() {
	GLOBL("mathTails", RODATA|NOPTR)
	for i := range 16 {
		DATA(4*i, U32(math.MaxUint32*(1-i/8)))
	}
}

type (
	vec = reg.VecVirtual
	vs  = []reg.VecVirtual
)

// mask holds a condition for every lane.
type mask struct {
	k reg.OpmaskVirtual // with AVX-512
	v vec               // with AVX2, in the sign bits
}

// Predicates of comparisons. Those whose names begin with "not" are true for NaN.
const (
	equal      = 0
	less       = 1
	unordered  = 3
	notAtLeast = 9
	atLeast    = 13
	greater    = 14
)

// zero returns a vector of zeros, using an instruction known to the register allocator as reading
// nothing.
func (s lanes) zero() vec {
	v := s.vector()
	VPSUBD(v, v, v)
	return v
}

// is returns the mask of the lanes satisfying `x predicate y`, for float32.
func (s lanes) is(predicate uint8, x, y Op) mask {
	if s.wide {
		k := K()
		VCMPPS(Imm(uint64(predicate)), y, x, k)
		return mask{k: k}
	}
	v := YMM()
	VCMPPS(Imm(uint64(predicate)), y, x, v)
	return mask{v: v}
}

// isD is `is` for float64.
func (s lanes) isD(predicate uint8, x, y Op) mask {
	if s.wide {
		k := K()
		VCMPPD(Imm(uint64(predicate)), y, x, k)
		return mask{k: k}
	}
	v := YMM()
	VCMPPD(Imm(uint64(predicate)), y, x, v)
	return mask{v: v}
}

// where returns yes where m holds, and no elsewhere, of float32.
func (s lanes) where(m mask, yes Op, no vec) vec {
	z := s.vector()
	if s.wide { // not VBLENDMPS: the allocator takes its result for an argument
		VMOVAPS(no, z)
		VMOVUPS(yes, m.k, z)
	} else {
		VBLENDVPS(m.v, yes, no, z)
	}
	return z
}

// whereD is where for float64.
func (s lanes) whereD(m mask, yes Op, no vec) vec {
	z := s.vector()
	if s.wide { // not VBLENDMPD: the allocator takes its result for an argument
		VMOVAPD(no, z)
		VMOVUPD(yes, m.k, z)
	} else {
		VBLENDVPD(m.v, yes, no, z)
	}
	return z
}

// signD returns the mask of the sign bits of 64-bit lanes.
func (s lanes) signD(v vec) mask {
	if s.wide {
		k := K()
		VPTESTMQ(s.doubles.bits(1<<63), v, k)
		return mask{k: k}
	}
	return mask{v: v}
}

// either returns the mask of the lanes where a or b holds.
func (s lanes) either(a, b mask) mask {
	if s.wide {
		k := K()
		KORW(a.k, b.k, k)
		return mask{k: k}
	}
	v := YMM()
	VORPS(a.v, b.v, v)
	return mask{v: v}
}

func (s lanes) xor(x, y Op) vec {
	z := s.vector()
	if s.wide {
		VPXORD(x, y, z)
	} else {
		VXORPS(x, y, z)
	}
	return z
}

// op2 returns f(x, y), where f is an instruction; its second operand is the first argument.
func (s lanes) op2(f func(ops ...Op), x, y Op) vec {
	z := s.vector()
	f(y, x, z)
	return z
}

// tail marks the lanes of the last vector that are elements.
type tail struct{ mask }

// newTail returns a tail to be set by setTail.
func (s lanes) newTail() *tail {
	if s.wide {
		return &tail{mask{k: K()}}
	}
	return &tail{mask{v: YMM()}}
}

// setTail makes t the first n lanes. It overwrites n.
func (s lanes) setTail(t *tail, n reg.Register) {
	if s.wide {
		bits := GP64()
		MOVQ(n, reg.RCX)
		MOVQ(U32(1), bits)
		SHLQ(reg.CL, bits)
		DECQ(bits)
		KMOVW(bits.As32(), t.k)
		return
	}
	at := GP64()
	LEAQ(NewDataAddr(Symbol{Name: "mathTails", Static: true}, 32), at)
	SHLQ(Imm(2), n)
	SUBQ(n, at)
	VMOVUPS(Mem{Base: at}, t.v)
}

func (s lanes) tailOf(n reg.Register) *tail {
	t := s.newTail()
	s.setTail(t, n)
	return t
}

// get loads the lanes that are elements, filling the others with zeros. If t is nil, all are
// elements.
func (s lanes) get(m Mem, t *tail) vec {
	v := s.vector()
	s.getInto(m, t, v)
	return v
}

func (s lanes) getInto(m Mem, t *tail, v vec) {
	switch {
	case t == nil:
		VMOVUPS(m, v)
	case s.wide:
		VMOVUPS_Z(m, t.k, v)
	default:
		VMASKMOVPS(m, t.v, v)
	}
}

func (s lanes) put(v vec, m Mem, t *tail) {
	switch {
	case t == nil:
		VMOVUPS(v, m)
	case s.wide:
		VMOVUPS(v, t.k, m)
	default:
		VMASKMOVPS(v, t.v, m)
	}
}

// widened returns the lower and the upper half of float32 as float64.
func (s lanes) widened(x vec) (low, high vec) {
	low, high = s.vector(), s.vector()
	if s.wide {
		half := YMM()
		VEXTRACTF64X4(Imm(1), x, half)
		VCVTPS2PD(half, high)
		VCVTPS2PD(x.AsY(), low)
	} else {
		half := XMM()
		VEXTRACTF128(Imm(1), x, half)
		VCVTPS2PD(half, high)
		VCVTPS2PD(x.AsX(), low)
	}
	return low, high
}

// narrowed returns both halves rounded to float32, or only the lower one if high is nil.
func (s lanes) narrowed(low, high vec) vec {
	z := s.zero() // so that the allocator sees all of it written
	if high == nil {
		if s.wide {
			VCVTPD2PS(low, z.AsY())
		} else {
			VCVTPD2PSY(low, z.AsX())
		}
		return z
	}
	if s.wide {
		h := YMM()
		VCVTPD2PS(low, z.AsY())
		VCVTPD2PS(high, h)
		VINSERTF64X4(Imm(1), h, z, z)
	} else {
		h := XMM()
		VCVTPD2PSY(low, z.AsX())
		VCVTPD2PSY(high, h)
		VINSERTF128(Imm(1), h, z, z)
	}
	return z
}

// doubled returns the function of float32 computing f in float64 and rounding once.
func (s lanes) doubled(f func(x vs) vec) func(x vs) vec {
	if s.half {
		return func(x vs) vec {
			var low vs
			for _, x := range x {
				v := s.vector()
				if s.wide {
					VCVTPS2PD(x.AsY(), v)
				} else {
					VCVTPS2PD(x.AsX(), v)
				}
				low = append(low, v)
			}
			return s.narrowed(f(low), nil)
		}
	}
	return func(x vs) vec {
		var low, high vs
		for _, x := range x {
			l, h := s.widened(x)
			low, high = append(low, l), append(high, h)
		}
		return s.narrowed(f(low), f(high))
	}
}

// arithmetic writes the operations defined by IEEE 754. Their bits are the same as Go's.
func (s lanes) arithmetic() {
	s.binary("Add", "x + y", 4, func(x, y vec) vec { return s.op2(VADDPS, x, y) })
	s.binary("Sub", "x - y", 4, func(x, y vec) vec { return s.op2(VSUBPS, x, y) })
	s.binary("Mul", "x·y", 4, func(x, y vec) vec { return s.op2(VMULPS, x, y) })
	s.binary("Div", "x/y", 0, func(x, y vec) vec { return s.op2(VDIVPS, x, y) })
	s.binary("Maximum", "max(x, y)", 0, s.max)
	s.unary("Neg", "-x", 0, func(x vec) vec { return s.xor(s.table.bits(1<<31), x) })
	s.unary("Abs", "|x|", 0, func(x vec) vec { return s.and(s.table.bits(1<<31-1), x) })
	s.unary("Square", "x²", 0, func(x vec) vec { return s.op2(VMULPS, x, x) })
	s.unary("Sqrt", "√x", 0, func(x vec) vec {
		y := s.vector()
		VSQRTPS(x, y)
		return y
	})
	s.loopOf(pointwise{name: "AddProduct", doc: "z = sum + x·y, rounded twice", args: []string{"z", "sum", "x", "y"}, more: ")",
		body: func(x vs) vec { return s.op2(VADDPS, x[0], s.op2(VMULPS, x[1], x[2])) }})
	if s.wide { // the others are only written for AVX2
		return
	}
	s.binary("Minimum", "min(x, y)", 0, s.min)
	var lo, hi vec
	s.loopOf(pointwise{name: "Clamp", doc: "y = min(max(x, lo), hi)", args: []string{"y", "x"}, more: ", lo, hi float32)", unroll: 0,
		before: func() {
			lo, hi = s.vector(), s.vector()
			VBROADCASTSS(address(Param("lo")), lo)
			VBROADCASTSS(address(Param("hi")), hi)
		},
		body: func(x vs) vec { return s.min(s.max(x[0], lo), hi) }})
	s.unary("Sign", "x where that is 0 or NaN, else 1 with its sign", 0, func(x vec) vec {
		one := s.or(s.table.bits(math.Float32bits(1)), s.and(s.table.bits(1<<31), x))
		zero := s.zero()
		differ := s.either(s.is(less, x, zero), s.is(greater, x, zero))
		return s.where(differ, one, x)
	})
	for _, r := range []struct {
		name, doc string
		mode      uint64
	}{{"Floor", "⌊x⌋", 9}, {"Ceil", "⌈x⌉", 10}, {"RoundToEven", "x rounded, halves to even", 8}} {
		s.unary(r.name, r.doc, 0, func(x vec) vec {
			y := s.vector()
			VROUNDPS(Imm(r.mode), x, y)
			return y
		})
	}
	s.unary("Round", "x rounded, halves away from 0", 0, func(x vec) vec {
		half := s.or(s.number(0.5-0x1p-25), s.and(s.table.bits(1<<31), x)) // not ½, which would round the number just below it to 1
		VADDPS(half, x, x)
		VROUNDPS(Imm(11), x, x)
		return x
	})
}

// address returns the address of a parameter.
func address(c gotypes.Component) Mem {
	b, err := c.Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// max returns the same as Go's max: NaN if x or y is NaN, and 0 of 0 and -0.
func (s lanes) max(x, y vec) vec {
	z := s.op2(VMAXPS, x, y) // y where they are equal, or one is NaN
	z = s.where(s.is(equal, x, y), s.and(x, y), z)
	return s.where(s.is(unordered, x, x), x, z)
}

// min returns the same as Go's min: NaN if x or y is NaN, and -0 of 0 and -0.
func (s lanes) min(x, y vec) vec {
	z := s.op2(VMINPS, x, y)
	z = s.where(s.is(equal, x, y), s.or(x, y), z)
	return s.where(s.is(unordered, x, x), x, z)
}
