package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// inferReduce returns the type of a reduction that drops axes.
func inferReduce(in []graph.Type, axes []int) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if err := axesOf(in[0], axes); err != nil {
		return nil, err
	}
	return []graph.Type{without(in[0], axes)}, nil
}

// without returns t without the dimensions axes.
func without(t graph.Type, axes []int) graph.Type {
	out := graph.Type{DType: t.DType}
	for _, d := range kept(t.Rank(), axes) {
		out.Shape = append(out.Shape, t.Shape[d])
	}
	return out
}

// kept returns the dimensions below rank that are not in axes.
func kept(rank int, axes []int) []int {
	var out []int
	for d := range rank {
		if !slices.Contains(axes, d) {
			out = append(out, d)
		}
	}
	return out
}

// orAll returns axes, or every axis of x if there are none.
func orAll(x *graph.Value, axes []int) []int {
	if len(axes) == 0 {
		return kept(x.Rank(), nil)
	}
	return slices.Clone(axes)
}

// reduceFactors are the factors of a reduction over axes.
func reduceFactors(t graph.Type, axes []int) sharding.Factors {
	f := sharding.Elementwise(t, 1, 0, sharding.NotLinear)
	f.Out, f.Sum = [][]int{kept(t.Rank(), axes)}, axes
	return f
}

// placeReduce places a reduction whose lowering gathers split axes, so that no sum
// stays pending. It returns an error for reductions over rows in expert order: rows
// that are not in use are zeros and would take part.
func placeReduce(c *sharding.Context, axes []int) (sharding.Decision, error) {
	f := reduceFactors(c.Type(0), axes)
	if c.In[0].Ragged != nil {
		f.In = [][]int{slices.Clone(f.In[0])}
		for _, d := range axes {
			f.In[0][d] = sharding.Whole
		}
	}
	dec, err := c.Place(f)
	if err == nil {
		dec.Out[0].Pending = nil
	}
	return dec, err
}

// splitOf returns those of axes that are split.
func splitOf(b lowering.Buf, axes []int) []int {
	return slices.DeleteFunc(slices.Clone(axes), func(d int) bool { return len(b.Spec.At(d)) == 0 })
}

// lowerInOrder lowers a reduction over ascending axes whose kernel reduces them from the
// last to the first. It reduces the axes behind the last split axis, gathers the
// split axes, and reduces the rest, so that the arithmetic is the same on every
// mesh.
func lowerInOrder(e *lowering.Emitter, op ops.Op, axes []int, out, in []lowering.Buf, kernel func(axes []int) exec.Kernel) error {
	split := splitOf(in[0], axes)
	if len(split) == 0 {
		return reduction(e, op, axes, out, in, kernel)
	}
	x, global := in[0], e.Eqn.In[0].Type
	n := 1 + slices.Index(axes, split[len(split)-1])
	if tail := axes[n:]; len(tail) > 0 {
		spec := sharding.Spec{}
		for _, d := range kept(global.Rank(), tail) {
			spec.Dims = append(spec.Dims, x.Spec.At(d))
		}
		global = without(global, tail)
		if global.DType == graph.BF16 || global.DType == graph.F16 {
			global.DType = graph.F32 // so that the result is rounded once
		}
		x = e.Placed(global, spec)
		if err := reduction(e, op, tail, []lowering.Buf{x}, in, kernel); err != nil {
			return err
		}
	}
	whole := sharding.Spec{Dims: slices.Clone(x.Spec.Dims)}
	for _, d := range split {
		whole.Dims[d] = nil
	}
	got, err := e.Reshard(global, x, whole)
	if err != nil {
		return err
	}
	return reduction(e, op, axes[:n], out, []lowering.Buf{got}, kernel)
}

// lowerAnyOrder lowers a reduction that is exact in any order: each rank reduces
// its part, and the results of the ranks are gathered and reduced.
func lowerAnyOrder(e *lowering.Emitter, op ops.Op, axes []int, out, in []lowering.Buf, kernel func(axes []int) exec.Kernel) error {
	split := splitOf(in[0], axes)
	if len(split) == 0 {
		return reduction(e, op, axes, out, in, kernel)
	}
	// One row per rank of the axes that split what is reduced.
	spec := sharding.Spec{Dims: make([][]string, 1+out[0].Type.Rank())}
	for _, d := range split {
		spec.Dims[0] = append(spec.Dims[0], in[0].Spec.At(d)...)
	}
	for d := range out[0].Type.Rank() {
		spec.Dims[1+d] = out[0].Spec.At(d)
	}
	spec.Dims[0] = e.Mesh.Evenly(spec.Dims[0])
	ranks := e.Mesh.Parts(spec.Dims[0])
	global := e.Eqn.Out[0].Type
	global.Shape = append([]int{ranks}, global.Shape...)
	part := e.Placed(global, spec)
	if err := reduction(e, op, axes, []lowering.Buf{part}, in, kernel); err != nil {
		return err
	}
	whole := sharding.Spec{Dims: slices.Clone(spec.Dims)}
	whole.Dims[0] = nil
	got, err := e.Reshard(global, part, whole)
	if err != nil {
		return err
	}
	return reduction(e, op, []int{0}, out, []lowering.Buf{got}, kernel)
}

// reduction emits the kernel of a reduction over axes; see reduceAxes.
func reduction(e *lowering.Emitter, op ops.Op, axes []int, out, in []lowering.Buf, kernel func(axes []int) exec.Kernel) error {
	var does graph.Primitive
	if r, ok := e.Eqn.Prim.(interface{ over([]int) graph.Primitive }); ok {
		does = r.over(axes)
	}
	return e.Emit(lowering.KernelSpec{Op: op, Out: out, In: in, Does: does, Dry: kernel(axes), Kernel: kernel(axes)})
}

// reduceAxes returns a kernel that reduces axes one at a time, from the last to the
// first. step writes x reduced over one axis to y. Arrays of bf16 and f16 are
// widened to f32 before the first step and rounded once after the last. The result
// has as many elements as are left, in any shape. lines, unless it is nil, is step along the
// last axis of an x of bf16 or f16, which it widens a line at a time.
func reduceAxes(axes []int, step func(a *exec.Args, y, x array.Array, axis int), lines func(a *exec.Args, y, x array.Array)) exec.Kernel {
	return func(a *exec.Args) error {
		x := a.In[0]
		d, last := x.Type.DType, len(axes)-1
		narrow := d == graph.BF16 || d == graph.F16
		byLine := narrow && lines != nil && last >= 0 && axes[last] == x.Type.Rank()-1
		if narrow && !byLine {
			x = inType(a, x, graph.F32)
		}
		out := a.Out[0]
		for i := last; i >= 0; i-- {
			t := dropAxis(a, x.Type, axes[i])
			if byLine {
				t.DType = graph.F32
			}
			y := out.Reshape(t.Shape...)
			if i > 0 || t.DType != out.Type.DType {
				y = room(a, t)
			}
			switch {
			case byLine && i == last:
				lines(a, y, x)
			case a.Dry() == nil:
				step(a, y, x, axes[i])
			}
			x = y
		}
		if len(axes) > 0 && x.Type.DType == out.Type.DType {
			return nil // written in place
		}
		if out.Type.DType == x.Type.DType {
			copy(out.Bytes(), x.Bytes())
			return nil
		}
		return convert(a, out.Reshape(x.Type.Shape...), x)
	}
}

// foldFloat reduces x[outer,n,inner] over its middle dimension. step folds rows into inner
// accumulators in f64, which have the value first at the beginning.
func foldFloat[T float](a *exec.Args, y, x []T, outer, n, inner int, first float64, step func(acc []float64, rows []T)) {
	grain := 1 + 2*dear/(1+n*inner)
	exec.Share(a, outer, grain, folded[T]{y, x, n, inner, first, step, exec.RoomsOf[float64](a, inner)})
}

// folded is the work of foldFloat, with accumulators for each piece.
type folded[T float] struct {
	y, x     []T
	n, inner int
	first    float64
	step     func(acc []float64, rows []T)
	rooms    *exec.Rooms[float64]
}

func (w *folded[T]) Piece(lo, hi int) {
	acc, n, inner := w.rooms.Take(), w.n, w.inner
	for o := lo; o < hi; o++ {
		for j := range acc {
			acc[j] = w.first
		}
		w.step(acc, w.x[o*n*inner:(o+1)*n*inner])
		for j, v := range acc {
			w.y[o*inner+j] = T(v)
		}
	}
}

// numeric is an element type that is summed and compared.
type numeric interface {
	float | int32 | int64 | uint32 | uint8
}

// foldInt is foldFloat for integers, which are accumulated in their own type.
func foldInt[T int32 | int64 | uint32 | uint8](y, x []T, outer, n, inner int, first T, step func(acc, rows []T)) {
	for o := range outer {
		acc := y[o*inner : (o+1)*inner]
		for j := range acc {
			acc[j] = first
		}
		step(acc, x[o*n*inner:(o+1)*n*inner])
	}
}

// dropAxis returns t without one dimension, until the kernel returns.
func dropAxis(a *exec.Args, t graph.Type, axis int) graph.Type {
	shape := append(exec.Make[int](a, t.Rank())[:0], t.Shape[:axis]...)
	return graph.Type{DType: t.DType, Shape: append(shape, t.Shape[axis+1:]...)}
}
