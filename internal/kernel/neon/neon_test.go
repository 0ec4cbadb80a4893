package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// samples returns every instruction that this program encodes, with registers whose
// numbers have every bit set and not set.
func samples() []instruction {
	var all []instruction
	add := func(i instruction) { all = append(all, i) }
	for _, r := range [][3]int{{0, 1, 2}, {31, 30, 29}, {10, 21, 12}, {21, 10, 19}} {
		for _, a := range []arrangement{s4, d2} {
			for _, op := range []string{"fadd", "fsub", "fmul", "fdiv", "fmax", "fmin", "fmla", "fmls", "fcmgt", "fcmge", "fcmeq"} {
				add(encodeThree(op, a, r[0], r[1], r[2]))
			}
			for i := range 16 / a.size() {
				add(encodeByElement(a, r[0], r[1], r[2], i))
			}
			for _, op := range []string{"frintn", "fcvtns", "frintm", "frintp", "frinta", "fcvtzs", "fabs", "fneg", "fsqrt"} {
				add(encodeTwo(op, a, r[0], r[1]))
			}
		}
		add(encodeThree("add", s4, r[0], r[1], r[2]))
		add(encodeThree("sub", s4, r[0], r[1], r[2]))
		for _, op := range []string{"and", "orr", "eor", "bsl", "bit"} {
			add(encodeLogic(op, r[0], r[1], r[2]))
		}
		for _, op := range []string{"fcvtl", "fcvtl2", "fcvtn", "fcvtn2"} {
			add(encodeConvert(op, r[0], r[1]))
		}
		add(encodeNegative(r[0], r[1]))
		for _, by := range []int{1, 14, 23, 31} {
			for _, op := range []string{"sshr", "ushr", "sri", "shl"} {
				add(encodeShift(op, r[0], r[1], by))
			}
		}
		for _, m := range mixedNames() {
			add(encodeMixed(m[0], m[1], r[0], r[1], r[2]))
		}
		for by := 1; by < 8; by++ {
			add(encodeShiftBytes("shl", r[0], r[1], by))
			add(encodeShiftBytes("ushr", r[0], r[1], by))
		}
		for i := range 4 {
			add(encodeScale(r[0], r[1], r[2], i))
		}
		add(encodeZero(r[0]))
		for _, op := range []string{"umaxv", "addv", "saddlv"} {
			add(encodeAcross(op, r[0], r[1]))
		}
	}
	return all
}

// testdata/encodings.txt was made by GNU's assembler from the texts:
//
//	aarch64-linux-gnu-as -o x.o texts.s && aarch64-linux-gnu-objdump -d x.o
func TestEncodings(t *testing.T) {
	src, err := os.ReadFile(filepath.Join("testdata", "encodings.txt"))
	require.NoError(t, err)
	want := map[string]string{}
	for line := range strings.Lines(string(src)) {
		code, text, ok := strings.Cut(strings.TrimSpace(line), " ")
		require.True(t, ok, "line %q", line)
		want[text] = code
	}
	for _, i := range samples() {
		if got := fmt.Sprintf("%08x", i.code); got != want[i.text] {
			t.Errorf("%s is %s, want %q", i.text, got, want[i.text])
		}
	}
}

// A value keeps its register until it is used for the last time, and no two values have
// the same register at once.
func TestAssign(t *testing.T) {
	next := value(0)
	b := &block{f: new(file), next: &next}
	x, y := b.load(mem{"R1", 0}), b.load(mem{"R1", 16})
	z := b.mul(x, y) // the last use of x
	b.fma(z, y, pinned(31))
	b.store(z, mem{"R2", 0})
	texts, ok := assign(b.steps, 2)
	require.True(t, ok)
	require.Equal(t, []string{
		"FMOVQ 0(R1), F0",
		"FMOVQ 16(R1), F1",
		"WORD $0x6e21dc00 // fmul v0.4s, v0.4s, v1.4s",
		"WORD $0x4e3fcc20 // fmla v0.4s, v1.4s, v31.4s",
		"FMOVQ F0, 0(R2)",
	}, texts)
	if _, ok := assign(b.steps, 1); ok {
		t.Error("two values have one register")
	}
}

// A value that is made before a loop and used in it keeps its register until the loop ends,
// beyond its last use. A value that is made in the loop does not.
func TestRepeat(t *testing.T) {
	next := value(0)
	b := &block{f: new(file), next: &next}
	x := b.load(mem{"R1", 0})
	b.repeat("again", 9, 3, func() {
		b.store(x, mem{"R2", 0})
		b.store(b.load(mem{"R1", 16}), mem{"R2", 16})
	})
	b.store(b.load(mem{"R1", 32}), mem{"R2", 32})
	texts, ok := assign(b.steps, 2)
	require.True(t, ok)
	require.Equal(t, []string{
		"FMOVQ 0(R1), F0",
		"MOVD $3, R9",
		"again:",
		"FMOVQ F0, 0(R2)",
		"FMOVQ 16(R1), F1",
		"FMOVQ F1, 16(R2)",
		"SUBS $1, R9, R9",
		"BNE again",
		"FMOVQ 32(R1), F0",
		"FMOVQ F0, 32(R2)",
	}, texts)
	if _, ok := assign(b.steps, 1); ok {
		t.Error("what the loop reads again lost its register")
	}
}
