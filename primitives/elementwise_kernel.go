package primitives

import (
	"math"
	"sync/atomic"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/lowering/ops"
)

// integer is a Go type storing an integer element type.
type integer interface{ uint8 | uint32 | int32 | int64 }

// number is a Go numeric type storing an element type.
type number interface{ integer | float }

const (
	// These are the least numbers of elements worth a goroutine: swift if bound by
	// memory, cheap if an element takes about a nanosecond, and dear if it takes ten.
	swift, cheap, dear = 1 << 19, 1 << 17, 1 << 14
	// tile is the number of elements of bf16 and f16 widened at a time, staying in
	// the first-level cache.
	tile = 1024
)

// floats1 returns the kernel of a function of one float argument. few and grain are the least pieces of f32 and
// of other types.
func floats1(few, grain int, f32 func(y, x []float32), f64 func(y, x []float64)) exec.Kernel {
	wide := func(_ *exec.Args, _, _ int, y []float32, x [][]float32) { f32(y, x[0]) }
	return func(a *exec.Args) error {
		switch a.Out[0].Type.DType {
		case graph.F32:
			each1(a, few, f32)
		case graph.F64:
			each1(a, grain, f64)
		default:
			tiled(a, grain, wide)
		}
		return nil
	}
}

// numbers1 is floats1 for a function of integers too.
func numbers1(few, grain int, f32 func(y, x []float32), f64 func(y, x []float64),
	i32 func(y, x []int32), i64 func(y, x []int64), u32 func(y, x []uint32), u8 func(y, x []uint8)) exec.Kernel {
	float := floats1(few, grain, f32, f64)
	return func(a *exec.Args) error {
		switch a.Out[0].Type.DType {
		case graph.I32:
			each1(a, grain, i32)
		case graph.I64:
			each1(a, grain, i64)
		case graph.U32:
			each1(a, grain, u32)
		case graph.U8:
			each1(a, grain, u8)
		default:
			return float(a)
		}
		return nil
	}
}

// floats2 is floats1 for a function of two arguments.
func floats2(few, grain int, f32 func(z, x, y []float32), f64 func(z, x, y []float64)) exec.Kernel {
	wide := func(_ *exec.Args, _, _ int, z []float32, x [][]float32) { f32(z, x[0], x[1]) }
	return func(a *exec.Args) error {
		switch a.Out[0].Type.DType {
		case graph.F32:
			each2(a, few, f32)
		case graph.F64:
			each2(a, grain, f64)
		default:
			tiled(a, grain, wide)
		}
		return nil
	}
}

// numbers2 is floats2 for a function of integers too. Bool is computed as the integers 0 and 1.
func numbers2(few, grain int, f32 func(z, x, y []float32), f64 func(z, x, y []float64),
	i32 func(z, x, y []int32), i64 func(z, x, y []int64), u32 func(z, x, y []uint32), u8 func(z, x, y []uint8)) exec.Kernel {
	float := floats2(few, grain, f32, f64)
	return func(a *exec.Args) error {
		switch a.Out[0].Type.DType {
		case graph.I32:
			each2(a, grain, i32)
		case graph.I64:
			each2(a, grain, i64)
		case graph.U32:
			each2(a, grain, u32)
		case graph.U8:
			each2(a, grain, u8)
		case graph.Bool:
			u8(work.Bits[uint8](a.Out[0]), work.Bits[uint8](a.In[0]), work.Bits[uint8](a.In[1]))
		default:
			return float(a)
		}
		return nil
	}
}

// widened1 returns the kernel of a function computed in f32 for narrower floats.
func widened1(grain int, f32 func(y, x []float32), f64 func(y, x []float64)) exec.Kernel {
	return inFloat(func(a *exec.Args) error {
		each1(a, grain, f32)
		return nil
	}, func(a *exec.Args) error {
		each1(a, grain, f64)
		return nil
	})
}

// widened2 is widened1 for a function of two arguments.
func widened2(grain int, f32 func(z, x, y []float32), f64 func(z, x, y []float64)) exec.Kernel {
	return inFloat(func(a *exec.Args) error {
		each2(a, grain, f32)
		return nil
	}, func(a *exec.Args) error {
		each2(a, grain, f64)
		return nil
	})
}

// compare returns the kernel of a comparison.
func compare(f32 func(z []bool, x, y []float32), f64 func(z []bool, x, y []float64), i32 func(z []bool, x, y []int32),
	i64 func(z []bool, x, y []int64), u32 func(z []bool, x, y []uint32), u8 func(z []bool, x, y []uint8)) exec.Kernel {
	wide := func(a *exec.Args, lo, hi int, _ []float32, x [][]float32) {
		f32(data[bool](a.Out[0])[lo:hi], x[0], x[1])
	}
	return func(a *exec.Args) error {
		switch a.In[0].Type.DType {
		case graph.F64:
			each2(a, cheap, f64)
		case graph.I32:
			each2(a, cheap, i32)
		case graph.I64:
			each2(a, cheap, i64)
		case graph.U32:
			each2(a, cheap, u32)
		case graph.U8:
			each2(a, cheap, u8)
		case graph.Bool:
			u8(data[bool](a.Out[0]), work.Bits[uint8](a.In[0]), work.Bits[uint8](a.In[1]))
		default:
			tiled(a, cheap, wide)
		}
		return nil
	}
}

// each1 runs f on pieces of the result and the argument, which have the same shape.
func each1[Y, X array.Elem](a *exec.Args, grain int, f func(y []Y, x []X)) {
	y, x := data[Y](a.Out[0]), data[X](a.In[0])
	if a.Alone(len(y), grain) { // mostly so in a fused chain, which runs on small pieces
		f(y, x)
		return
	}
	exec.Share(a, len(y), grain, elements1[Y, X]{y, x, f})
}

type elements1[Y, X array.Elem] struct {
	y []Y
	x []X
	f func(y []Y, x []X)
}

func (w *elements1[Y, X]) Piece(lo, hi int) { w.f(w.y[lo:hi], w.x[lo:hi]) }

// each2 runs f on pieces of the result and both arguments, which have the same
// shape.
func each2[Z, X array.Elem](a *exec.Args, grain int, f func(z []Z, x, y []X)) {
	z, x, y := data[Z](a.Out[0]), data[X](a.In[0]), data[X](a.In[1])
	if a.Alone(len(z), grain) {
		f(z, x, y)
		return
	}
	exec.Share(a, len(z), grain, elements2[Z, X]{z, x, y, f})
}

type elements2[Z, X array.Elem] struct {
	z    []Z
	x, y []X
	f    func(z []Z, x, y []X)
}

func (w *elements2[Z, X]) Piece(lo, hi int) { w.f(w.z[lo:hi], w.x[lo:hi], w.y[lo:hi]) }

// tiled calls f(a, lo, hi, y, x) for pieces of the result, elements [lo, hi). x are the
// arguments' elements and y the result's, in f32: arguments in bf16 and f16 are widened
// before calling f, and y is rounded once afterwards. For a result of another type y is
// nil, and f writes the result itself. A scalar argument is passed as one element. To avoid
// allocating in every run, the caller creates f once.
func tiled(a *exec.Args, grain int, f tileFunc) {
	args := exec.NewDirty[tileArgs](a)
	args.start(a)
	exec.Share(a, a.Out[0].Type.Len(), grain, tiles{a, exec.RoomsOf[float32](a, (1+len(a.In))*tile), args, f})
}

// tileArgs is memory for the slices x passed to a tileFunc, for each piece.
type tileArgs struct {
	all  [][]float32
	each int
	next atomic.Int32
}

func (t *tileArgs) start(a *exec.Args) {
	t.each = len(a.In)
	t.next.Store(0)
	if n := t.each * max(a.Threads, 1); len(t.all) < n {
		t.all = make([][]float32, n)
	}
}

func (t *tileArgs) take() [][]float32 {
	at := (int(t.next.Add(1)) - 1) * t.each
	return t.all[at : at+t.each]
}

type tileFunc func(a *exec.Args, lo, hi int, y []float32, x [][]float32)

// tiles is the work of tiled. A room holds a tile of every argument and of the result.
type tiles struct {
	*exec.Args
	rooms *exec.Rooms[float32]
	args  *tileArgs
	f     tileFunc
}

func (w *tiles) Piece(lo, hi int) {
	a, f, room := w.Args, w.f, w.rooms.Take()
	out := a.Out[0]
	x, last := w.args.take(), room[len(a.In)*tile:]
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
			f(a, lo, end, data[float32](out)[lo:end], x)
		case graph.BF16:
			f(a, lo, end, y, x)
			array.NarrowBrain(data[array.Brain](out)[lo:end], y)
		case graph.F16:
			f(a, lo, end, y, x)
			array.NarrowHalf(data[array.Half](out)[lo:end], y)
		default:
			f(a, lo, end, nil, x)
		}
	}
}

// wideTile returns elements [lo, hi) of x in f32. They alias x if x is f32; bf16 and f16 are
// widened into room. It returns nil for other element types.
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

// The loops of elementwise functions missing in package vector.

func negate[T integer](y, x []T) {
	for i, v := range x {
		y[i] = -v
	}
}

// magnitude is for signed types. The least integer is its own negative.
func magnitude[T integer](y, x []T) {
	for i, v := range x {
		y[i] = max(v, -v)
	}
}

func sign[T integer](y, x []T) {
	for i, v := range x {
		switch {
		case v > 0:
			v = 1
		case v < 0:
			v = ^T(0)
		}
		y[i] = v
	}
}

func square[T integer](y, x []T) {
	for i, v := range x {
		y[i] = v * v
	}
}

func add[T integer](z, x, y []T) {
	x, y = x[:len(z)], y[:len(z)]
	for i := range z {
		z[i] = x[i] + y[i]
	}
}

func subtract[T integer](z, x, y []T) {
	x, y = x[:len(z)], y[:len(z)]
	for i := range z {
		z[i] = x[i] - y[i]
	}
}

func multiplyInts[T integer](z, x, y []T) {
	x, y = x[:len(z)], y[:len(z)]
	for i := range z {
		z[i] = x[i] * y[i]
	}
}

func greater[T integer](z, x, y []T) {
	x, y = x[:len(z)], y[:len(z)]
	for i := range z {
		z[i] = max(x[i], y[i])
	}
}

func lesser[T integer](z, x, y []T) {
	x, y = x[:len(z)], y[:len(z)]
	for i := range z {
		z[i] = min(x[i], y[i])
	}
}

// divide gives all bits set for a division by 0. The least integer divided by -1 wraps to itself.
func divide[T integer](z, x, y []T) {
	for i := range z {
		if y[i] == 0 {
			z[i] = ^T(0)
		} else {
			z[i] = x[i] / y[i]
		}
	}
}

func modulo[T integer](z, x, y []T) {
	for i := range z {
		if y[i] == 0 {
			z[i] = x[i]
		} else {
			z[i] = x[i] % y[i]
		}
	}
}

// remainder computes in f64, where the remainder of f32 is exact.
func remainder[T float](z, x, y []T) {
	for i := range z {
		z[i] = T(math.Mod(float64(x[i]), float64(y[i])))
	}
}

func equal[T number](z []bool, x, y []T) {
	for i := range z {
		z[i] = x[i] == y[i]
	}
}

func unequal[T number](z []bool, x, y []T) {
	for i := range z {
		z[i] = x[i] != y[i]
	}
}

func less[T number](z []bool, x, y []T) {
	for i := range z {
		z[i] = x[i] < y[i]
	}
}

func atMost[T number](z []bool, x, y []T) {
	for i := range z {
		z[i] = x[i] <= y[i]
	}
}

func exceeds[T number](z []bool, x, y []T) {
	for i := range z {
		z[i] = x[i] > y[i]
	}
}

func reaches[T number](z []bool, x, y []T) {
	for i := range z {
		z[i] = x[i] >= y[i]
	}
}

func finite(a *exec.Args) error {
	if a.In[0].Type.DType == graph.F64 {
		each1(a, cheap, areFinite[float64])
		return nil
	}
	tiled(a, cheap, finiteTile)
	return nil
}

func finiteTile(a *exec.Args, lo, hi int, _ []float32, x [][]float32) {
	areFinite(data[bool](a.Out[0])[lo:hi], x[0])
}

func areFinite[T float](y []bool, x []T) {
	for i, v := range x {
		y[i] = v-v == 0 // NaN for infinities and NaN
	}
}

// bitwise returns the kernel of a logical function.
func bitwise(op ops.Op) exec.Kernel {
	return func(a *exec.Args) error {
		switch d := a.Out[0].Type.DType; d.Size() {
		case 1:
			ones := ^uint8(0)
			if d == graph.Bool {
				ones = 1
			}
			bitwiseWords(a, op, ones)
		case 4:
			bitwiseWords(a, op, ^uint32(0))
		default:
			bitwiseWords(a, op, ^uint64(0))
		}
		return nil
	}
}

// bitwiseWords computes on unsigned integers of the size of ones, the bits flipped by `not`.
func bitwiseWords[T uint8 | uint32 | uint64](a *exec.Args, op ops.Op, ones T) {
	z, x := work.Bits[T](a.Out[0]), work.Bits[T](a.In[0])
	y := x
	if len(a.In) > 1 {
		y = work.Bits[T](a.In[1])
	}
	exec.Share(a, len(z), cheap, bitwiseElements[T]{z, x, y, op, ones})
}

type bitwiseElements[T uint8 | uint32 | uint64] struct {
	z, x, y []T
	op      ops.Op
	ones    T
}

func (w *bitwiseElements[T]) Piece(lo, hi int) {
	z, x, y := w.z, w.x, w.y
	switch w.op {
	case ops.Not:
		for i := lo; i < hi; i++ {
			z[i] = x[i] ^ w.ones
		}
	case ops.And:
		for i := lo; i < hi; i++ {
			z[i] = x[i] & y[i]
		}
	case ops.Or:
		for i := lo; i < hi; i++ {
			z[i] = x[i] | y[i]
		}
	case ops.Xor:
		for i := lo; i < hi; i++ {
			z[i] = x[i] ^ y[i]
		}
	}
}
