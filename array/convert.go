package array

import (
	"bytes"
	"fmt"
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/quant"
)

// Convert sets dst to the elements of src, converted to dst's element type. Both have the
// same shape and do not overlap.
//
//   - To a float type: rounded once to nearest, ties to even; an overflow becomes
//     an infinity.
//   - To an 8-bit float: rounded in the same way; an overflow or an infinity becomes
//     the largest finite number (see E4M3Of and E5M2Of).
//   - Float to integer: truncated towards zero; a value out of range becomes the
//     nearest bound and a NaN becomes 0.
//   - Integer to integer: modulo 2 to the number of bits.
//   - To and from blocks: through f32, using quant.Quantize and quant.Dequantize.
//   - To bool: true if the element is not zero, including NaN. From bool: 0 or 1.
//
// Source: jax.lax.convert_element_type, which leaves floats that are out of range to the
// platform. Convert follows XLA's CPU backend, with one difference: that backend rounds an
// f64 or i64 twice on its way to bf16, and Convert rounds once.
func Convert(dst, src Array) error {
	if !sameShape(dst, src) {
		return fmt.Errorf("array: convert %s into %s: the shapes differ, want one shape", src.Type, dst.Type)
	}
	for _, a := range [...]Array{src, dst} {
		if _, size := a.Type.DType.Block(); size == 0 {
			return fmt.Errorf("array: convert %s into %s: element type %s has no values", src.Type, dst.Type, a.Type.DType)
		}
		if a.Type.DType.IsBlock() && a.Type.Check() != nil {
			return fmt.Errorf("array: convert %s into %s: %w", src.Type, dst.Type, a.Type.Check())
		}
	}
	if dst.Type.DType == src.Type.DType {
		copy(dst.mem, src.Bytes())
		return nil
	}
	if src.Type.DType.IsBlock() || dst.Type.DType.IsBlock() {
		return convertBlocks(dst, src)
	}
	switch src.Type.DType {
	case graph.Bool:
		bits := Data[bool](src)
		ints := make([]uint8, len(bits))
		for i, x := range bits {
			if x {
				ints[i] = 1
			}
		}
		fromInt(dst, ints)
	case graph.U8:
		fromInt(dst, Data[uint8](src))
	case graph.U32:
		fromInt(dst, Data[uint32](src))
	case graph.I32:
		fromInt(dst, Data[int32](src))
	case graph.I64:
		fromInt(dst, Data[int64](src))
	case graph.F16:
		widened(dst, Data[Half](src), WidenHalf)
	case graph.BF16:
		widened(dst, Data[Brain](src), WidenBrain)
	case graph.F8_E4M3:
		widened(dst, Data[E4M3](src), WidenE4M3)
	case graph.F8_E5M2:
		widened(dst, Data[E5M2](src), WidenE5M2)
	case graph.F32:
		fromFloat32(dst, Data[float32](src))
	case graph.F64:
		fromFloat64(dst, Data[float64](src))
	}
	return nil
}

// widened converts through f32.
func widened[E Elem](dst Array, src []E, widen func([]float32, []E)) {
	if dst.Type.DType == graph.F32 {
		widen(Data[float32](dst), src)
		return
	}
	wide := make([]float32, len(src))
	widen(wide, src)
	fromFloat32(dst, wide)
}

// convertBlocks converts through f32.
func convertBlocks(dst, src Array) error {
	wide := src
	if src.Type.DType.IsBlock() {
		if wide = dst; dst.Type.DType != graph.F32 {
			wide = New(src.Type.With(graph.F32))
		}
		if err := quant.Dequantize(Data[float32](wide), src.Type.DType, src.Bytes()); err != nil {
			return err
		}
		if dst.Type.DType == graph.F32 {
			return nil
		}
	}
	if !dst.Type.DType.IsBlock() {
		return Convert(dst, wide)
	}
	if wide.Type.DType != graph.F32 {
		wide = wide.As(graph.F32)
	}
	return quant.Quantize(dst.mem, dst.Type.DType, Data[float32](wide))
}

type integer interface {
	uint8 | uint32 | int32 | int64
}

type number interface {
	integer | float32 | float64
}

// rounded converts element by element.
func rounded[D, S any](dst []D, src []S, round func(S) D) {
	for i, x := range src {
		dst[i] = round(x)
	}
}

func fromInt[S integer](dst Array, src []S) {
	switch dst.Type.DType {
	case graph.Bool:
		notZero(Data[bool](dst), src)
	case graph.U8:
		cast(Data[uint8](dst), src)
	case graph.U32:
		cast(Data[uint32](dst), src)
	case graph.I32:
		cast(Data[int32](dst), src)
	case graph.I64:
		cast(Data[int64](dst), src)
	case graph.F16:
		rounded(Data[Half](dst), src, func(x S) Half { return HalfOf64(sticky(int64(x))) })
	case graph.BF16:
		rounded(Data[Brain](dst), src, func(x S) Brain { return BrainOf64(sticky(int64(x))) })
	case graph.F8_E4M3:
		rounded(Data[E4M3](dst), src, func(x S) E4M3 { return E4M3Of64(sticky(int64(x))) })
	case graph.F8_E5M2:
		rounded(Data[E5M2](dst), src, func(x S) E5M2 { return E5M2Of64(sticky(int64(x))) })
	case graph.F32:
		cast(Data[float32](dst), src)
	case graph.F64:
		cast(Data[float64](dst), src)
	}
}

func fromFloat32(dst Array, src []float32) {
	switch dst.Type.DType {
	case graph.F16:
		NarrowHalf(Data[Half](dst), src)
	case graph.BF16:
		NarrowBrain(Data[Brain](dst), src)
	case graph.F8_E4M3:
		NarrowE4M3(Data[E4M3](dst), src)
	case graph.F8_E5M2:
		NarrowE5M2(Data[E5M2](dst), src)
	case graph.F32:
		copy(Data[float32](dst), src)
	case graph.F64:
		cast(Data[float64](dst), src)
	default:
		floatToInt(dst, src)
	}
}

func fromFloat64(dst Array, src []float64) {
	switch dst.Type.DType {
	case graph.F16:
		rounded(Data[Half](dst), src, HalfOf64)
	case graph.BF16:
		rounded(Data[Brain](dst), src, BrainOf64)
	case graph.F8_E4M3:
		rounded(Data[E4M3](dst), src, E4M3Of64)
	case graph.F8_E5M2:
		rounded(Data[E5M2](dst), src, E5M2Of64)
	case graph.F32:
		cast(Data[float32](dst), src)
	case graph.F64:
		copy(Data[float64](dst), src)
	default:
		floatToInt(dst, src)
	}
}

func floatToInt[S float32 | float64](dst Array, src []S) {
	switch dst.Type.DType {
	case graph.Bool:
		notZero(Data[bool](dst), src)
	case graph.U8:
		saturate(Data[uint8](dst), src, 0, math.MaxUint8)
	case graph.U32:
		saturate(Data[uint32](dst), src, 0, math.MaxUint32)
	case graph.I32:
		saturate(Data[int32](dst), src, math.MinInt32, math.MaxInt32)
	case graph.I64:
		saturate(Data[int64](dst), src, math.MinInt64, math.MaxInt64)
	}
}

// cast converts like Go, which wraps integers and rounds floats to nearest.
func cast[D, S number](dst []D, src []S) {
	for i, x := range src {
		dst[i] = D(x)
	}
}

func notZero[S number](dst []bool, src []S) {
	for i, x := range src {
		dst[i] = x != 0
	}
}

// saturate compares before converting, because the result of Go's conversion is
// machine-dependent if the integer type cannot hold the float. float64(hi) is hi or, for
// int64, hi+1, so every smaller float fits.
func saturate[D integer, S float32 | float64](dst []D, src []S, lo, hi D) {
	flo, fhi := float64(lo), float64(hi)
	for i, x := range src {
		switch x := float64(x); {
		case x >= fhi:
			dst[i] = hi
		case x <= flo:
			dst[i] = lo
		case x != x:
			dst[i] = 0
		default:
			dst[i] = D(int64(x))
		}
	}
}

// sticky returns x as a float64. If it does not fit, the lowest bit of the result is set
// if any lost bit is, so that rounding the result to a narrower type is the same as
// rounding x.
func sticky(x int64) float64 {
	if -1<<53 <= x && x <= 1<<53 {
		return float64(x)
	}
	y := x >> 11 // an arithmetic shift rounds down, so the lost bits are never negative
	if x&(1<<11-1) != 0 {
		y |= 1
	}
	return float64(y) * (1 << 11)
}

// As returns a copy of a converted to element type d; see Convert. It panics if d or a's
// element type is not an element type, or if the last dimension of a is not a whole
// number of blocks of d.
func (a Array) As(d graph.DType) Array {
	b := New(a.Type.With(d))
	if err := Convert(b, a); err != nil {
		panic(err)
	}
	return b
}

// Float64s returns a copy of a's elements. An i64 beyond 2^53 is rounded.
func (a Array) Float64s() []float64 { return Data[float64](a.As(graph.F64)) }

// SetFloat64s sets a's elements to x; see Convert. It is an error if x does not have as
// many elements as a.
func (a Array) SetFloat64s(x []float64) error {
	if len(x) != a.Type.Len() {
		return fmt.Errorf("array: %d elements for %s, want %d", len(x), a.Type, a.Type.Len())
	}
	src, err := Of(x, a.Type.Shape...)
	if err != nil {
		return err
	}
	return Convert(a, src)
}

// Equal reports whether a and b have the same type and the same bits. A NaN equals
// itself if its bits do; 0 and -0 differ.
func Equal(a, b Array) bool { return a.Type.Equal(b.Type) && bytes.Equal(a.Bytes(), b.Bytes()) }

// MaxDiff returns the largest |a-b| over the elements of two arrays of the same shape,
// and the flat index of its first occurrence. Equal elements, including infinities,
// differ by 0, and so do two NaNs; a NaN and a number differ by +Inf. The index is -1 if
// the arrays are empty, or if the shapes differ; in the latter case max is +Inf.
func MaxDiff(a, b Array) (max float64, index int) {
	if !sameShape(a, b) {
		return math.Inf(1), -1
	}
	index = -1
	whole := a.Type.DType == graph.I64 && b.Type.DType == graph.I64
	x, y := a.Float64s(), b.Float64s()
	for i := range x {
		d := math.Abs(x[i] - y[i])
		switch nx, ny := x[i] != x[i], y[i] != y[i]; {
		case whole: // exact, because float64 could round both to the same number
			p, q := Data[int64](a)[i], Data[int64](b)[i]
			d = float64(uint64(p) - uint64(q))
			if p < q {
				d = float64(uint64(q) - uint64(p))
			}
		case x[i] == y[i] || nx && ny:
			d = 0
		case nx || ny:
			d = math.Inf(1)
		}
		if d > max || index < 0 {
			max, index = d, i
		}
	}
	return max, index
}

func sameShape(a, b Array) bool { return a.Type.With(graph.Bool).Equal(b.Type.With(graph.Bool)) }
