package primitives

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
)

// The payload of a row is the token's values, and behind them the pair's
// weight if weights travel along. The first payload array has one row per
// token, the second one element per pair; of dispatched rows both have one
// entry per row.

// rowBytes returns the bytes of one row of the payload.
func rowBytes(payload []lowering.Buf) int {
	t := payload[0].Type
	n := t.Shape[1] * t.DType.Size()
	if len(payload) == 2 {
		n += payload[1].Type.DType.Size()
	}
	return n
}

// entry returns the bytes of entry i of a, which has a row of one or more
// elements per entry.
func entry(a array.Array, i int) []byte {
	size := a.Type.DType.Size()
	if a.Type.Rank() == 2 {
		size *= a.Type.Shape[1]
	}
	return a.Bytes()[i*size : (i+1)*size]
}

// element returns the bytes of element i of a, whatever its shape.
func element(a array.Array, i int) []byte {
	size := a.Type.DType.Size()
	return a.Bytes()[i*size : (i+1)*size]
}

// packRow writes entry `row` of the payload, and the weight of element `pair`
// if there are weights, to dst.
func packRow(dst []byte, payload []array.Array, row, pair int) {
	n := copy(dst, entry(payload[0], row))
	if len(payload) == 2 {
		copy(dst[n:], element(payload[1], pair))
	}
}

// unpackRow writes the packed row src to entry i of the rows.
func unpackRow(rows []array.Array, src []byte, i int) {
	n := copy(entry(rows[0], i), src)
	if len(rows) == 2 {
		copy(element(rows[1], i), src[n:])
	}
}

// eachMoved calls f for ranges of 0..n, where each number stands for a row of
// size bytes that is copied to a place of its own.
func eachMoved(a *lowering.Args, n, size int, f func(lo, hi int)) {
	a.Parallel(n, 1+4*cheap/(1+size), f)
}

// total returns the sum of i32 counts.
func total(a array.Array) int {
	n := 0
	for _, c := range data[int32](a) {
		n += int(c)
	}
	return n
}

// sumHome writes to Out[0] every token's sum over its k choices in order, and
// to Out[1], if there is one, every pair's weight. row returns the bytes of a
// pair's values and of its weight, nil if the pair went nowhere. bf16 and f16
// add in f32 and round once.
func sumHome(a *lowering.Args, k int, row func(pair int) (x, w []byte)) {
	switch a.Out[0].Type.DType {
	case graph.F64:
		sumTokens(a, k, row, func(acc []float64, x []byte) { addTo(acc, view[float64](x)) }, func(dst []byte, acc []float64) { copy(view[float64](dst), acc) })
	case graph.F32:
		sumTokens(a, k, row, func(acc []float32, x []byte) { addTo(acc, view[float32](x)) }, func(dst []byte, acc []float32) { copy(view[float32](dst), acc) })
	case graph.BF16:
		sumTokens(a, k, row, func(acc []float32, x []byte) {
			for i, v := range view[array.Brain](x) {
				acc[i] += v.Float32()
			}
		}, func(dst []byte, acc []float32) { array.NarrowBrain(view[array.Brain](dst), acc) })
	case graph.F16:
		sumTokens(a, k, row, func(acc []float32, x []byte) {
			for i, v := range view[array.Half](x) {
				acc[i] += v.Float32()
			}
		}, func(dst []byte, acc []float32) { array.NarrowHalf(view[array.Half](dst), acc) })
	}
}

func sumTokens[T Float](a *lowering.Args, k int, row func(pair int) (x, w []byte), add func(acc []T, x []byte), store func(dst []byte, acc []T)) {
	out := a.Out[0]
	a.Parallel(out.Type.Shape[0], 1+cheap/(1+k*out.Type.Shape[1]), func(lo, hi int) {
		acc := make([]T, out.Type.Shape[1])
		for t := lo; t < hi; t++ {
			clear(acc)
			for pair := t * k; pair < (t+1)*k; pair++ {
				x, w := row(pair)
				if x != nil {
					add(acc, x)
				}
				if len(a.Out) == 2 {
					dst := element(a.Out[1], pair)
					clear(dst)
					copy(dst, w)
				}
			}
			store(entry(out, t), acc)
		}
	})
}

func addTo[T Float](acc, x []T) {
	for i, v := range x {
		acc[i] += v
	}
}

// view reads bytes as elements.
func view[E array.Elem](b []byte) []E {
	var e E
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(e)))
}
