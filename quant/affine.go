package quant

import "math"

// QuantizeAffine quantises x like MLX: each group of numbers becomes integers of `bits`
// bits, 4 or 8, packed in words from the lowest bits up, with a scale and a bias. A
// number is approximately its integer times the scale, plus the bias. The number of a
// group with the largest absolute value is exact, and so is 0 if the group has both
// signs. len(x) is a multiple of group, and the results have len(x)·bits/32 words and
// len(x)/group scales and biases. Source: mlx.core.quantize.
func QuantizeAffine(words []uint32, scales, biases, x []float32, bits, group int) {
	most, per := float32(uint32(1)<<bits-1), 32/bits
	clear(words[:len(x)/per])
	for g := range len(x) / group {
		xs := x[g*group:][:group]
		low, high := xs[0], xs[0]
		for _, v := range xs {
			low, high = min(low, v), max(high, v)
		}
		scale, edge := max((high-low)/most, 1e-7), low
		if !(abs(low) > abs(high)) {
			scale, edge = -scale, high
		}
		bias := float32(0)
		if q := rint(edge / scale); q != 0 {
			scale, bias = edge/q, edge
		}
		for i, v := range xs {
			q := uint32(min(max(rint((v-bias)/scale), 0), most))
			at := g*group + i
			words[at/per] |= q << (at % per * bits)
		}
		scales[g], biases[g] = scale, bias
	}
}

// DequantizeAffine sets x to the numbers encoded by words, scales and biases, rounded
// after the product and after the sum. Lengths are as in QuantizeAffine.
func DequantizeAffine(x []float32, words []uint32, scales, biases []float32, bits, group int) {
	mask, per := uint32(1)<<bits-1, 32/bits
	for i := range x {
		q := words[i/per] >> (i % per * bits) & mask
		x[i] = float32(float32(q)*scales[i/group]) + biases[i/group]
	}
}

func abs(x float32) float32 { return float32(math.Abs(float64(x))) }

func rint(x float32) float32 { return float32(math.RoundToEven(float64(x))) }
