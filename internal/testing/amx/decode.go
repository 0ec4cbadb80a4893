package main

import "fmt"

// op is the operation of an instruction.
type op uint8

const (
	loadConfig op = iota
	release
	zero
	load
	store
	dotBrain
	dotSigned
	dotMixed
)

// String returns the instruction's name.
func (o op) String() string {
	return [...]string{"LDTILECFG", "TILERELEASE", "TILEZERO", "TILELOADD", "TILESTORED", "TDPBF16PS", "TDPBSSD", "TDPBSUD"}[o]
}

// instruction is one of AMX's. dst is the tile in ModRM.reg, x the tile in ModRM.rm and y
// the tile in VEX.vvvv. Memory is at base + index<<scale + disp, where a register of -1
// counts as 0; rows of tiles have a stride of index<<scale bytes.
type instruction struct {
	op          op
	length      int
	dst, x, y   int
	base, index int
	scale       uint
	disp        int64
}

// decode returns the instruction at the beginning of code. It is an error if there is another
// one, or if code is cut short.
func decode(code []byte) (instruction, error) {
	at := func(i int) byte {
		if i < len(code) {
			return code[i]
		}
		return 0
	}
	// VEX of three bytes, map 0F38, W 0, 128 bits.
	if len(code) < 5 || at(0) != 0xc4 || at(1)&0x1f != 2 || at(2)&0x84 != 0 {
		return instruction{}, fmt.Errorf("% x is no instruction on tiles", code[:min(len(code), 8)])
	}
	high := func(bit uint) int { return int(^at(1)>>bit&1) << 3 } // of a register's number
	prefix, opcode, modrm := at(2)&3, at(3), at(4)
	mod, reg, rm := modrm>>6, int(modrm>>3&7), int(modrm&7)
	i := instruction{length: 5, dst: reg, x: rm, y: int(^at(2) >> 3 & 15), base: -1, index: -1}
	memory, tiles := mod != 3, true
	const none, p66, pF3, pF2 = 0, 1, 2, 3
	switch {
	case opcode == 0x49 && prefix == none && memory && reg == 0:
		i.op, tiles = loadConfig, false
	case opcode == 0x49 && prefix == none && modrm == 0xc0:
		i.op = release
	case opcode == 0x49 && prefix == pF2 && !memory && rm == 0:
		i.op = zero
	case opcode == 0x4b && prefix == pF2 && memory:
		i.op = load
	case opcode == 0x4b && prefix == pF3 && memory:
		i.op = store
	case opcode == 0x5c && prefix == pF3 && !memory && i.y < 8:
		i.op = dotBrain
	case opcode == 0x5e && prefix == pF2 && !memory && i.y < 8:
		i.op = dotSigned
	case opcode == 0x5e && prefix == pF3 && !memory && i.y < 8:
		i.op = dotMixed
	default:
		return instruction{}, fmt.Errorf("% x is an instruction that is not known here", code[:min(len(code), 8)])
	}
	if !memory {
		return i, nil
	}
	if tiles && rm != 4 {
		return instruction{}, fmt.Errorf("% x: %s without an index", code[:min(len(code), 8)], i.op)
	}
	i.base = rm + high(5)
	if rm == 4 {
		sib := at(5)
		i.length++
		i.scale, i.base = uint(sib>>6), int(sib&7)+high(5)
		if index := int(sib>>3&7) + high(6); index != 4 {
			i.index = index
		}
	}
	wide := mod == 0 && i.base&7 == 5 // disp32 without a base, or relative to RIP
	switch {
	case wide:
		return instruction{}, fmt.Errorf("% x: %s of an absolute address", code[:min(len(code), 8)], i.op)
	case mod == 1:
		i.disp = int64(int8(at(i.length)))
		i.length++
	case mod == 2:
		i.disp = int64(int32(uint32(at(i.length)) | uint32(at(i.length+1))<<8 | uint32(at(i.length+2))<<16 | uint32(at(i.length+3))<<24))
		i.length += 4
	}
	if i.length > len(code) {
		return instruction{}, fmt.Errorf("%s is cut short", i.op)
	}
	return i, nil
}
