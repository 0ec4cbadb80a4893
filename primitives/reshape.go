package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// reshapeOp gives its argument another shape with as many elements.
type reshapeOp struct {
	Shape []int
	// Batch merges all dimensions but the last, which are a batch, into one of rows. With a
	// second argument it takes rows apart into the batch of that argument, whose values are
	// not read. The axes that split the batch, in any of its dimensions, then split the rows:
	// ranks exchange the rows that they do not hold.
	Batch bool
}

var _ rearranging = reshapeOp{}

// Reshape returns x with another shape, its elements in the same row-major
// order.
func Reshape(x *graph.Value, shape ...int) *graph.Value {
	return graph.Apply1(reshapeOp{Shape: slices.Clone(shape)}, x)
}

func (reshapeOp) Name() string { return "reshape" }

func (r reshapeOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if len(in) != 2 || !r.Batch {
		if err := arity(in, 1); err != nil {
			return nil, err
		}
	}
	out := graph.Type{DType: in[0].DType, Shape: r.Shape}
	if slices.ContainsFunc(r.Shape, func(n int) bool { return n < 0 }) {
		return nil, fmt.Errorf("shape %v for %d elements has a negative size; write every size, none is inferred", r.Shape, in[0].Len())
	}
	if !out.Fits() || out.Len() != in[0].Len() {
		return nil, fmt.Errorf("shape %v for %d elements; the product of the sizes is the number of elements", r.Shape, in[0].Len())
	}
	if r.Batch {
		if err := r.inferBatch(in); err != nil {
			return nil, err
		}
	}
	return []graph.Type{out}, nil
}

func (r reshapeOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	switch {
	case r.Batch && len(e.In) == 2:
		return []*graph.Value{flatten(ct[0]), nil}, nil
	case r.Batch:
		return []*graph.Value{unflatten(ct[0], e.In[0])}, nil
	}
	return []*graph.Value{Reshape(ct[0], e.In[0].Type.Shape...)}, nil
}

// Shard splits the result where the argument is split. A dimension of the argument and
// one of the result cut the elements into the same contiguous parts if the sizes before
// both have the same product. So where dimensions are merged, or one is taken apart, the
// first of them stays split, if ranks get the same share of both.
func (r reshapeOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	if r.Batch {
		return r.shardBatch(c)
	}
	return r.place(c)
}

// place is Shard without Batch.
func (r reshapeOp) place(c *sharding.Context) (sharding.Decision, error) {
	f := r.Factors(c, c.In[0].Ragged != nil)
	f.In = f.In[:1]
	return c.Place(f)
}

// Factors relates dimensions that cut the elements into the same contiguous parts. A batch
// whose rows would have to move is made whole.
func (r reshapeOp) Factors(c *sharding.Context, ragged bool) sharding.Factors {
	x := c.Type(0).Shape
	in, out := wholes(len(x)), wholes(len(r.Shape))
	outerX, outerY := outsides(x), outsides(r.Shape)
	for i, n := range x {
		for j, m := range r.Shape {
			sameRows := i == 0 && j == 0 && m == n
			sameParts := n != 1 && m != 1 && outerX[i] == outerY[j]
			if sameRows || sameParts && (i > 0 || !ragged) { // a ragged row stays a row
				in[i], out[j] = i, i
			}
		}
	}
	f := sharding.Factors{In: [][]int{in}, Out: [][]int{out}, RowWise: true, Linear: sharding.LinearTogether}
	for i := range c.In[1:] {
		f.In = append(f.In, wholes(c.Type(i+1).Rank()))
	}
	return f
}

// outside describes the dimensions before a dimension: n is the product of their sizes
// that are not 0, and zeros the number of sizes that are 0.
type outside struct{ n, zeros int }

func outsides(shape []int) []outside {
	out := make([]outside, len(shape))
	o := outside{n: 1}
	for d, n := range shape {
		out[d] = o
		if n == 0 {
			o.zeros++
		} else {
			o.n *= n
		}
	}
	return out
}

func (r reshapeOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	if r.Batch {
		return r.lowerBatch(e, out, in)
	}
	e.Alias(out[0], in[0])
	return nil
}

func (reshapeOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..], like t[..] (optional, with batch)", Results: "t[shape]", Formula: "y has x's elements in the same row-major order",
		Params: "shape: sizes of the result; batch: all dimensions but the last are merged into rows or, with like, rows are taken apart into the dimensions of like",
		Notes:  "Where dimensions are merged or one is taken apart, the first of them may be split over the mesh if every rank gets the same share on both sides. With batch any of the merged dimensions may be split: ranks exchange rows by all_to_all. The values of like are not read."}
}
