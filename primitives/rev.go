package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// reverseOp reverses the order of the elements along some dimensions.
type reverseOp struct {
	Dimensions []int
}

var _ rearranging = reverseOp{}

// Reverse returns x with the elements along the dimensions, which are given in
// ascending order, in reverse order.
func Reverse(x *graph.Value, dimensions ...int) *graph.Value {
	return graph.Apply1(reverseOp{slices.Clone(dimensions)}, x)
}

func (reverseOp) Name() string { return "rev" }

func (r reverseOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	return in, axesOf(in[0], r.Dimensions)
}

func (r reverseOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{Reverse(ct[0], r.Dimensions...)}, nil
}

func (r reverseOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(r.Factors(c, false))
}

// Factors lets the dimensions be split whose order stays.
func (r reverseOp) Factors(c *sharding.Context, _ bool) sharding.Factors {
	dims := splitWhere(c.Type(0).Rank(), func(d int) bool { return !slices.Contains(r.Dimensions, d) })
	return sharding.Factors{In: [][]int{dims}, Out: [][]int{dims}, RowWise: true, Linear: sharding.LinearTogether}
}

func (r reverseOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.Rev, Out: out, In: in, Kernel: moveBoxes(r)})
}

func (r reverseOp) Boxes(a *exec.Args, move boxMove) {
	shape := a.In[0].Type.Shape
	from, at := work.RowMajor(a, shape), 0
	for _, d := range r.Dimensions {
		at += (shape[d] - 1) * from[d]
		from[d] = -from[d]
	}
	move(a, 0, shape, 0, work.RowMajor(a, shape), at, from)
}

func (reverseOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "t[..]", Formula: "y[.., i_d, ..] = x[.., size_d - 1 - i_d, ..] for the dimensions d",
		Params: "dimensions: ascending"}
}
