package main

import (
	"fmt"
	"math"
	"strings"
)

// pointwise describes a function of n elements, for n from 0 up, that computes each
// element of a result from the elements of its arguments at the same index. The result
// may be written over an argument.
type pointwise struct {
	name, doc string
	args      []string // the slices; the result is the first
	more      string   // the text of further parameters, starting with a comma
	bytes     int      // the size of these parameters
	// before loads `pinned` registers, from V31 down.
	before func()
	pinned int
	body   func(b *block, x []value) value
}

// pointwise writes a function handling 16 elements at a time, then 4, and then one, in a
// vector of its own.
func (f *file) pointwise(p pointwise) {
	const n, to = 0, 1
	f.begin("neon"+p.name, "is "+p.doc, fmt.Sprintf("(n int, %s *float32%s)", strings.Join(p.args, ", "), p.more), 8+8*len(p.args)+p.bytes)
	for i, a := range append([]string{"n"}, p.args...) {
		f.line("MOVD %s+%d(FP), R%d", a, 8*i, n+i)
	}
	f.line("MOVD $%s(SB), %s", f.table(), constantsAt)
	if p.before != nil {
		p.before()
	}
	for _, count := range []int{16, 4, 1} {
		f.line("CMP $%d, R%d", count, n)
		f.line("BLT below%d", count)
		f.loop(fmt.Sprintf("by%d", count))
		for _, text := range f.pieces(p, count, to) {
			f.line("%s", text)
		}
		for i := range p.args {
			f.line("ADD $%d, R%d", 4*count, to+i)
		}
		f.line("SUB $%d, R%d", count, n)
		f.line("CMP $%d, R%d", count, n)
		f.line("BGE by%d", count)
		f.label(fmt.Sprintf("below%d", count))
	}
	f.line("RET")
}

// pieces returns the instructions for count elements, interleaved as far as the registers
// allow.
func (f *file) pieces(p pointwise, count, to int) []string {
	move, parts := "FMOVQ", max(count/4, 1)
	if count == 1 {
		move = "FMOVS"
	}
	for together := parts; together > 0; together /= 2 {
		var all []string
		fits := true
		for part := 0; part < parts && fits; part += together {
			blocks, next := make([]*block, together), value(0)
			for i := range blocks {
				b := &block{f: f, next: &next}
				var x []value
				for k := 1; k < len(p.args); k++ {
					x = append(x, b.loadAs(move, at(to+k, 16*(part+i))))
				}
				b.storeAs(move, p.body(b, x), at(to, 16*(part+i)))
				blocks[i] = b
			}
			var texts []string
			texts, fits = assign(interleave(blocks), 32-p.pinned)
			all = append(all, texts...)
		}
		if fits {
			return all
		}
	}
	panic("neon: " + p.name + " does not fit the registers")
}

func (f *file) unary(name, doc string, body func(b *block, x value) value) {
	f.pointwise(pointwise{name: name, doc: "y = " + doc, args: []string{"y", "x"}, body: func(b *block, x []value) value { return body(b, x[0]) }})
}

func (f *file) binary(name, doc, op string) {
	f.pointwise(pointwise{name: name, doc: "z = " + doc, args: []string{"z", "x", "y"}, body: func(b *block, x []value) value { return b.three(op, s4, x[0], x[1]) }})
}

// choose returns yes in lanes where which has ones, and no elsewhere. which must not be
// used again.
func (b *block) choose(which, yes, no value) value {
	b.do(func(r func(value) int) string { return encodeLogic("bsl", r(which), r(yes), r(no)).String() }, yes, no, which)
	return which
}

// inWide returns f(x), computed in float64 and rounded to float32 once.
func (b *block) inWide(x value, f func(x value) value) value {
	y := b.widen("fcvtn", f(b.widen("fcvtl", x)))
	high := f(b.widen("fcvtl2", x))
	b.do(func(r func(value) int) string { return encodeConvert("fcvtn2", r(y), r(high)).String() }, high, y)
	return y
}

// math writes the loops of type mathLoops in package vector. Loops that need polynomials
// in float64 are missing; they run in Go.
func (f *file) math() {
	f.arithmetic()
	f.conversions()
	f.sum("Sum", "the sum of n elements in float64, as 8 sums that are added 4, 2 and 1 apart", false)
	f.sum("Dot", "the sum of n products in float64, as 8 sums that are added 4, 2 and 1 apart", true)
	f.sumRows()
	f.sumTree()
	f.extreme("Largest", "the largest of n elements, -Inf of none; NaN if one is, 0 rather than -0", "fmax", math.Inf(-1))
	f.extreme("Smallest", "the smallest of n elements, Inf of none; NaN if one is, -0 rather than 0", "fmin", math.Inf(1))
	f.comparisons()
	f.selects()
}

// random writes the loops for random bits and uniform numbers.
func (f *file) random() {
	f.threefry()
	f.uniform()
}

// arithmetic writes the operations defined by IEEE 754. Their bits are the same as in Go.
func (f *file) arithmetic() {
	f.binary("Add", "x + y", "fadd")
	f.binary("Sub", "x - y", "fsub")
	f.binary("Mul", "x·y", "fmul")
	f.binary("Div", "x/y", "fdiv")
	f.binary("Maximum", "max(x, y)", "fmax")
	f.binary("Minimum", "min(x, y)", "fmin")
	f.pointwise(pointwise{name: "AddProduct", doc: "z = sum + x·y, rounded twice", args: []string{"z", "sum", "x", "y"},
		body: func(b *block, x []value) value { return b.add(x[0], b.mul(x[1], x[2])) }})
	for _, u := range [][3]string{{"Neg", "-x", "fneg"}, {"Abs", "|x|", "fabs"}, {"Sqrt", "√x", "fsqrt"},
		{"Floor", "the nearest integer below x", "frintm"}, {"Ceil", "the nearest integer above x", "frintp"},
		{"Round", "the nearest integer, of two away from 0", "frinta"}, {"RoundToEven", "the nearest integer, of two the even one", "frintn"}} {
		f.unary(u[0], u[1], func(b *block, x value) value { return b.two(u[2], s4, x) })
	}
	f.unary("Square", "x²", func(b *block, x value) value { return b.mul(x, x) })
	f.unary("Sign", "x where that is 0 or NaN, else 1 with its sign", func(b *block, x value) value {
		one := b.logic("orr", b.logic("and", x, b.bits(1<<31)), b.number(1))
		zero := b.zero()
		differ := b.logic("orr", b.three("fcmgt", s4, x, zero), b.three("fcmgt", s4, zero, x))
		return b.choose(differ, one, x)
	})
	f.unary("Rsqrt", "1/√x in float64", func(b *block, x value) value {
		one := b.load(mem{constantsAt, f.pair(math.Float64bits(1))})
		return b.inWide(x, func(x value) value { return b.three("fdiv", d2, one, b.two("fsqrt", d2, x)) })
	})
	const lo, hi = 31, 30
	f.pointwise(pointwise{name: "Clamp", doc: "y = min(max(x, lo), hi)", args: []string{"y", "x"}, more: ", lo, hi float32", bytes: 8, pinned: 2,
		before: func() {
			f.line("FMOVS lo+24(FP), F%d", lo)
			f.line("FMOVS hi+28(FP), F%d", hi)
			f.line("VDUP V%d.S[0], V%d.S4", lo, lo)
			f.line("VDUP V%d.S[0], V%d.S4", hi, hi)
		},
		body: func(b *block, x []value) value {
			return b.three("fmin", s4, b.three("fmax", s4, x[0], pinned(lo)), pinned(hi))
		}})
}

// less writes the function that subtracts two numbers from every element, in float64, for
// package norm's Difference.
func (f *file) less() {
	const c, d = 31, 30
	f.pointwise(pointwise{name: "Less", doc: "y = (x - c) - d in float64", args: []string{"y", "x"}, more: ", c, d float64", bytes: 16, pinned: 2,
		before: func() {
			f.line("FMOVD c+24(FP), F%d", c)
			f.line("FMOVD d+32(FP), F%d", d)
			f.line("VDUP V%d.D[0], V%d.D2", c, c)
			f.line("VDUP V%d.D[0], V%d.D2", d, d)
		},
		body: func(b *block, x []value) value {
			return b.inWide(x[0], func(x value) value { return b.three("fsub", d2, b.three("fsub", d2, x, pinned(c)), pinned(d)) })
		}})
}

// conversions writes the conversions between float32 and int32.
func (f *file) conversions() {
	f.unary("FromInt", "x, an int32, as float32", func(b *block, x value) value { return b.mixed("scvtf", "4s", x) })
	f.unary("ToInt", "x truncated to int32, the nearest there is, 0 for NaN", func(b *block, x value) value { return b.two("fcvtzs", s4, x) })
	f.unary("Order", "an int32 in the order of x, the largest for NaN", func(b *block, x value) value {
		number := b.three("fcmeq", s4, x, x)
		largest := b.bits(math.MaxInt32)
		y := b.logic("eor", x, b.logic("and", b.shift("sshr", x, 31), largest))
		return b.choose(number, y, largest)
	})
}
