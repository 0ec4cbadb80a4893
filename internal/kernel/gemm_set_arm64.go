package kernel

// vectorKernels returns the kernels in assembly, which every arm64 processor runs:
// vectors of 16 bytes are part of the architecture.
func vectorKernels() []kernels {
	return []kernels{{name: "neon", f32: neonF32(), f64: neonF64(), quant: neonQuant()}}
}

func neonF32() *set {
	return &set{
		lanes: 4, rows: 8, direct: 8, panels: 88,
		tiles: [3][tileVecs]func(*byte){
			{neonF32Tile1x1, neonF32Tile1x2, neonF32Tile1x3},
			{neonF32Tile4x1, neonF32Tile4x2, neonF32Tile4x3},
			{neonF32Tile8x1, neonF32Tile8x2, neonF32Tile8x3},
		},
		streams:    [3]func(*byte){neonF32Stream1, neonF32Stream2, neonF32Stream4},
		copies:     neonCopies(),
		transposes: []transpose{{4, 4, neonTranspose4F32}},
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
		streams:    [3]func(*byte){neonF64Stream1, neonF64Stream2, neonF64Stream4},
		copies:     neonCopies(),
		transposes: []transpose{{2, 2, neonTranspose2F64}},
	}
}

func neonCopies() map[int]func(n int, dst, src *byte, stride uintptr) {
	return map[int]func(n int, dst, src *byte, stride uintptr){16: neonCopy16, 32: neonCopy32, 48: neonCopy48, 64: neonCopy64}
}
