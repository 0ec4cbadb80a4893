package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// addAlongAxisOp is the transpose of takeAlongAxisOp: it adds elements to zeros, of
// Size along Axis, at the places that the indices name. Elements with the same index
// are added in the order of the axis, in f64 for f64 and in f32 for other floats. An
// index outside the axis makes the run fail.
type addAlongAxisOp struct {
	Axis, Size int
}

var _ primitive = addAlongAxisOp{}

func (addAlongAxisOp) Name() string { return "add_along_axis" }

func (t addAlongAxisOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	x := in[0]
	if err := floating(x); err != nil {
		return nil, err
	}
	if err := axisOf(x, t.Axis); err != nil {
		return nil, err
	}
	if !in[1].Equal(x.With(graph.I32)) {
		return nil, fmt.Errorf("indices %s for %s, want %s", in[1], x, x.With(graph.I32))
	}
	out := graph.Type{DType: x.DType, Shape: slices.Clone(x.Shape)}
	out.Shape[t.Axis] = t.Size
	if !out.Fits() {
		return nil, fmt.Errorf("size=%d, want 0 or more and a result of less than 2^63 bytes", t.Size)
	}
	return []graph.Type{out}, nil
}

func (t addAlongAxisOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{TakeAlongAxis(ct[0], e.In[1], t.Axis), nil}, nil
}

func (t addAlongAxisOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	f := sharding.Elementwise(c.Type(0), 2, 0, sharding.LinearFirst)
	out := slices.Clone(f.In[0])
	out[t.Axis] = sharding.Whole
	f.Out, f.Sum = [][]int{out}, []int{t.Axis}
	return c.Place(f)
}

func (t addAlongAxisOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	add := inFloat(addAlong[float32](t.Axis), addAlong[float64](t.Axis))
	return e.Emit(lowering.KernelSpec{Op: ops.AddAlongAxis, Out: out, In: in, Dry: widening(), Kernel: func(a *exec.Args) error {
		if err := inAxis(a.In[1], t.Axis, a.Out[0].Type.Shape[t.Axis]); err != nil {
			return err
		}
		return add(a)
	}})
}

func addAlong[T float](axis int) exec.Kernel {
	return func(a *exec.Args) error {
		x, index, y := data[T](a.In[0]), data[int32](a.In[1]), data[T](a.Out[0])
		outer, m, inner := a.In[0].Type.Around(axis)
		n := a.Out[0].Type.Shape[axis]
		exec.Share(a, outer, 1+dear/(1+(m+n)*inner), linesAdded[T]{y, x, index, n, m, inner})
		return nil
	}
}

type linesAdded[T float] struct {
	y, x        []T
	index       []int32
	n, m, inner int
}

func (w *linesAdded[T]) Piece(lo, hi int) {
	clear(w.y[lo*w.n*w.inner : hi*w.n*w.inner])
	for o := lo; o < hi; o++ {
		for i := range w.m {
			for j := range w.inner {
				at := (o*w.m+i)*w.inner + j
				w.y[(o*w.n+int(w.index[at]))*w.inner+j] += w.x[at]
			}
		}
	}
}

func (addAlongAxisOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..,m,..], indices i32[..,m,..]", Results: "f[..,size,..]", Formula: "y[.., k, ..] = Σ x[.., i, ..] over indices[.., i, ..] = k",
		Params: "axis: where the indices point; size: of the result along axis", Notes: "The transpose of take_along_axis. An index outside 0..size-1 is an error of the run."}
}
