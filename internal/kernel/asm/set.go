package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// set holds the instructions for one kind of vector.
type set struct {
	name       string // the instruction set
	element    string // F32 or F64
	size       int    // the bytes of an element
	wide       bool   // vectors have 64 bytes and not 32
	rows       int    // the rows of the largest tile
	streamDeep int    // rows of B read at once by the stream of 4 rows
	table      *constants
	from       string // Brain or Half if a stream widens B from it
}

func (s set) bytes() int {
	if s.wide {
		return 64
	}
	return 32
}

func (s set) vector() reg.VecVirtual {
	if s.wide {
		return ZMM()
	}
	return YMM()
}

// zero returns a vector of zeros.
func (s set) zero() reg.VecVirtual {
	v := s.vector()
	if s.wide {
		VPXORD(v, v, v)
	} else {
		VXORPS(v, v, v)
	}
	return v
}

func (s set) broadcast(m Mem, v Op) {
	if s.size == 4 {
		VBROADCASTSS(m, v)
	} else {
		VBROADCASTSD(m, v)
	}
}

// fma writes sum += x·y, rounded once.
func (s set) fma(x, y, sum Op) {
	if s.size == 4 {
		VFMADD231PS(x, y, sum)
	} else {
		VFMADD231PD(x, y, sum)
	}
}

// add writes z = x + y.
func (s set) add(x, y, z Op) {
	if s.size == 4 {
		VADDPS(x, y, z)
	} else {
		VADDPD(x, y, z)
	}
}

// onWork begins a function of one argument, pointing to a work or another struct.
func onWork(name string) {
	TEXT(name, NOSPLIT, "func(t *byte)")
	Pragma("noescape")
}

// field loads the field at an offset of the struct at t. The offsets below are those of
// type work in package gemm, which checks them.
func field(t reg.Register, offset int) reg.GPVirtual {
	r := GP64()
	MOVQ(Mem{Base: t, Disp: offset}, r)
	return r
}

const (
	workDeep    = 0
	workA       = 8
	workB       = 16
	workBStride = 24
	workC       = 32
	workCStride = 40
	workAdd     = 48
	workCols    = 56
	workAStride = 64
	workAStep   = 72
	workCopy    = 80
	workAhead   = 88
)
