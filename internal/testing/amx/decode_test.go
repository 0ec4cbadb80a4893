package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every instruction of AMX in the kernels' assembly is decoded as what its comment says.
func TestDecode(t *testing.T) {
	seen := map[op]bool{}
	for _, source := range []string{"../../kernel/gemm/asm_half_amd64.s", "../../kernel/blocks/asm_blocks_amd64.s"} {
		decodeAll(t, source, seen)
	}
	for o := loadConfig; o <= dotMixed; o++ {
		if !seen[o] {
			t.Errorf("no %s in the kernels' assembly", o)
		}
	}
}

// decodeAll decodes what is in a file, and notes what it has seen.
func decodeAll(t *testing.T, source string, seen map[op]bool) {
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15"}
	parts := regexp.MustCompile(`(LONG|WORD|BYTE) \$0x([0-9a-f]+)`)
	for n, line := range strings.Split(string(text), "\n") {
		_, want, ok := strings.Cut(line, " // ")
		if !ok || !strings.HasPrefix(want, "T") && !strings.HasPrefix(want, "LDTILECFG") {
			continue
		}
		var code []byte
		for _, p := range parts.FindAllStringSubmatch(line, -1) {
			v, err := strconv.ParseUint(p[2], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			code = append(code, binary.LittleEndian.AppendUint32(nil, uint32(v))[:map[string]int{"LONG": 4, "WORD": 2, "BYTE": 1}[p[1]]]...)
		}
		i, err := decode(append(code, 0x90)) // what follows is not read
		if err != nil {
			t.Errorf("%s:%d: %v", source, n+1, err)
			continue
		}
		if i.length != len(code) {
			t.Errorf("%s:%d: %s has %d bytes, want %d", source, n+1, i.op, i.length, len(code))
		}
		at := func() string { return fmt.Sprintf("%d(%s)(%s*1)", i.disp, names[i.base], names[i.index]) }
		got := i.op.String()
		switch i.op {
		case loadConfig:
			got += fmt.Sprintf(" (%s)", names[i.base])
		case zero:
			got += fmt.Sprintf(" TMM%d", i.dst)
		case load:
			got += fmt.Sprintf(" %s, TMM%d", at(), i.dst)
		case store:
			got += fmt.Sprintf(" TMM%d, %s", i.dst, at())
		case dotBrain, dotSigned, dotMixed:
			got += fmt.Sprintf(" TMM%d, TMM%d, TMM%d", i.y, i.x, i.dst)
		}
		if got != want {
			t.Errorf("%s:%d: decoded as %s, want %s", source, n+1, got, want)
		}
		seen[i.op] = true
		for short := range len(code) {
			if _, err := decode(code[:short]); err == nil {
				t.Errorf("%s:%d: %d of %d bytes are decoded", source, n+1, short, len(code))
			}
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, code := range [][]byte{
		{}, {0x0f, 0x0b}, // UD2
		{0xc4, 0xe2, 0x79, 0x5e, 0xc1},                      // TDPBUSD
		{0xc4, 0xe2, 0xfb, 0x49, 0xc0},                      // W is 1
		{0xc4, 0xe2, 0x7f, 0x49, 0xc0},                      // 256 bits
		{0xc4, 0xe1, 0x7b, 0x49, 0xc0},                      // another map
		{0xc4, 0xe2, 0x7b, 0x4b, 0x03},                      // TILELOADD without an index
		{0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0x25, 0x00, 0, 0, 0}, // an absolute address
		{0xc4, 0xe2, 0x78, 0x49, 0x05, 0x00, 0, 0, 0},       // relative to RIP
	} {
		if i, err := decode(code); err == nil {
			t.Errorf("% x is decoded as %s", code, i.op)
		}
	}
}
