package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// QuantizeF8 returns x f[..,K] as codes of type d, f8_e4m3 or f8_e5m2, and scales f32[..,K/block]:
// element k is about codes[..,k]·scales[..,k/block]. A scale is the largest size in its
// block divided by the largest number of d, 448 or 57344, and 1 where that is 0. The block
// is 128 for rows as DeepSeek-V3 sends them, and K for one scale per row; for one scale of a
// whole value, reshape the value to one row. K must be a multiple of block.
//
// With m the largest size in a block, an element of f8_e4m3 is off by at most |x|/16 +
// m/450000, and one of f8_e5m2 by at most |x|/8 + m/7000000000, if m is at least 2^-110. A
// block with a NaN or an infinity becomes NaN when it is dequantised.
//
// Computes in f32. The gradient passes straight through: it is that of scales that are
// constants and of codes that are not rounded.
func QuantizeF8(x *graph.Value, d graph.DType, block int) (codes, scales *graph.Value) {
	graph.Helper()
	if !d.IsF8() {
		graph.Fail("quantize: element type %s, want f8_e4m3 or f8_e5m2", d)
	}
	parts := scaledParts(ConvertElementType(x, graph.F32), block)
	size := ReduceMax(Abs(parts), parts.Rank()-1)
	scales = Div(size, FullLike(size, float64(largestF8(d))))
	scales = StopGradient(Where(Eq(scales, ZerosLike(scales)), FullLike(scales, 1), scales))
	return Reshape(ConvertElementType(Div(parts, perPart(scales, block)), d), x.Type.Shape...), scales
}

// largestF8 returns the largest number of an 8-bit float type.
func largestF8(d graph.DType) float32 {
	if d == graph.F8_E5M2 {
		return array.E5M2(0x7b).Float32()
	}
	return array.E4M3(0x7e).Float32()
}

// DequantizeF8 returns codes f8[..,K] times their scales f32[..,K/block], each of which
// belongs to as many elements, rounded once to element type d. It is the inverse of
// QuantizeF8, whose block is K divided by the last size of scales.
func DequantizeF8(codes, scales *graph.Value, d graph.DType) *graph.Value {
	graph.Helper()
	if codes.Rank() == 0 || scales.Rank() != codes.Rank() || !slices.Equal(codes.Type.Shape[:codes.Rank()-1], scales.Type.Shape[:codes.Rank()-1]) {
		graph.Fail("dequantize: scales are %s, want one for each block of the rows of %s", scales.Type, codes.Type)
	}
	k, n := codes.Dim(-1), scales.Dim(-1)
	if n == 0 || k%n != 0 {
		graph.Fail("dequantize: %d scales for the %d columns of %s, want equal blocks", n, k, codes.Type)
	}
	parts := scaledParts(ConvertElementType(codes, graph.F32), k/n)
	return ConvertElementType(Reshape(Mul(parts, perPart(scales, k/n)), codes.Type.Shape...), d)
}

// scaledParts returns x [..,K] as [..,K/block,block].
func scaledParts(x *graph.Value, block int) *graph.Value {
	graph.Helper()
	if x.Rank() == 0 || block < 1 || x.Dim(-1)%block != 0 {
		graph.Fail("blocks of %d elements in %s, want a last dimension that is a multiple of the block", block, x.Type)
	}
	last := x.Rank() - 1
	return Reshape(x, append(slices.Clone(x.Type.Shape[:last]), x.Dim(last)/block, block)...)
}

// perPart returns scales [..,N] for parts [..,N,block].
func perPart(scales *graph.Value, block int) *graph.Value {
	graph.Helper()
	dims := make([]int, scales.Rank())
	for i := range dims {
		dims[i] = i
	}
	return BroadcastInDim(scales, append(slices.Clone(scales.Type.Shape), block), dims...)
}
