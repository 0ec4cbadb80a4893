package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Params returns an Arg holding a struct of 4-byte fields, in this order. A field is an int, int32,
// uint32, float32, float64 (rounded to float32) or bool (0 or 1). If a number does not fit, Params
// panics, and Build returns a RefusalError.
func Params(fields ...any) Arg {
	var b []byte
	put := func(x uint32) { b = binary.LittleEndian.AppendUint32(b, x) }
	for _, f := range fields {
		switch f := f.(type) {
		case int:
			if f != int(int32(f)) {
				panic(wide(f))
			}
			put(uint32(int32(f)))
		case int32:
			put(uint32(f))
		case uint32:
			put(f)
		case float32:
			put(math.Float32bits(f))
		case float64:
			put(math.Float32bits(float32(f)))
		case bool:
			if f {
				put(1)
			} else {
				put(0)
			}
		default:
			panic(fmt.Sprintf("kernels: parameter of type %T", f))
		}
	}
	return Arg{Kind: OfBytes, Bytes: b}
}

// wide is the value with which Params panics and which Build recovers.
type wide int
