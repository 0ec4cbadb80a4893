package gemm

import (
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/pack"
)

// kernelsOf returns the functions of k.
func kernelsOf(k kernel.Kind) kernels {
	if k != kernel.NEON {
		return kernels{name: k.String()}
	}
	return kernels{name: k.String(), f32: neonF32(), f64: neonF64()}
}

func neonF32() *set {
	return &set{
		lanes: 4, rows: 8, direct: 8, panels: 88,
		tiles: [3][tileVecs]func(*byte){
			{neonF32Tile1x1, neonF32Tile1x2, neonF32Tile1x3},
			{neonF32Tile4x1, neonF32Tile4x2, neonF32Tile4x3},
			{neonF32Tile8x1, neonF32Tile8x2, neonF32Tile8x3},
		},
		streams: [3]func(*byte){neonF32Stream1, neonF32Stream2, neonF32Stream4},
		packs:   pack.Of(kernel.NEON, 4),
	}
}

func neonF64() *set {
	return &set{
		lanes: 2, rows: 8, direct: 8, panels: 88,
		tiles: [3][tileVecs]func(*byte){
			{neonF64Tile1x1, neonF64Tile1x2, neonF64Tile1x3},
			{neonF64Tile4x1, neonF64Tile4x2, neonF64Tile4x3},
			{neonF64Tile8x1, neonF64Tile8x2, neonF64Tile8x3},
		},
		streams: [3]func(*byte){neonF64Stream1, neonF64Stream2, neonF64Stream4},
		packs:   pack.Of(kernel.NEON, 8),
	}
}
