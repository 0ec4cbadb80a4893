package half

import (
	"sync"

	"golang.org/x/sys/cpu"
)

//go:generate go run -C ../kernel/asm . -set convert -out ../../half/asm_convert_amd64.s -stubs ../../half/asm_convert_amd64.go -pkg half

// instructions is an instruction set.
type instructions uint8

const (
	none instructions = iota
	avx2
	avx512
)

// best is determined only once, because asking the processor takes longer than converting.
var best = sync.OnceValue(func() instructions { return available()[0] })

// available returns the instruction sets that this processor has, the best first. Package
// cpu does not report the one converting binary16.
func available() []instructions {
	const f16c = 1 << 29
	switch {
	case !cpu.X86.HasAVX2 || cpuid1()&f16c == 0:
		return []instructions{none}
	case !cpu.X86.HasAVX512F:
		return []instructions{avx2, none}
	}
	return []instructions{avx512, avx2, none}
}

func vectors() bool { return best() != none }

func (c conversion) run(x block) int { return c.by(best(), x) }

// by converts a block with the instruction set, returning the length of its rows, or 0.
func (c conversion) by(i instructions, x block) int {
	switch i {
	case none:
		return 0
	case avx2:
		switch c {
		case widenBrain:
			avx2WidenBrain(x.rows, x.n, x.dst, x.pitch, x.src, x.stride)
		case widenHalf:
			avx2WidenHalf(x.rows, x.n, x.dst, x.pitch, x.src, x.stride)
		case narrowBrain:
			avx2NarrowBrain(x.rows, x.n, x.dst, x.pitch, x.src, x.stride)
		case narrowHalf:
			avx2NarrowHalf(x.rows, x.n, x.dst, x.pitch, x.src, x.stride)
		case widenE4M3:
			avx2WidenE4M3(x.rows, x.n, x.dst, x.pitch, x.src, x.stride)
		case widenE5M2:
			avx2WidenE5M2(x.rows, x.n, x.dst, x.pitch, x.src, x.stride)
		case widenQ8:
			avx2WidenQ8(x.rows, x.n, x.dst, x.pitch, x.src, x.stride)
		case narrowE4M3:
			avx2NarrowE4M3(x.rows, x.n, x.dst, x.pitch, x.src, x.stride)
		case narrowE5M2:
			avx2NarrowE5M2(x.rows, x.n, x.dst, x.pitch, x.src, x.stride)
		}
	case avx512:
		switch c {
		case widenBrain:
			avx512WidenBrain(x.rows, x.n, x.dst, x.pitch, x.src, x.stride)
		case widenHalf:
			avx512WidenHalf(x.rows, x.n, x.dst, x.pitch, x.src, x.stride)
		case narrowBrain:
			avx512NarrowBrain(x.rows, x.n, x.dst, x.pitch, x.src, x.stride)
		case narrowHalf:
			avx512NarrowHalf(x.rows, x.n, x.dst, x.pitch, x.src, x.stride)
		case widenE4M3:
			avx512WidenE4M3(x.rows, x.n, x.dst, x.pitch, x.src, x.stride)
		case widenE5M2:
			avx512WidenE5M2(x.rows, x.n, x.dst, x.pitch, x.src, x.stride)
		case widenQ8:
			avx512WidenQ8(x.rows, x.n, x.dst, x.pitch, x.src, x.stride)
		case narrowE4M3:
			avx512NarrowE4M3(x.rows, x.n, x.dst, x.pitch, x.src, x.stride)
		case narrowE5M2:
			avx512NarrowE5M2(x.rows, x.n, x.dst, x.pitch, x.src, x.stride)
		}
	}
	return x.n
}
