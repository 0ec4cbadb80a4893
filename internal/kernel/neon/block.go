package main

import "fmt"

// value is the result of an instruction, in a register assigned later. A negative value
// is a register chosen by hand: see pinned.
type value int

// pinned returns the value that vector register r holds throughout a loop.
func pinned(r int) value { return value(^r) }

// step is an instruction. Its text is known once its values have registers.
type step struct {
	text   func(register func(value) int) string
	values []value // read or written
}

// block is a sequence of instructions without branches.
type block struct {
	f     *file
	steps []step
	next  *value // shared by blocks to be interleaved
}

func (b *block) fresh() value {
	*b.next++
	return *b.next - 1
}

// do appends an instruction. The instruction makes or changes the last of its values, and
// makes preceding values that are new.
func (b *block) do(text func(r func(value) int) string, values ...value) {
	b.steps = append(b.steps, step{text, values})
}

// mem is the memory at an offset from a register.
type mem struct {
	base string
	at   int
}

func (m mem) String() string { return fmt.Sprintf("%d(%s)", m.at, m.base) }

func (b *block) load(m mem) value { return b.loadAs("FMOVQ", m) }

func (b *block) loadAs(move string, m mem) value {
	d := b.fresh()
	b.do(func(r func(value) int) string { return fmt.Sprintf("%s %v, F%d", move, m, r(d)) }, d)
	return d
}

// loadPair loads two consecutive vectors. more is a suffix of the instruction's name.
func (b *block) loadPair(more string, m mem) [2]value {
	d := [2]value{b.fresh(), b.fresh()}
	b.do(func(r func(value) int) string {
		return fmt.Sprintf("FLDPQ%s %v, (F%d, F%d)", more, m, r(d[0]), r(d[1]))
	}, d[:]...)
	return d
}

// take loads the 32 bytes that a register points to, and advances the register past them.
func (b *block) take(register int) [2]value { return b.loadPair(".P", at(register, 32)) }

func (b *block) store(x value, m mem) { b.storeAs("FMOVQ", x, m) }

func (b *block) storeAs(move string, x value, m mem) {
	b.do(func(r func(value) int) string { return fmt.Sprintf("%s F%d, %v", move, r(x), m) }, x)
}

// into writes d = op(n, m), or d = op(d, n, m) for operations changing d.
func (b *block) into(op string, a arrangement, d, n, m value) {
	b.do(func(r func(value) int) string { return encodeThree(op, a, r(d), r(n), r(m)).String() }, n, m, d)
}

func (b *block) three(op string, a arrangement, n, m value) value {
	d := b.fresh()
	b.into(op, a, d, n, m)
	return d
}

func (b *block) two(op string, a arrangement, n value) value {
	d := b.fresh()
	b.do(func(r func(value) int) string { return encodeTwo(op, a, r(d), r(n)).String() }, n, d)
	return d
}

func (b *block) logic(op string, n, m value) value {
	d := b.fresh()
	b.do(func(r func(value) int) string { return encodeLogic(op, r(d), r(n), r(m)).String() }, n, m, d)
	return d
}

func (b *block) copy(n value) value { return b.logic("orr", n, n) }

// move writes d = n.
func (b *block) move(d, n value) {
	b.do(func(r func(value) int) string { return encodeLogic("orr", r(d), r(n), r(n)).String() }, n, d)
}

func (b *block) shift(op string, n value, by int) value {
	d := b.fresh()
	b.do(func(r func(value) int) string { return encodeShift(op, r(d), r(n), by).String() }, n, d)
	return d
}

// signed returns neg in lanes with x's sign bit set, and pos elsewhere.
func (b *block) signed(x, neg, pos value) value {
	d := b.fresh()
	b.do(func(r func(value) int) string { return encodeNegative(r(d), r(x)).String() }, x, d)
	b.do(func(r func(value) int) string { return encodeLogic("bsl", r(d), r(neg), r(pos)).String() }, neg, pos, d)
	return d
}

// raise sets top to x in lanes with a larger x. Equal lanes and lanes with a NaN keep
// top.
func (b *block) raise(top, x value) {
	more := b.three("fcmgt", s4, x, top)
	b.do(func(r func(value) int) string { return encodeLogic("bit", r(top), r(x), r(more)).String() }, x, more, top)
}

// widen returns the lower or upper half of x as float64, depending on op.
func (b *block) widen(op string, x value) value {
	d := b.fresh()
	b.do(func(r func(value) int) string { return encodeConvert(op, r(d), r(x)).String() }, x, d)
	return d
}

// narrow returns two float64 as the lower half of float32.
func (b *block) narrow(x value) value { return b.widen("fcvtn", x) }

// add, sub, mul and div compute in float32. fma writes sum += x·y, and fms sum -= x·y.
func (b *block) add(x, y value) value   { return b.three("fadd", s4, x, y) }
func (b *block) sub(x, y value) value   { return b.three("fsub", s4, x, y) }
func (b *block) mul(x, y value) value   { return b.three("fmul", s4, x, y) }
func (b *block) div(x, y value) value   { return b.three("fdiv", s4, x, y) }
func (b *block) fma(sum, x, y value)    { b.into("fmla", s4, sum, x, y) }
func (b *block) fms(sum, x, y value)    { b.into("fmls", s4, sum, x, y) }
func (b *block) number(x float64) value { return b.load(mem{constantsAt, b.f.number(x)}) }
func (b *block) bits(x uint32) value    { return b.load(mem{constantsAt, b.f.bits(x)}) }

// constantsAt points to the table of constants.
const constantsAt = "R10"

// general appends an instruction on general registers.
func (b *block) general(format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	b.do(func(func(value) int) string { return text })
}

// repeat writes a loop running body n times, counted down in register R`counter`. Values
// made before and used in body keep their registers until the loop ends.
func (b *block) repeat(label string, counter, n int, body func()) {
	if n == 1 {
		body()
		return
	}
	b.general("MOVD $%d, R%d", n, counter)
	b.general("%s:", label)
	made, from := *b.next, len(b.steps)
	body()
	var used []value
	for _, s := range b.steps[from:] {
		for _, v := range s.values {
			if v >= 0 && v < made {
				used = append(used, v)
			}
		}
	}
	b.general("SUBS $1, R%d, R%d", counter, counter)
	b.do(func(func(value) int) string { return "BNE " + label }, used...)
}

// interleave alternates between the blocks' instructions, so that the processor finds
// independent instructions.
func interleave(blocks []*block) []step {
	var all []step
	for i := 0; ; i++ {
		before := len(all)
		for _, b := range blocks {
			if i < len(b.steps) {
				all = append(all, b.steps[i])
			}
		}
		if len(all) == before {
			return all
		}
	}
}

// assign returns the texts of steps, with registers below `free` for their values. It
// returns false if there are too few registers.
func assign(steps []step, free int) ([]string, bool) {
	last := map[value]int{}
	for i, s := range steps {
		for _, v := range s.values {
			last[v] = i
		}
	}
	in, used := map[value]int{}, make([]bool, free)
	var texts []string
	for i, s := range steps {
		// The register of a value read for the last time can hold the result.
		for _, v := range s.values {
			if _, ok := in[v]; v >= 0 && !ok {
				for r, taken := range used {
					if !taken {
						in[v], used[r] = r, true
						break
					}
				}
				if _, ok := in[v]; !ok {
					return nil, false
				}
			}
			if v >= 0 && last[v] == i {
				used[in[v]] = false
			}
		}
		texts = append(texts, s.text(func(v value) int {
			if v < 0 {
				return int(^v)
			}
			return in[v]
		}))
	}
	return texts, true
}
