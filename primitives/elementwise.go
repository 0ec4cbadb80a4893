package primitives

import (
	"sync/atomic"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
)

// integer is a Go type that stores an integer element type.
type integer interface{ uint8 | uint32 | int32 | int64 }

// number is a Go type that stores an element type with arithmetic of its own.
type number interface{ integer | float }

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
func each1[Y, X array.Elem](a *exec.Args, grain int, f func(y []Y, x []X)) {
	y, x := data[Y](a.Out[0]), data[X](a.In[0])
	if a.Alone(len(y), grain) { // as it mostly is, of pieces that are fused
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

// each2 runs f on pieces of the result and both arguments, which have one
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

// tiled runs f on pieces lo to hi of the result y and the arguments x, all f32,
// bf16 or f16, with the latter two widened to f32 and y rounded once. A result
// of another type is left to f, which is given nil for it. Arguments without
// dimensions are given whole. f is not made by the kernel itself, which would take
// memory.
func tiled(a *exec.Args, grain int, f tileFunc) {
	args := exec.NewDirty[tileArgs](a)
	args.start(a)
	exec.Share(a, a.Out[0].Type.Len(), grain, tiles{a, exec.RoomsOf[float32](a, (1+len(a.In))*tile), args, f})
}

// tileArgs are the arguments of a tileFunc, for each piece.
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

// tiles is the work of tiled, with room for a tile of every argument and of the
// result.
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

// wantNumber reports an element type without arithmetic.
func wantNumber(t graph.Type) error {
	if !t.DType.IsFloat() && !t.DType.IsInt() {
		return wantType(t, "a float or integer type")
	}
	return nil
}
