package gemm

import (
	"golang.org/x/sys/cpu"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/pack"
)

// hasDot reports whether the processor has VDPBF16PS, and multiplies faster with it than
// with fused multiply-adds of float32. Zen 5 does 440 GFLOP/s with it and 236 without;
// Sapphire Rapids 120 and 239, so it is not used on Intel's processors.
func hasDot() bool {
	if !cpu.X86.HasAVX512BF16 || !cpu.X86.HasAVX512BW {
		return false
	}
	b, d, c := vendor()
	name := string([]byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24), byte(d), byte(d >> 8), byte(d >> 16), byte(d >> 24), byte(c), byte(c >> 8), byte(c >> 16), byte(c >> 24)})
	return name == "AuthenticAMD" || name == "HygonGenuine"
}

func dotSet() *halfSet {
	tiles := [3][tileVecs]func(*byte){
		{dotTile1x1, dotTile1x2, dotTile1x3},
		{dotTile4x1, dotTile4x2, dotTile4x3},
		{dotTile8x1, dotTile8x2, dotTile8x3},
	}
	return &halfSet{
		name: "vdpbf16ps", step: dotStep, deep: dotDeep, rows: 128, copy: 4 * dotDeep, most: 8, wide: tileVecs * pairLanes,
		tile: func(rows, vecs int) (func(*byte), int) {
			switch {
			case rows == 1:
				return tiles[0][vecs-1], 1
			case rows <= 4:
				return tiles[1][vecs-1], 4
			}
			return tiles[2][vecs-1], 8
		},
		streams:    [3]func(*byte){dotStream1, dotStream2, dotStream4},
		few:        4 * streamRows,
		strips:     &stripSet{[stripMost]func(*byte){dotStrip1, dotStrip2, dotStrip3, dotStrip4, dotStrip5, dotStrip6, dotStrip7, dotStrip8}, stripMost},
		pairRows:   pairCopies(),
		transposes: pack.Of(kernel.AVX512, 4).Transposes,
	}
}

func amxSet() *halfSet {
	return &halfSet{
		name: "tdpbf16ps", step: amxStep, deep: amxDeep, copy: amxDeep, most: 2 * squareRows, wide: 2 * pairLanes,
		tile: func(rows, vecs int) (func(*byte), int) {
			tiles := [2][2]func(*byte){{amxTile1x1, amxTile1x2}, {amxTile2x1, amxTile2x2}}
			return amxTileOf(tiles, rows, vecs)
		},
		round:      amxTile2x2Round,
		squares:    true,
		streams:    [3]func(*byte){amxStream1, amxStream2, amxStream4},
		few:        streamRows,
		pairRows:   pairCopies(),
		transposes: pack.Of(kernel.AVX2, 4).Transposes,
	}
}

func pairCopies() []pack.Transposition {
	return []pack.Transposition{{Lanes: 48, Deep: 1, Do: pairRows48}, {Lanes: 32, Deep: 1, Do: pairRows32}, {Lanes: 16, Deep: 1, Do: pairRows16}, {Lanes: 8, Deep: 1, Do: pairRows8}}
}

// avx512Streams returns the streams for B of bf16 and for B of f16.
func avx512Streams() [2][3]func(*byte) {
	return [2][3]func(*byte){{avx512BrainF32Stream1, avx512BrainF32Stream2, avx512BrainF32Stream4},
		{avx512HalfF32Stream1, avx512HalfF32Stream2, avx512HalfF32Stream4}}
}

func avx2Streams() [2][3]func(*byte) {
	return [2][3]func(*byte){{avx2BrainF32Stream1, avx2BrainF32Stream2, avx2BrainF32Stream4},
		{avx2HalfF32Stream1, avx2HalfF32Stream2, avx2HalfF32Stream4}}
}

// brainStrips are the strips for A of float32 and B of bf16.
func brainStrips() *stripSet {
	return &stripSet{[stripMost]func(*byte){avx2BrainStrip1, avx2BrainStrip2, avx2BrainStrip3, avx2BrainStrip4, avx2BrainStrip5, avx2BrainStrip6, avx2BrainStrip7, avx2BrainStrip8}, 4}
}
