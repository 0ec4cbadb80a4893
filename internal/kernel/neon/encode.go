package main

import "fmt"

// arrangement is the element type that an instruction sees in a vector of 16 bytes.
type arrangement string

const (
	s4 arrangement = "4s" // four of 32 bits
	d2 arrangement = "2d" // two of 64 bits
)

// size returns an element's bytes.
func (a arrangement) size() int {
	if a == s4 {
		return 4
	}
	return 8
}

// These are the codes of instructions with registers 0, for vectors of float32. The
// encodings are from the Arm Architecture Reference Manual, section C4.1 (A-profile).
const (
	double = 1 << 22 // changes a floating-point instruction to float64

	byElement   = 0x4f801000 // fmla by an element
	shiftLeft   = 0x4f005400
	shiftSame   = 0x4f000400 // right, arithmetic
	shiftZero   = 0x6f000400 // right, logical
	shiftInsert = 0x6f004400
)

// three returns the code of an instruction with three registers.
func three(op string) uint32 {
	switch op {
	case "fadd":
		return 0x4e20d400
	case "fsub":
		return 0x4ea0d400
	case "fmul":
		return 0x6e20dc00
	case "fdiv":
		return 0x6e20fc00
	case "fmax": // NaN if an operand is NaN
		return 0x4e20f400
	case "fmin":
		return 0x4ea0f400
	case "fmla": // d += n·m, rounded once
		return 0x4e20cc00
	case "fmls": // d -= n·m, rounded once
		return 0x4ea0cc00
	case "fcmgt":
		return 0x6ea0e400
	case "fcmge":
		return 0x6e20e400
	case "fcmeq":
		return 0x4e20e400
	case "add":
		return 0x4ea08400
	case "sub":
		return 0x6ea08400
	}
	panic("neon: no instruction " + op)
}

// logic returns the code of an instruction on all bits of three registers.
func logic(op string) uint32 {
	switch op {
	case "and":
		return 0x4e201c00
	case "orr":
		return 0x4ea01c00
	case "eor":
		return 0x6e201c00
	case "bsl": // d = n where d has ones, else m
		return 0x6e601c00
	case "bit": // d = n where m has ones
		return 0x6ea01c00
	}
	panic("neon: no instruction " + op)
}

// two returns the code of an instruction with two registers.
func two(op string) uint32 {
	switch op {
	case "frintn": // to the nearest integer, ties to even
		return 0x4e218800
	case "fcvtns": // the same, as an integer
		return 0x4e21a800
	case "frintm": // downwards
		return 0x4e219800
	case "frintp": // upwards
		return 0x4ea18800
	case "frinta": // to the nearest, ties away from 0
		return 0x6e218800
	case "fcvtzs": // towards 0, as an integer; the nearest int32 if out of range, 0 for NaN
		return 0x4ea1b800
	case "fabs":
		return 0x4ea0f800
	case "fneg":
		return 0x6ea0f800
	case "fsqrt":
		return 0x6ea1f800
	}
	panic("neon: no instruction " + op)
}

// convert returns the code and the operands' arrangements of a conversion between float32
// and float64. The float32 are the lower half of a vector, or, for names ending with 2,
// the upper half.
func convert(op string) (code uint32, d, n string) {
	switch op {
	case "fcvtl":
		return 0x0e617800, "2d", "2s"
	case "fcvtl2":
		return 0x4e617800, "2d", "4s"
	case "fcvtn":
		return 0x0e616800, "2s", "2d"
	case "fcvtn2":
		return 0x4e616800, "4s", "2d"
	}
	panic("neon: no instruction " + op)
}

// instruction is an instruction missing in Go's assembler.
type instruction struct {
	code uint32
	text string // in the syntax of GNU's assembler
}

func (i instruction) String() string { return fmt.Sprintf("WORD $0x%08x // %s", i.code, i.text) }

func registers(d, n, m int) uint32 {
	if min(d, n, m) < 0 || max(d, n, m) > 31 {
		panic(fmt.Sprintf("neon: registers %d, %d, %d, want 0 to 31", d, n, m))
	}
	return uint32(d | n<<5 | m<<16)
}

func encodeThree(op string, a arrangement, d, n, m int) instruction {
	code := three(op) | registers(d, n, m)
	if a == d2 {
		code |= double
	}
	return instruction{code, fmt.Sprintf("%s v%d.%s, v%d.%s, v%d.%s", op, d, a, n, a, m, a)}
}

func encodeLogic(op string, d, n, m int) instruction {
	return instruction{logic(op) | registers(d, n, m), fmt.Sprintf("%s v%d.16b, v%d.16b, v%d.16b", op, d, n, m)}
}

func encodeTwo(op string, a arrangement, d, n int) instruction {
	code := two(op) | registers(d, n, 0)
	if a == d2 {
		code |= double
	}
	return instruction{code, fmt.Sprintf("%s v%d.%s, v%d.%s", op, d, a, n, a)}
}

func encodeConvert(op string, d, n int) instruction {
	code, to, from := convert(op)
	return instruction{code | registers(d, n, 0), fmt.Sprintf("%s v%d.%s, v%d.%s", op, d, to, n, from)}
}

// encodeNegative sets lanes of 32 bits to ones if n's sign bit is set, and to zeros
// otherwise.
func encodeNegative(d, n int) instruction {
	return instruction{0x4ea0a800 | registers(d, n, 0), fmt.Sprintf("cmlt v%d.4s, v%d.4s, #0", d, n)}
}

// encodeShift shifts lanes of 32 bits, by 1 to 31.
func encodeShift(op string, d, n, by int) instruction {
	code := shiftLeft | uint32(32+by)<<16
	switch op {
	case "sshr":
		code = shiftSame | uint32(64-by)<<16
	case "ushr":
		code = shiftZero | uint32(64-by)<<16
	case "sri": // into the lower bits of d, keeping the upper bits
		code = shiftInsert | uint32(64-by)<<16
	}
	return instruction{code | registers(d, n, 0), fmt.Sprintf("%s v%d.4s, v%d.4s, #%d", op, d, n, by)}
}

// encodeByElement encodes d += n·m[i] for every lane, rounded once.
func encodeByElement(a arrangement, d, n, m, i int) instruction {
	code := byElement | registers(d, n, m)
	kind := "s"
	if a == s4 {
		code |= uint32(i&1<<21 | i>>1<<11)
	} else {
		code |= uint32(double | i<<11)
		kind = "d"
	}
	return instruction{code, fmt.Sprintf("fmla v%d.%s, v%d.%s, v%d.%s[%d]", d, a, n, a, m, kind, i)}
}
