package kernel

import (
	"golang.org/x/sys/cpu"

	"github.com/gomoe/gomoe/internal/half"
)

//go:generate go run -C asm . -set gemm -out ../asm_gemm_amd64.s -stubs ../asm_gemm_amd64.go -pkg kernel
//go:generate go run -C asm . -set lines -out ../asm_lines_amd64.s -stubs ../asm_lines_amd64.go -pkg kernel
//go:generate go run -C asm . -set math -out ../asm_math_amd64.s -stubs ../asm_math_amd64.go -pkg kernel
//go:generate go run -C asm . -set vector -out ../asm_vector_amd64.s -stubs ../asm_vector_amd64.go -pkg kernel

// vectorKernels returns the kernels in assembly that this processor can run, the
// best first.
func vectorKernels() []kernels {
	var have []kernels
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA || !half.Vectors() {
		return nil
	}
	if cpu.X86.HasAVX512F {
		k := kernels{name: "avx512", f32: avx512F32(), f64: avx512F64(), halfStreams: avx512Streams(), quant: avx512Quant()}
		if hasAMX() {
			amx := k
			amx.name, amx.bf16 = "amx", amxSet()
			have = append(have, amx)
		}
		if hasDot() {
			k.bf16 = dotSet()
		}
		have = append(have, k)
	}
	return append(have, kernels{name: "avx2", f32: avx2F32(), f64: avx2F64(), halfStreams: avx2Streams(), quant: avx2Quant()})
}

func avx512F32() *set {
	return &set{
		lanes: 16, rows: 8, direct: 128, panels: 22,
		tiles: [3][tileVecs]func(*byte){
			{avx512F32Tile1x1, avx512F32Tile1x2, avx512F32Tile1x3},
			{avx512F32Tile4x1, avx512F32Tile4x2, avx512F32Tile4x3},
			{avx512F32Tile8x1, avx512F32Tile8x2, avx512F32Tile8x3},
		},
		copying:    avx512F32Copying8x3,
		streams:    [3]func(*byte){avx512F32Stream1, avx512F32Stream2, avx512F32Stream4},
		copies:     copies(),
		transposes: []transpose{{16, 16, transpose16F32}, {8, 8, transpose8F32}, {4, 4, transpose4F32}},
	}
}

func avx512F64() *set {
	return &set{
		lanes: 8, rows: 8, direct: 128, panels: 22,
		tiles: [3][tileVecs]func(*byte){
			{avx512F64Tile1x1, avx512F64Tile1x2, avx512F64Tile1x3},
			{avx512F64Tile4x1, avx512F64Tile4x2, avx512F64Tile4x3},
			{avx512F64Tile8x1, avx512F64Tile8x2, avx512F64Tile8x3},
		},
		copying:    avx512F64Copying8x3,
		streams:    [3]func(*byte){avx512F64Stream1, avx512F64Stream2, avx512F64Stream4},
		copies:     copies(),
		transposes: []transpose{{4, 4, transpose4F64}},
	}
}

func avx2F32() *set {
	return &set{
		lanes: 8, rows: 4, direct: 8, panels: 22,
		tiles: [3][tileVecs]func(*byte){
			{avx2F32Tile1x1, avx2F32Tile1x2, avx2F32Tile1x3},
			{avx2F32Tile4x1, avx2F32Tile4x2, avx2F32Tile4x3},
		},
		copying:    avx2F32Copying4x3,
		streams:    [3]func(*byte){avx2F32Stream1, avx2F32Stream2, avx2F32Stream4},
		copies:     copies(),
		transposes: []transpose{{8, 8, transpose8F32}, {4, 4, transpose4F32}},
	}
}

func avx2F64() *set {
	return &set{
		lanes: 4, rows: 4, direct: 8, panels: 22,
		tiles: [3][tileVecs]func(*byte){
			{avx2F64Tile1x1, avx2F64Tile1x2, avx2F64Tile1x3},
			{avx2F64Tile4x1, avx2F64Tile4x2, avx2F64Tile4x3},
		},
		copying:    avx2F64Copying4x3,
		streams:    [3]func(*byte){avx2F64Stream1, avx2F64Stream2, avx2F64Stream4},
		copies:     copies(),
		transposes: []transpose{{4, 4, transpose4F64}},
	}
}

func copies() map[int]func(n int, dst, src *byte, stride uintptr) {
	return map[int]func(n int, dst, src *byte, stride uintptr){16: copy16, 32: copy32, 64: copy64, 96: copy96, 128: copy128, 192: copy192}
}
