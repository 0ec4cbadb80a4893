package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
)

// Integer is a Go type that stores an integer element type.
type Integer interface{ uint8 | uint32 | int32 | int64 }

// Number is a Go type that stores an element type with arithmetic of its own.
type Number interface{ Integer | Float }

const (
	// cheap is the least number of elements worth a goroutine where an element
	// takes about a nanosecond, dear where it takes ten, and swift where it takes
	// as long as memory does.
	swift, cheap, dear = 1 << 19, 1 << 17, 1 << 14
	// tile is how many elements of bf16 and f16 are widened at a time: few
	// enough that they stay in the first-level cache.
	tile = 1024
)

// each1 runs f on pieces of the result and the argument, which have one shape.
func each1[Y, X array.Elem](a *lowering.Args, grain int, f func(y []Y, x []X)) {
	y, x := data[Y](a.Out[0]), data[X](a.In[0])
	if a.Alone(len(y), grain) {
		f(y, x)
		return
	}
	a.Parallel(len(y), grain, func(lo, hi int) { f(y[lo:hi], x[lo:hi]) })
}

// each2 runs f on pieces of the result and both arguments, which have one
// shape.
func each2[Z, X array.Elem](a *lowering.Args, grain int, f func(z []Z, x, y []X)) {
	z, x, y := data[Z](a.Out[0]), data[X](a.In[0]), data[X](a.In[1])
	if a.Alone(len(z), grain) {
		f(z, x, y)
		return
	}
	a.Parallel(len(z), grain, func(lo, hi int) { f(z[lo:hi], x[lo:hi], y[lo:hi]) })
}

// tiled runs f on pieces lo to hi of the result y and the arguments x, all f32,
// bf16 or f16, with the latter two widened to f32 and y rounded once. A result
// of another type is left to f, which is given nil for it. Arguments without
// dimensions are given whole.
func tiled(a *lowering.Args, grain int, f func(lo, hi int, y []float32, x [][]float32)) {
	n, rooms := a.Out[0].Type.Len(), (1+len(a.In))*tile
	if a.Alone(n, grain) {
		tiles(a, 0, n, lowering.Make[float32](a, rooms), f)
		return
	}
	a.Parallel(n, grain, func(lo, hi int) { tiles(a, lo, hi, make([]float32, rooms), f) })
}

// tiles is tiled for elements lo to hi, with room for a tile of every argument
// and of the result.
func tiles(a *lowering.Args, lo, hi int, room []float32, f func(lo, hi int, y []float32, x [][]float32)) {
	out := a.Out[0]
	x, last := make([][]float32, len(a.In)), room[len(a.In)*tile:]
	for ; lo < hi; lo += tile {
		end := min(lo+tile, hi)
		for i, in := range a.In {
			if in.Type.Rank() == 0 {
				x[i] = wideTile(in, room[i*tile:], 0, 1)
			} else {
				x[i] = wideTile(in, room[i*tile:], lo, end)
			}
		}
		switch y := last[:end-lo]; out.Type.DType {
		case graph.F32:
			f(lo, end, data[float32](out)[lo:end], x)
		case graph.BF16:
			f(lo, end, y, x)
			array.NarrowBrain(data[array.Brain](out)[lo:end], y)
		case graph.F16:
			f(lo, end, y, x)
			array.NarrowHalf(data[array.Half](out)[lo:end], y)
		default:
			f(lo, end, nil, x)
		}
	}
}

// wideTile returns elements lo to hi of x in f32: its own memory, or room.
func wideTile(x array.Array, room []float32, lo, hi int) []float32 {
	switch x.Type.DType {
	case graph.F32:
		return data[float32](x)[lo:hi]
	case graph.BF16:
		array.WidenBrain(room[:hi-lo], data[array.Brain](x)[lo:hi])
		return room[:hi-lo]
	case graph.F16:
		array.WidenHalf(room[:hi-lo], data[array.Half](x)[lo:hi])
		return room[:hi-lo]
	}
	return nil
}

// number reports an element type without arithmetic.
func number(t graph.Type) error {
	if !t.DType.IsFloat() && !t.DType.IsInt() {
		return wantType(t, "a float or integer type")
	}
	return nil
}
