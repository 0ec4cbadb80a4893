package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// transposeOp reorders the dimensions of its argument: dimension i of the result
// is dimension Permutation[i] of the argument.
type transposeOp struct {
	Permutation []int
}

var _ rearranging = transposeOp{}

// Transpose returns x with its dimensions reordered: dimension i of the result is
// dimension perm[i] of x.
func Transpose(x *graph.Value, perm ...int) *graph.Value {
	return graph.Apply1(transposeOp{slices.Clone(perm)}, x)
}

func (transposeOp) Name() string { return "transpose" }

func (p transposeOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if len(p.Permutation) != in[0].Rank() {
		return nil, fmt.Errorf("permutation %v of %d dimensions, want each of them once", p.Permutation, in[0].Rank())
	}
	if axesOf(in[0], slices.Sorted(slices.Values(p.Permutation))) != nil {
		return nil, fmt.Errorf("permutation %v of %d dimensions, want each of 0 to %d once", p.Permutation, in[0].Rank(), in[0].Rank()-1)
	}
	out := graph.Type{DType: in[0].DType}
	for _, d := range p.Permutation {
		out.Shape = append(out.Shape, in[0].Shape[d])
	}
	return []graph.Type{out}, nil
}

// VJP applies the inverse permutation.
func (p transposeOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	inverse := make([]int, len(p.Permutation))
	for i, d := range p.Permutation {
		inverse[d] = i
	}
	return []*graph.Value{Transpose(ct[0], inverse...)}, nil
}

func (p transposeOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(p.Factors(c, false))
}

// Factors lets every dimension be split.
func (p transposeOp) Factors(c *sharding.Context, _ bool) sharding.Factors {
	f := sharding.Elementwise(c.Type(0), 1, 0, sharding.LinearTogether)
	f.Out = [][]int{p.Permutation}
	return f
}

func (p transposeOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.Transpose, Out: out, In: in, Kernel: moveBoxes(p)})
}

func (p transposeOp) Boxes(a *exec.Args, move boxMove) {
	shape := a.Out[0].Type.Shape
	from, strides := work.RowMajor(a, a.In[0].Type.Shape), exec.Make[int](a, len(shape))
	for i, d := range p.Permutation {
		strides[i] = from[d]
	}
	move(a, 0, shape, 0, work.RowMajor(a, shape), 0, strides)
}

func (transposeOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "t[..]", Formula: "y[i_0, i_1, ..] = x[j], j_permutation[d] = i_d",
		Params: "permutation: the argument's dimension for each of the result's"}
}
