package primitives

import (
	"math"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/work"
)

// lastKey is the order key of a NaN.
const lastKey = math.MaxUint64

// orderKeys returns a function from an element's place to an integer in the
// order of the elements: for floats -Inf .. Inf, NaN, all NaNs being equal.
// signed puts -0 before 0; otherwise they are equal.
func orderKeys(x array.Array, signed bool) func(i int) uint64 {
	switch x.Type.DType {
	case graph.F64:
		v := data[float64](x)
		return func(i int) uint64 { return floatKey(v[i], signed) }
	case graph.F32:
		v := data[float32](x)
		return func(i int) uint64 { return floatKey(float64(v[i]), signed) }
	case graph.BF16:
		v := data[array.Brain](x)
		return func(i int) uint64 { return floatKey(float64(v[i].Float32()), signed) }
	case graph.F16:
		v := data[array.Half](x)
		return func(i int) uint64 { return floatKey(float64(v[i].Float32()), signed) }
	case graph.I64:
		v := data[int64](x)
		return func(i int) uint64 { return uint64(v[i]) ^ 1<<63 }
	case graph.I32:
		v := data[int32](x)
		return func(i int) uint64 { return uint64(int64(v[i])) ^ 1<<63 }
	case graph.U32:
		v := data[uint32](x)
		return func(i int) uint64 { return uint64(v[i]) }
	default: // u8, bool
		v := work.Bits[uint8](x)
		return func(i int) uint64 { return uint64(v[i]) }
	}
}

func floatKey(x float64, signed bool) uint64 {
	switch b := math.Float64bits(x); {
	case x != x:
		return lastKey
	case x == 0 && !signed:
		return 1 << 63
	case b>>63 == 1:
		return ^b
	default:
		return b | 1<<63
	}
}
