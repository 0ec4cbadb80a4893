package gemm

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// Parts are the numbers of a matrix of f32 as sums of two bf16, made by Split. Without
// Low they are the numbers rounded to bf16.
type Parts struct{ High, Low []array.Brain }

// From returns the parts from element i on.
func (p Parts) From(i int) Parts {
	if p.Low != nil {
		p.Low = kernel.From(p.Low, i)
	}
	return Parts{kernel.From(p.High, i), p.Low}
}

// Split sets p to the parts of x: High to x rounded to bf16, and Low, if it is not nil,
// to x - High rounded to bf16. So |x - High - Low| is at most 2^-16·|x|, or 2^-134 if
// that is more. A number that would be rounded to an infinity becomes the largest bf16 of
// its sign; then the bound is 2^-15·|x|. Low is 0 if x is NaN or infinite.
func (p Parts) Split(x []float32) {
	const chunk = 512
	var wide [chunk]float32
	for i := 0; i < len(x); i += chunk {
		from := x[i:min(i+chunk, len(x))]
		n := len(from)
		high, rest := p.High[i:][:n], wide[:n]
		array.NarrowBrain(high, from)
		if p.Low == nil {
			if notFinite(high) {
				splitEach(high, nil, from)
			}
			continue
		}
		low := p.Low[i:][:n]
		array.WidenBrain(rest, high)
		vector.Sub(rest, from, rest)
		array.NarrowBrain(low, rest)
		if notFinite(low) { // finite high
			splitEach(high, low, from)
		}
	}
}

// splitEach is Split one number at a time.
func splitEach(high, low []array.Brain, x []float32) {
	for i, v := range x {
		high[i] = array.BrainOf(v)
		finite := v-v == 0
		if h := high[i].Float32(); finite && h-h != 0 {
			high[i] = array.Brain(math.Float32bits(v) >> 16)
		}
		switch {
		case low == nil:
		case finite:
			low[i] = array.BrainOf(v - high[i].Float32())
		default:
			low[i] = 0
		}
	}
}

// notFinite reports whether a number of x is an infinity or NaN: its exponent overflows if 1 is
// added.
func notFinite(x []array.Brain) bool {
	const size, one, sign = 0x7fff7fff7fff7fff, 0x0080008000800080, 0x8000800080008000
	var all uint64
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 2*len(x))
	for ; len(bytes) >= 8; bytes = bytes[8:] {
		all |= binary.NativeEndian.Uint64(bytes)&size + one
	}
	for _, v := range x[len(x)&^3:] {
		all |= uint64(v&0x7fff) + 0x80
	}
	return all&sign != 0
}

// MultiplyParts sets C = A·B, for A and B in parts and C of float32. Sizes and strides
// are as in Multiply. C is the sum, in this order, of MultiplyHalf of A's low and B's
// high parts, of A's high and B's low parts, and of both high parts; or only the last. A
// and B both have low parts, or neither.
//
// With low parts, and numbers neither so small that an engine takes them for 0 nor so
// large that a sum overflows, an element is off by at most
//
//	(3·2^-16 + 2^-30 + (3k + 8)·2^-24) · Σ|a·b|
//
// The first terms bound the product of both low parts and the remainders of the parts,
// the last term the additions. Without low parts it is (2^-7 + 2^-16 + (k + 8)·2^-24) ·
// Σ|a·b|. With low parts, products of an infinity may be NaN, because its parts are
// multiplied by both signs or by 0.
func MultiplyParts(dry *kernel.Dry, m, n, k int, a Parts, ars, acs int, b Parts, brs, bcs int, c []float32, ldc int) {
	product := func(x, y []array.Brain, acc bool) {
		MultiplyHalfPanels(dry, m, n, k, x, ars, acs, Matrix[array.Brain]{X: y, Row: brs, Col: bcs}, c, ldc, acc)
	}
	lows := a.Low != nil && b.Low != nil
	if lows {
		product(a.Low, b.High, false)
		product(a.High, b.Low, true)
	}
	product(a.High, b.High, lows)
}
