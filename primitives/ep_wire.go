package primitives

import (
	"math"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
)

// wireBytes returns the bytes of n values of type d on the wire, including the scales of their blocks.
func wireBytes(d graph.DType, n int) int {
	if d.IsF8() {
		return n + n/wireBlock*4
	}
	return n * d.Size()
}

// wireTypes returns the types of the fields of a combine's packed rows, and the wire type of their values.
// Values of 8 bits are followed by the scales of their blocks.
func wireTypes(e *lowering.Emitter, payload []lowering.Buf, weights int) ([]graph.Type, graph.DType) {
	types := rowTypes(bufTypes(payload), weights)
	if wire := e.Eqn.Prim.(CombineOp).Wire; wire != graph.NoDType {
		types[0].DType = wire
	}
	if wire := types[0].DType; wire.IsF8() {
		return slices.Insert(types, 1, graph.T(graph.F32, types[0].Shape[0]/wireBlock)), wire
	}
	return types, types[0].DType
}

// wireVariant returns the variant of operations packing or reading rows of type wire.
func wireVariant(payload []lowering.Buf, wire graph.DType) ops.Op {
	if wire != payload[0].Type.DType {
		return ops.Wire
	}
	return ops.None
}

// returnBuf returns a buffer for the packed rows of a combine, with the given fields. If columns of 8-bit rows are
// split unevenly, no fields are the same on every rank, because each rank stores its scales after its own columns. The
// buffer then has plain bytes.
func returnBuf(e *lowering.Emitter, payload lowering.Buf, rows int, types []graph.Type) lowering.Buf {
	if types[0].DType.IsF8() && !e.Even(payload, 1) {
		return e.Temp(graph.T(graph.U8, rows, bytesOf(types)))
	}
	return e.Packed(rows, types...)
}

// widenRow sets dst to the elements of src, of float type d. Elements of 8 bits are multiplied
// by the scales following them.
func widenRow[T float](dst []T, src []byte, d graph.DType) {
	switch d {
	case graph.F64:
		for i, x := range view[float64](src) {
			dst[i] = T(x)
		}
	case graph.F32:
		for i, x := range view[float32](src) {
			dst[i] = T(x)
		}
	case graph.BF16:
		if wide, ok := any(dst).([]float32); ok {
			array.WidenBrain(wide, view[array.Brain](src))
			return
		}
		for i, x := range view[array.Brain](src) {
			dst[i] = T(x.Float32())
		}
	case graph.F16:
		if wide, ok := any(dst).([]float32); ok {
			array.WidenHalf(wide, view[array.Half](src))
			return
		}
		for i, x := range view[array.Half](src) {
			dst[i] = T(x.Float32())
		}
	case graph.F8_E4M3, graph.F8_E5M2:
		var block [wireBlock]float32
		scales := view[float32](src[len(dst):])[:len(dst)/wireBlock] // other ranks may have more
		for b, scale := range scales {
			codes := src[b*wireBlock : (b+1)*wireBlock]
			if d == graph.F8_E4M3 {
				array.WidenE4M3(block[:], view[array.E4M3](codes))
			} else {
				array.WidenE5M2(block[:], view[array.E5M2](codes))
			}
			for i, x := range block {
				dst[b*wireBlock+i] = T(x * scale)
			}
		}
	}
}

// narrowRow writes src to dst as elements of float type d, each rounded once. If d has 8 bits, it
// quantises as QuantizeF8 does.
func narrowRow[T float](dst []byte, src []T, d graph.DType) {
	switch d {
	case graph.F64:
		for i, x := range src {
			view[float64](dst)[i] = float64(x)
		}
	case graph.F32:
		for i, x := range src {
			view[float32](dst)[i] = float32(x)
		}
	case graph.BF16:
		if wide, ok := any(src).([]float32); ok {
			array.NarrowBrain(view[array.Brain](dst), wide)
			return
		}
		for i, x := range src {
			view[array.Brain](dst)[i] = array.BrainOf64(float64(x))
		}
	case graph.F16:
		if wide, ok := any(src).([]float32); ok {
			array.NarrowHalf(view[array.Half](dst), wide)
			return
		}
		for i, x := range src {
			view[array.Half](dst)[i] = array.HalfOf64(float64(x))
		}
	case graph.F8_E4M3, graph.F8_E5M2:
		var block [wireBlock]float32
		scales := view[float32](dst[len(src):])[:len(src)/wireBlock]
		for b := range scales {
			m := float32(0)
			for i, x := range src[b*wireBlock : (b+1)*wireBlock] {
				block[i] = float32(x)
				m = max(m, float32(math.Abs(float64(block[i]))))
			}
			scale := m / largestF8(d)
			if scale == 0 {
				scale = 1
			}
			scales[b] = scale
			for i := range block {
				block[i] /= scale
			}
			codes := dst[b*wireBlock : (b+1)*wireBlock]
			if d == graph.F8_E4M3 {
				array.NarrowE4M3(view[array.E4M3](codes), block[:])
			} else {
				array.NarrowE5M2(view[array.E5M2](codes), block[:])
			}
		}
	}
}
