package main

import "fmt"

// form is an instruction with operands of different arrangements.
type form struct {
	code    uint32
	d, n, m string // m is empty if there is no third register
}

// mixed returns the form of an instruction with a result of arrangement d. Integers are
// signed, except in instructions with names beginning with u.
func mixed(op, d string) form {
	switch op + " " + d {
	case "sdot 4s": // d += sums of 4 products; FEAT_DotProd
		return form{0x4e809400, d, "16b", "16b"}
	case "smull 8h": // products of the lower halves
		return form{0x0e20c000, d, "8b", "8b"}
	case "smull 4s":
		return form{0x0e60c000, d, "4h", "4h"}
	case "smlal 4s": // d += products of the lower halves
		return form{0x0e608000, d, "4h", "4h"}
	case "smlal2 8h": // d += products of the upper halves
		return form{0x4e208000, d, "16b", "16b"}
	case "smlal2 4s":
		return form{0x4e608000, d, "8h", "8h"}
	case "addp 8h": // sums of pairs of n, then of m
		return form{0x4e60bc00, d, d, d}
	case "addp 4s":
		return form{0x4ea0bc00, d, d, d}
	case "mul 16b":
		return form{0x4e209c00, d, d, d}
	case "mul 4s":
		return form{0x4ea09c00, d, d, d}
	case "cmgt 4s":
		return form{0x4ea03400, d, d, d}
	case "umax 4s":
		return form{0x6ea06400, d, d, d}
	case "ushl 4s": // n shifted left by m
		return form{0x6ea04400, d, d, d}
	case "neg 16b":
		return form{code: 0x6e20b800, d: d, n: d}
	case "mvn 16b":
		return form{code: 0x6e205800, d: d, n: d}
	case "saddlp 8h": // sums of pairs
		return form{code: 0x4e202800, d: d, n: "16b"}
	case "saddlp 4s":
		return form{code: 0x4e602800, d: d, n: "8h"}
	case "sadalp 4s": // d += sums of pairs
		return form{code: 0x4e606800, d: d, n: "8h"}
	case "scvtf 4s":
		return form{code: 0x4e21d800, d: d, n: d}
	case "fcvtl 4s":
		return form{code: 0x0e217800, d: d, n: "4h"}
	case "uxtl 8h":
		return form{code: 0x2f08a400, d: d, n: "8b"}
	case "uxtl2 8h":
		return form{code: 0x6f08a400, d: d, n: "16b"}
	case "uxtl 4s":
		return form{code: 0x2f10a400, d: d, n: "4h"}
	case "uxtl2 4s":
		return form{code: 0x6f10a400, d: d, n: "8h"}
	case "sxtl 8h":
		return form{code: 0x0f08a400, d: d, n: "8b"}
	case "sxtl2 8h":
		return form{code: 0x4f08a400, d: d, n: "16b"}
	case "sxtl 4s":
		return form{code: 0x0f10a400, d: d, n: "4h"}
	case "sxtl2 4s":
		return form{code: 0x4f10a400, d: d, n: "8h"}
	case "sqxtn 4h": // narrowed to the nearest
		return form{code: 0x0e614800, d: d, n: "4s"}
	case "sqxtn2 8h": // to the upper half of d
		return form{code: 0x4e614800, d: d, n: "4s"}
	case "sqxtn 8b":
		return form{code: 0x0e214800, d: d, n: "8h"}
	case "sqxtn2 16b":
		return form{code: 0x4e214800, d: d, n: "8h"}
	}
	panic("neon: no instruction " + op + " " + d)
}

// mixedNames returns the instructions known to mixed.
func mixedNames() [][2]string {
	return [][2]string{
		{"sdot", "4s"}, {"smull", "8h"}, {"smull", "4s"}, {"smlal", "4s"}, {"smlal2", "8h"}, {"smlal2", "4s"},
		{"addp", "8h"}, {"addp", "4s"}, {"mul", "16b"}, {"mul", "4s"}, {"cmgt", "4s"}, {"umax", "4s"}, {"ushl", "4s"},
		{"neg", "16b"}, {"mvn", "16b"}, {"saddlp", "8h"}, {"saddlp", "4s"}, {"sadalp", "4s"}, {"scvtf", "4s"}, {"fcvtl", "4s"},
		{"uxtl", "8h"}, {"uxtl2", "8h"}, {"uxtl", "4s"}, {"uxtl2", "4s"}, {"sxtl", "8h"}, {"sxtl2", "8h"}, {"sxtl", "4s"}, {"sxtl2", "4s"},
		{"sqxtn", "4h"}, {"sqxtn2", "8h"}, {"sqxtn", "8b"}, {"sqxtn2", "16b"},
	}
}

// encodeMixed encodes an instruction known to mixed. m is unused if the instruction has
// no third register.
func encodeMixed(op, arrangement string, d, n, m int) instruction {
	f := mixed(op, arrangement)
	text := fmt.Sprintf("%s v%d.%s, v%d.%s", op, d, f.d, n, f.n)
	if f.m == "" {
		return instruction{f.code | registers(d, n, 0), text}
	}
	return instruction{f.code | registers(d, n, m), fmt.Sprintf("%s, v%d.%s", text, m, f.m)}
}

// encodeShiftBytes shifts lanes of 8 bits: ushr by 1 to 8, shl by 0 to 7.
func encodeShiftBytes(op string, d, n, by int) instruction {
	code := shiftLeft | uint32(8+by)<<16
	if op == "ushr" {
		code = shiftZero | uint32(16-by)<<16
	}
	return instruction{code | registers(d, n, 0), fmt.Sprintf("%s v%d.16b, v%d.16b, #%d", op, d, n, by)}
}

// encodeScale encodes d += n·m[i] for integers of 32 bits.
func encodeScale(d, n, m, i int) instruction {
	code := 0x6f800000 | registers(d, n, m) | uint32(i&1<<21|i>>1<<11)
	return instruction{code, fmt.Sprintf("mla v%d.4s, v%d.4s, v%d.s[%d]", d, n, m, i)}
}

func encodeZero(d int) instruction {
	return instruction{0x4f000400 | registers(d, 0, 0), fmt.Sprintf("movi v%d.4s, #0", d)}
}

// encodeAcross sets the lowest lane of d to a number computed from all lanes of n: umaxv is
// the largest of unsigned integers, addv the sum of int32, and saddlv the sum of int16.
func encodeAcross(op string, d, n int) instruction {
	code, lanes := map[string]uint32{"umaxv": 0x6eb0a800, "addv": 0x4eb1b800, "saddlv": 0x4e703800}[op], "4s"
	if op == "saddlv" {
		lanes = "8h"
	}
	return instruction{code | registers(d, n, 0), fmt.Sprintf("%s s%d, v%d.%s", op, d, n, lanes)}
}
