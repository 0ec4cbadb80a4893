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

// gatherOp picks elements along an axis by index.
type gatherOp struct {
	Axis int
}

var _ primitive = gatherOp{}

// Gather returns x's elements along the axis at the indices, i32 of any shape. For
// axis 0 these are rows, such as those of an embedding table. x[A,N,B] and
// indices[I] with axis 1 give [A,I,B]. An index that is negative or not less than
// the size of the axis makes the run fail.
func Gather(x, indices *graph.Value, axis int) *graph.Value {
	return graph.Apply1(gatherOp{axis}, x, indices)
}

func (gatherOp) Name() string { return "gather" }

// Blocks says that weights in blocks are gathered as they are.
func (gatherOp) Blocks() {}

func (g gatherOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if in[0].DType.IsBlock() && g.Axis == in[0].Rank()-1 {
		return nil, fmt.Errorf("axis=%d of %s, along which its blocks lie; want another axis, or convert with convert_element_type dtype=f32", g.Axis, in[0])
	}
	return takenType(in[0], in[1], g.Axis)
}

// takenType returns the type of x at indices along an axis.
func takenType(x, indices graph.Type, axis int) ([]graph.Type, error) {
	if err := axisOf(x, axis); err != nil {
		return nil, err
	}
	if indices.DType != graph.I32 {
		return nil, fmt.Errorf("indices are %s, want i32; convert with convert_element_type", indices.DType)
	}
	return []graph.Type{{DType: x.DType, Shape: slices.Concat(x.Shape[:axis], indices.Shape, x.Shape[axis+1:])}}, nil
}

func (g gatherOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	if e.In[0].Type.DType.IsBlock() {
		return []*graph.Value{nil, nil}, nil // weights in blocks have no cotangent
	}
	return []*graph.Value{ScatterAdd(zeros(e.In[0]), e.In[1], ct[0], g.Axis), nil}, nil
}

// Shard requires the axis to be whole. The indices and the other dimensions may be split.
func (g gatherOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	x, indices, taken := takenFactors(c.Type(0).Rank(), c.Type(1).Rank(), g.Axis)
	return c.Place(sharding.Factors{In: [][]int{x, indices}, Out: [][]int{taken}, RowWise: true, Linear: sharding.LinearFirst})
}

// takenFactors returns the factors of x, of indices, and of x at indices.
func takenFactors(rank, indexRank, axis int) (x, indices, taken []int) {
	x = rowDims(rank, axis)
	for i := range indexRank {
		indices = append(indices, rank+i)
	}
	return x, indices, slices.Concat(x[:axis], indices, x[axis+1:])
}

func (g gatherOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.Gather, Out: out, In: in, Kernel: func(a *exec.Args) error {
		x, y, indices := a.In[0], a.Out[0], data[int32](a.In[1])
		outer, n, inner := x.Type.Around(g.Axis)
		if err := inRange(indices, n); err != nil {
			return err
		}
		run := int(graph.T(x.Type.DType, inner).Bytes())
		src, dst := x.Bytes(), y.Bytes()
		a.Parallel(outer*len(indices), 1+(1<<16)/(1+run), func(lo, hi int) {
			for k := lo; k < hi; k++ {
				from := (k/len(indices)*n + int(indices[k%len(indices)])) * run
				copy(dst[k*run:(k+1)*run], src[from:from+run])
			}
		})
		return nil
	}})
}

// inRange returns an error if an index is not in 0..n-1.
func inRange(indices []int32, n int) error {
	for k, i := range indices {
		if i < 0 || int(i) >= n {
			return rangeError(i, k, n)
		}
	}
	return nil
}

// rangeError returns the error for an index, element `at` of a rank's indices, outside an
// axis of size n.
func rangeError(index int32, at, n int) error {
	return fmt.Errorf("index %d, element %d of this rank's indices, is out of range, want 0 to %d for an axis of size %d", index, at, n-1, n)
}

func (gatherOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[A..,N,B..], indices i32[I..]", Results: "t[A..,I..,B..]", Formula: "y[a.., i.., b..] = x[a.., indices[i..], b..]",
		Params: "axis: the dimension N",
		Notes:  "An index below 0 or not below N is an error of the run that names both: it is neither clamped nor counted from the end, and gives no NaN. Weights in blocks are gathered as they are, along any axis but the last, and have no cotangent."}
}
