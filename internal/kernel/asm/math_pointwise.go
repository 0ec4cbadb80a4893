package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pointwise describes a function of n elements setting each element of the first slice from the
// corresponding elements of the others. more is the text of further parameters and, after a
// bracket, of results. A long body is written once, for whole vectors and for the remaining
// elements, which do not fill one. Other bodies have a copy for the remaining elements.
type pointwise struct {
	name, doc     string
	args          []string // slices, the result first
	more          string
	unroll        int // vectors processed at once; 0 means one
	long          bool
	before, after func()
	body          func(x vs) vec
}

func (s lanes) loopOf(p pointwise) {
	name := s.name + p.name
	TEXT(name, NOSPLIT, "func(n int, "+strings.Join(p.args, ", ")+" *float32"+p.more)
	Pragma("noescape")
	Doc(name + " is " + p.doc + ", for n elements.")
	n, at := Load(Param("n"), GP64()), GP64()
	XORQ(at, at)
	var slices []Mem
	for _, a := range p.args {
		slices = append(slices, Mem{Base: Load(Param(a), GP64()), Index: at, Scale: 1})
	}
	if p.before != nil {
		p.before()
	}
	if p.long {
		s.longLoop(p, n, slices)
	} else {
		s.shortLoop(p, n, slices)
	}
	if p.after != nil {
		p.after()
	}
	VZEROUPPER()
	RET()
}

func (s lanes) shortLoop(p pointwise, n reg.Register, slices []Mem) {
	at, step := slices[0].Index, s.bytes()/4
	do := func(part int, t *tail) {
		var x vs
		for _, m := range slices[1:] {
			x = append(x, s.get(m.Offset(part*s.bytes()), t))
		}
		s.put(p.body(x), slices[0].Offset(part*s.bytes()), t)
	}
	for _, vectors := range []int{p.unroll, 1} {
		if vectors == 0 {
			continue
		}
		label := map[bool]string{true: "many", false: "one"}[vectors > 1]
		Label(label)
		CMPQ(n, I32(vectors*step))
		JLT(LabelRef("not_" + label))
		for part := range vectors {
			do(part, nil)
		}
		ADDQ(I32(vectors*s.bytes()), at)
		SUBQ(I32(vectors*step), n)
		JMP(LabelRef(label))
		Label("not_" + label)
	}
	TESTQ(n, n)
	JZ(LabelRef("done"))
	do(0, s.tailOf(n))
	Label("done")
}

// longLoop keeps in n the number of elements following the current vector. n is below 0 in the last
// vector if the elements do not fill it.
func (s lanes) longLoop(p pointwise, n reg.Register, slices []Mem) {
	at, bytes := slices[0].Index, s.bytes()
	if s.half {
		bytes /= 2
	}
	x := make(vs, len(slices)-1)
	for i := range x {
		x[i] = s.vector()
	}
	last := s.newTail()
	TESTQ(n, n)
	JZ(LabelRef("done"))
	Label("loop")
	SUBQ(I32(bytes/4), n)
	JLT(LabelRef("tail"))
	for i, m := range slices[1:] {
		s.loadHalf(m, x[i])
	}
	Label("compute")
	y := p.body(append(vs(nil), x...))
	TESTQ(n, n)
	JLT(LabelRef("store"))
	s.storeHalf(y, slices[0])
	ADDQ(I32(bytes), at)
	TESTQ(n, n)
	JNZ(LabelRef("loop"))
	JMP(LabelRef("done"))
	Label("tail")
	exist := GP64()
	LEAQ(Mem{Base: n, Disp: bytes / 4}, exist)
	s.setTail(last, exist)
	for i, m := range slices[1:] {
		s.getInto(m, last, x[i])
	}
	JMP(LabelRef("compute"))
	Label("store")
	s.put(y, slices[0], last)
	Label("done")
}

// loadHalf loads the used part of a vector: the lower half if s.half is set.
func (s lanes) loadHalf(m Mem, v vec) {
	switch {
	case !s.half:
		VMOVUPS(m, v)
	case s.wide: // twice, so that the allocator sees all of it written
		VBROADCASTF64X4(m, v)
	default:
		VBROADCASTF128(m, v)
	}
}

func (s lanes) storeHalf(v vec, m Mem) {
	switch {
	case !s.half:
		VMOVUPS(v, m)
	case s.wide:
		VMOVUPS(v.AsY(), m)
	default:
		VMOVUPS(v.AsX(), m)
	}
}

// halved returns s for functions computed in float64, half a vector at a time.
func (s lanes) halved() lanes {
	s.half = true
	return s
}

// unary and binary write the functions y = f(x) and z = f(x, y). Functions computed in float64 are
// long.
func (s lanes) unary(name, doc string, unroll int, f func(x vec) vec) {
	s.loopOf(pointwise{name: name, doc: "y = " + doc, args: []string{"y", "x"}, more: ")", unroll: unroll, long: s.half, body: func(x vs) vec { return f(x[0]) }})
}

func (s lanes) binary(name, doc string, unroll int, f func(x, y vec) vec) {
	s.loopOf(pointwise{name: name, doc: "z = " + doc, args: []string{"z", "x", "y"}, more: ")", unroll: unroll, long: s.half, body: func(x vs) vec { return f(x[0], x[1]) }})
}
