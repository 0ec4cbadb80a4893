package main

import (
	"fmt"
	"math"
	"strings"
)

// Offsets of the fields of type vectorArgs in package vector, which checks
// them.
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

// The loops below compute every element by the same operations as asm/vector.go, and so
// have the same bits.

// exp returns e to the power of x. It computes 2ⁿ times a polynomial in r, where x = n
// log 2 + r. The polynomial is from expf in Moshier's Cephes library. Results below the
// smallest normal number are rounded once, like all others.
func (b *block) exp(x value) value {
	y := b.three("fmax", s4, x, b.number(-104)) // exp(-104) is less than half of the smallest number
	y = b.three("fmin", s4, y, b.number(89))
	n := b.two("frintn", s4, b.mul(y, b.number(math.Log2E)))
	b.fms(y, n, b.number(0.693359375)) // exact
	b.fms(y, n, b.number(-2.12194440e-4))
	q := b.polynomial(y, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
	b.fma(y, b.mul(y, y), q)
	q = b.add(y, b.number(1))
	// 2ⁿ is two factors, each with half of n: only the second product can round, and both
	// factors are normal numbers.
	i := b.two("fcvtns", s4, n)
	half := b.shift("sshr", i, 1)
	i = b.three("sub", s4, i, half)
	for _, e := range []value{half, i} {
		q = b.mul(q, b.shift("shl", b.three("add", s4, e, b.bits(127)), 23))
	}
	return q
}

// polynomial returns the value at x of the polynomial with the given coefficients,
// highest power first.
func (b *block) polynomial(x value, coefficients ...float64) value {
	q := b.number(coefficients[0])
	for _, c := range coefficients[1:] {
		next := b.number(c)
		b.fma(next, q, x)
		q = next
	}
	return q
}

// negative returns -|x|.
func (b *block) negative(x value) value { return b.logic("orr", x, b.bits(1<<31)) }

// sigmoid returns s = 1/(1 + exp(-x)) and a function computing 1-s, both to full
// precision.
func (b *block) sigmoid(x value) (y value, rest func() value) {
	z, one := b.exp(b.negative(x)), b.number(1)
	large := b.div(one, b.add(one, z)) // the sigmoid of |x|
	small := b.mul(z, large)
	return b.signed(x, small, large), func() value { return b.signed(x, large, small) }
}

// tanh returns Cephes' tanhf if |x| is below 0.625, and otherwise (1 - z)/(1 + z) with z
// = exp(-2|x|) and the sign of x.
func (b *block) tanh(x value) value {
	xx := b.mul(x, x)
	q := b.polynomial(xx, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
	near := b.copy(x)
	b.fma(near, b.mul(xx, x), q)

	negative := b.negative(x)
	z, one := b.exp(b.mul(negative, b.number(2))), b.number(1)
	far := b.div(b.sub(one, z), b.add(one, z))
	far = b.logic("orr", far, b.logic("and", x, b.bits(1<<31)))

	less := b.sub(b.number(-0.625), negative) // below 0 for small |x|
	return b.signed(less, near, far)
}

// slope returns silu's derivative given the sigmoid y and rest = 1-y.
func (b *block) slope(x, y, rest value) value {
	z := b.number(1)
	b.fma(z, x, rest)
	return b.mul(z, y)
}

// loop describes a function of one argument, a vectorArgs, that processes every element
// of slices.
type loop struct {
	name, doc string
	outs, ins int
	size      int    // bytes of an argument processed by body: 16, or 8 for two elements
	before    func() // run once, after the arguments are loaded
	// body processes one of the 64/size parts of 16 elements.
	body  func(b *block, out, in []mem, part int)
	after func()
	// pinned is the number of registers, from V31 down, that hold a value throughout the
	// loop.
	pinned int
}

func (f *file) each(l loop) {
	name := "neon" + l.name
	f.function(name, "is "+l.doc, "t *byte")
	const n, out, in = 1, 2, 5 // R0 points to the arguments
	f.line("MOVD %d(R0), R%d", argsN, n)
	for i := range l.outs {
		f.line("MOVD %d(R0), R%d", argsOut+8*i, out+i)
	}
	for i := range l.ins {
		f.line("MOVD %d(R0), R%d", argsIn+8*i, in+i)
	}
	f.line("MOVD $%s(SB), %s", f.table(), constantsAt)
	if l.before != nil {
		l.before()
	}
	f.loop("loop")
	for _, text := range f.parts(l, out, in) {
		f.line("%s", text)
	}
	for i := range l.outs {
		f.line("ADD $64, R%d", out+i)
	}
	for i := range l.ins {
		f.line("ADD $64, R%d", in+i)
	}
	f.line("SUBS $16, R%d, R%d", n, n)
	f.line("BNE loop")
	if l.after != nil {
		l.after()
	}
	f.line("RET")
}

// parts returns the instructions for 16 elements, interleaving as many parts of them as
// registers allow.
func (f *file) parts(l loop, out, in int) []string {
	parts := 64 / l.size
	for together := min(parts, 4); together > 0; together /= 2 {
		var all []string
		fits := true
		for part := 0; part < parts && fits; part += together {
			blocks, next := make([]*block, together), value(0)
			for i := range blocks {
				blocks[i] = &block{f: f, next: &next}
				memory := func(base, n int) []mem {
					m := make([]mem, n)
					for k := range m {
						m[k] = mem{fmt.Sprintf("R%d", base+k), (part + i) * l.size}
					}
					return m
				}
				l.body(blocks[i], memory(out, l.outs), memory(in, l.ins), part+i)
			}
			var texts []string
			texts, fits = assign(interleave(blocks), 32-l.pinned)
			all = append(all, texts...)
		}
		if fits {
			return all
		}
	}
	panic("neon: " + l.name + " does not fit the registers")
}

// elements writes a loop in which do computes vectors of results from vectors of arguments.
func (f *file) elements(name, doc string, outs, ins int, do func(b *block, x []value) []value) {
	f.each(loop{name: name, doc: doc, outs: outs, ins: ins, size: 16, body: func(b *block, out, in []mem, _ int) {
		var x []value
		for _, m := range in {
			x = append(x, b.load(m))
		}
		for i, y := range do(b, x) {
			b.store(y, out[i])
		}
	}})
}

func (f *file) elementwise() {
	type vs = []value
	f.elements("Exp", "y = exp(x)", 1, 1, func(b *block, x vs) vs { return vs{b.exp(x[0])} })
	f.elements("Tanh", "y = tanh(x)", 1, 1, func(b *block, x vs) vs { return vs{b.tanh(x[0])} })
	f.elements("Logistic", "y = 1/(1 + exp(-x))", 1, 1, func(b *block, x vs) vs {
		y, _ := b.sigmoid(x[0])
		return vs{y}
	})
	f.elements("SiLU", "y = x·logistic(x)", 1, 1, func(b *block, x vs) vs {
		y, _ := b.sigmoid(x[0])
		return vs{b.mul(x[0], y)}
	})
	f.elements("SiLUGrad", "dx = ct·silu'(x)", 1, 2, func(b *block, x vs) vs {
		y, rest := b.sigmoid(x[0])
		return vs{b.mul(x[1], b.slope(x[0], y, rest()))}
	})
	f.elements("SwiGLU", "y = silu(gate)·up", 1, 2, func(b *block, x vs) vs {
		y, _ := b.sigmoid(x[0])
		return vs{b.mul(x[1], b.mul(x[0], y))}
	})
	f.elements("SwiGLUGrad", "dgate = ct·up·silu'(gate), dup = ct·silu(gate)", 2, 3, func(b *block, x vs) vs {
		y, rest := b.sigmoid(x[0])
		return vs{b.mul(b.mul(x[2], x[1]), b.slope(x[0], y, rest())), b.mul(x[2], b.mul(x[0], y))}
	})
}

// single writes a sequence of instructions without interleaving. It may use the registers
// below `free`.
func (f *file) single(free int, do func(b *block)) {
	next := value(0)
	b := &block{f: f, next: &next}
	do(b)
	f.assigned(b.steps, free)
}

// assigned writes steps, which need only the registers below `free`.
func (f *file) assigned(steps []step, free int) {
	texts, ok := assign(steps, free)
	if !ok {
		panic("neon: too few registers")
	}
	for _, text := range texts {
		if label, ok := strings.CutSuffix(text, ":"); ok {
			f.label(label)
			continue
		}
		f.line("%s", text)
	}
}

// broadcast fills a pinned register with the float32 or float64 at an offset of the
// arguments.
func (f *file) broadcast(a arrangement, at, register int) {
	f.line("ADD $%d, R0, R11", at)
	f.line("VLD1R (R11), [V%d.%s]", register, map[arrangement]string{s4: "S4", d2: "D2"}[a])
}

func (f *file) c(i, register int) { f.broadcast(s4, argsC+4*i, register) }

// scaleMax writes the function that sets y = c0·x, if store is set, and finds the largest
// of args.max and these, or x, for each lane and of all lanes. It ignores NaN.
func (f *file) scaleMax(name, doc string, store bool) {
	const scale, top = 31, 27 // the largest are in top and the three registers after it
	outs := 0
	if store {
		outs = 1
	}
	f.each(loop{name: name, doc: doc, outs: outs, ins: 1, size: 16, pinned: 5, before: func() {
		if store {
			f.c(0, scale)
		}
		for i := range 4 {
			f.line("FMOVQ %d(R0), F%d", argsMax+16*i, top+i)
		}
	}, body: func(b *block, out, in []mem, part int) {
		x := b.load(in[0])
		if store {
			x = b.mul(x, pinned(scale))
			b.store(x, out[0])
		}
		b.raise(pinned(top+part), x)
	}, after: func() {
		for i := range 4 {
			f.line("FMOVQ F%d, %d(R0)", top+i, argsMax+16*i)
		}
		// The lanes are compared with the lanes 8, 4, 2 and 1 further on. If neither is
		// larger, the one further on is taken.
		f.single(top, func(b *block) {
			t := [4]value{pinned(top), pinned(top + 1), pinned(top + 2), pinned(top + 3)}
			larger := func(x, y value) value {
				more := b.three("fcmgt", s4, x, y)
				b.do(func(r func(value) int) string { return encodeLogic("bsl", r(more), r(x), r(y)).String() }, x, y, more)
				return more
			}
			t[0], t[1] = larger(t[0], t[2]), larger(t[1], t[3])
			x := larger(t[0], t[1])
			for _, bytes := range []int{8, 4} {
				x = larger(x, b.rotate(x, bytes))
			}
			b.storeAs("FMOVS", x, mem{"R0", argsLargest})
		})
	}})
}

// rotate returns x with its lanes moved down by this number of bytes, in a circle.
func (b *block) rotate(x value, bytes int) value {
	d := b.fresh()
	b.do(func(r func(value) int) string {
		return fmt.Sprintf("VEXT $%d, V%d.B16, V%d.B16, V%d.B16", bytes, r(x), r(x), r(d))
	}, x, d)
	return d
}

// expSum writes the function that sets y = exp(x - c0), if store is set, and adds this in
// float64 to args.sum, lane by lane. Then it adds the lanes to the total: first lanes 8
// apart, then 4, 2 and 1 apart.
func (f *file) expSum(name, doc string, store bool) {
	const shift, sums = 31, 23 // the sums are in sums and the seven registers after it
	outs := 0
	if store {
		outs = 1
	}
	f.each(loop{name: name, doc: doc, outs: outs, ins: 1, size: 16, pinned: 9, before: func() {
		f.c(0, shift)
		for i := range 8 {
			f.line("FMOVQ %d(R0), F%d", argsSum+16*i, sums+i)
		}
	}, body: func(b *block, out, in []mem, part int) {
		y := b.exp(b.sub(b.load(in[0]), pinned(shift)))
		if store {
			b.store(y, out[0])
		}
		for i, half := range []string{"fcvtl", "fcvtl2"} {
			sum := pinned(sums + 2*part + i)
			b.into("fadd", d2, sum, sum, b.widen(half, y))
		}
	}, after: func() {
		for i := range 8 {
			f.line("FMOVQ F%d, %d(R0)", sums+i, argsSum+16*i)
		}
		f.single(sums, func(b *block) {
			for apart := 4; apart > 0; apart /= 2 {
				for i := range apart {
					b.into("fadd", d2, pinned(sums+i), pinned(sums+i), pinned(sums+i+apart))
				}
			}
			x := pinned(sums)
			b.storeAs("FMOVD", b.three("fadd", d2, x, b.rotate(x, 8)), mem{"R0", argsTotal})
		})
	}})
}

// attentionGrad writes the function p = exp(c0·s - c1), ds = c0·p·(d - c2), for
// vector.AttentionGrad.
func (f *file) attentionGrad() {
	const scale, lse, delta = 31, 30, 29
	f.each(loop{name: "AttentionGrad", doc: "p = exp(c0·s - c1), ds = c0·p·(d - c2)", outs: 2, ins: 2, size: 16, pinned: 3, before: func() {
		f.c(0, scale)
		f.c(1, lse)
		f.c(2, delta)
	}, body: func(b *block, out, in []mem, _ int) {
		p := b.exp(b.sub(b.mul(b.load(in[0]), pinned(scale)), pinned(lse)))
		d := b.sub(b.load(in[1]), pinned(delta))
		b.store(p, out[0])
		b.store(b.mul(d, b.mul(p, pinned(scale))), out[1])
	}})
}

// wide loads two float32 as float64, and narrowTo stores two float64 as float32.
func (b *block) wide(m mem) value { return b.widen("fcvtl", b.loadAs("FMOVD", m)) }

func (b *block) narrowTo(x value, m mem) { b.storeAs("FMOVD", b.narrow(x), m) }

// scaled writes the function y = x·c, computed in float64.
func (f *file) scaled() {
	const c = 31
	f.each(loop{name: "Scaled", doc: "y = x·c in float64", outs: 1, ins: 1, size: 8, pinned: 1, before: func() {
		f.broadcast(d2, argsWide, c)
	}, body: func(b *block, out, in []mem, _ int) {
		b.narrowTo(b.three("fmul", d2, b.wide(in[0]), pinned(c)), out[0])
	}})
}

// adamw writes AdamW's update in float64, with the same operations as in Go.
func (f *file) adamw() {
	const b1, a1, b2, a2, scale, c1, c2, eps, decay, lr = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
	const constants = 10
	k := func(i int) value { return pinned(32 - constants + i) }
	f.each(loop{name: "AdamW", doc: "AdamW's update in float64", outs: 3, ins: 4, size: 8, pinned: constants, before: func() {
		for i := range constants {
			f.broadcast(d2, argsWide+8*i, 32-constants+i)
		}
	}, body: func(b *block, out, in []mem, _ int) {
		op := func(name string, x, y value) value { return b.three(name, d2, x, y) }
		g := op("fmul", b.wide(in[3]), k(scale))
		m := op("fadd", op("fmul", b.wide(in[1]), k(b1)), op("fmul", g, k(a1)))
		v := op("fadd", op("fmul", b.wide(in[2]), k(b2)), op("fmul", op("fmul", g, k(a2)), g))
		x := b.wide(in[0])
		b.narrowTo(m, out[1])
		b.narrowTo(v, out[2])
		root := op("fadd", b.two("fsqrt", d2, op("fdiv", v, k(c2))), k(eps))
		step := op("fadd", op("fdiv", op("fdiv", m, k(c1)), root), op("fmul", x, k(decay)))
		b.narrowTo(op("fsub", x, op("fmul", step, k(lr))), out[0])
	}})
}

// vector writes the loops over float32 of type loop in package vector.
func (f *file) vector() {
	f.elementwise()
	f.scaleMax("ScaleMax", "y = c0·x, with the largest by lane", true)
	f.scaleMax("Max", "the largest by lane", false)
	f.expSum("ExpSum", "y = exp(x - c0), with the sums by lane", true)
	f.expSum("ExpTotal", "the sums of exp(x - c0) by lane", false)
	f.attentionGrad()
	f.scaled()
	f.adamw()
}
