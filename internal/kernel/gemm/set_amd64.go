package gemm

import (
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/pack"
)

// kernelsOf returns the functions of k.
func kernelsOf(k kernel.Kind) kernels {
	switch k {
	case kernel.AMX:
		return kernels{name: k.String(), f32: avx512F32(), f64: avx2F64(), bf16: amxSet(), halfStreams: avx512Streams()}
	case kernel.AVX512:
		all := kernels{name: k.String(), f32: avx512F32(), f64: avx2F64(), halfStreams: avx512Streams(), brainStrips: brainStrips()}
		if hasDot() {
			all.bf16 = dotSet()
		}
		return all
	case kernel.AVX2:
		return kernels{name: k.String(), f32: avx2F32(), f64: avx2F64(), halfStreams: avx2Streams(), brainStrips: brainStrips()}
	}
	return kernels{name: k.String()}
}

// nearBytes is the size of a second-level cache holding both a block of A and a near
// block of B.
const nearBytes = 2 << 20

func avx512F32() *set {
	return &set{
		lanes: 16, rows: 8, direct: 128, panels: 22, near: kernel.SecondLevel() >= nearBytes,
		tiles: [3][tileVecs]func(*byte){
			{avx512F32Tile1x1, avx512F32Tile1x2, avx512F32Tile1x3},
			{avx512F32Tile4x1, avx512F32Tile4x2, avx512F32Tile4x3},
			{avx512F32Tile8x1, avx512F32Tile8x2, avx512F32Tile8x3},
		},
		copying: avx512F32Copying8x3,
		streams: [3]func(*byte){avx512F32Stream1, avx512F32Stream2, avx512F32Stream4},
		dots:    avx512F32Dots,
		packs:   pack.Of(kernel.AVX512, 4),
	}
}

func avx2F32() *set {
	return &set{
		lanes: 8, rows: 4, direct: 8, panels: 22,
		tiles: [3][tileVecs]func(*byte){
			{avx2F32Tile1x1, avx2F32Tile1x2, avx2F32Tile1x3},
			{avx2F32Tile4x1, avx2F32Tile4x2, avx2F32Tile4x3},
		},
		copying: avx2F32Copying4x3,
		streams: [3]func(*byte){avx2F32Stream1, avx2F32Stream2, avx2F32Stream4},
		dots:    avx2F32Dots,
		packs:   pack.Of(kernel.AVX2, 4),
	}
}

func avx2F64() *set {
	return &set{
		lanes: 4, rows: 4, direct: 8, panels: 22,
		tiles: [3][tileVecs]func(*byte){
			{avx2F64Tile1x1, avx2F64Tile1x2, avx2F64Tile1x3},
			{avx2F64Tile4x1, avx2F64Tile4x2, avx2F64Tile4x3},
		},
		copying: avx2F64Copying4x3,
		streams: [3]func(*byte){avx2F64Stream1, avx2F64Stream2, avx2F64Stream4},
		packs:   pack.Of(kernel.AVX2, 8),
	}
}
