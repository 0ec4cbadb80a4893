package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// ReshapeTo gives its argument another shape with as many elements.
type ReshapeTo struct {
	Shape []int
}

var _ Primitive = ReshapeTo{}

// Reshape returns x with another shape, its elements in the same row-major
// order.
func Reshape(x *graph.Value, shape ...int) *graph.Value {
	return graph.Apply1(ReshapeTo{slices.Clone(shape)}, x)
}

func (ReshapeTo) Name() string { return "reshape" }

func (r ReshapeTo) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	out := graph.Type{DType: in[0].DType, Shape: r.Shape}
	if !out.Fits() || out.Len() != in[0].Len() {
		return nil, fmt.Errorf("shape %v for %d elements; the product of the sizes is the number of elements", r.Shape, in[0].Len())
	}
	return []graph.Type{out}, nil
}

func (r ReshapeTo) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{Reshape(ct[0], e.In[0].Type.Shape...)}, nil
}

// Shard matches runs of dimensions with equal products. The major dimension of
// a run may be split, if both sides' sizes divide.
func (r ReshapeTo) Shard(c *sharding.Context) (sharding.Decision, error) {
	x := c.Type(0).Shape
	f := sharding.Factors{In: [][]int{nil}, Out: [][]int{nil}, RowWise: true, Linear: sharding.LinearTogether}
	i, j, n := 0, 0, 0
	for i < len(x) || j < len(r.Shape) {
		i0, j0 := i, j
		a, b := 1, 1
		if i < len(x) {
			a = x[i]
			i++
		}
		if j < len(r.Shape) {
			b = r.Shape[j]
			j++
		}
		for a != b && (i < len(x) || j < len(r.Shape)) {
			if a < b && i < len(x) || j == len(r.Shape) {
				a *= x[i]
				i++
			} else {
				b *= r.Shape[j]
				j++
			}
		}
		first := true
		for k := i0; k < i; k++ {
			f.In[0] = append(f.In[0], pick(first && splits(c, x, k, r.Shape, j0, j), n))
			first = first && x[k] == 1
		}
		first = true
		for k := j0; k < j; k++ {
			f.Out[0] = append(f.Out[0], pick(first, n))
			first = first && r.Shape[k] == 1
		}
		// A run whose first dimensions have size 1 is split at the first larger
		// one, so the factor must be given to exactly one dimension a side.
		lastOnly(f.In[0][i0:i], x[i0:i])
		lastOnly(f.Out[0][j0:j], r.Shape[j0:j])
		n++
	}
	return c.Place(f)
}

// lastOnly keeps the factor on the first dimension larger than 1, or on the
// first of all.
func lastOnly(fs []int, sizes []int) {
	at := slices.IndexFunc(sizes, func(n int) bool { return n != 1 })
	for k := range fs {
		if at >= 0 && k != at || at < 0 && k > 0 {
			fs[k] = sharding.Whole
		}
	}
}

func pick(ok bool, n int) int {
	if ok {
		return n
	}
	return sharding.Whole
}

// splits reports whether the axes that split dimension k of the argument also
// divide the major dimension of the result's run j0..j.
func splits(c *sharding.Context, x []int, k int, shape []int, j0, j int) bool {
	parts := c.Mesh.Parts(c.In[0].At(k))
	for _, n := range shape[j0:j] {
		if n != 1 {
			return n%parts == 0 || c.In[0].Ragged != nil && k == 0 && n == x[k]
		}
	}
	return true
}

func (r ReshapeTo) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	e.Alias(out[0], in[0])
	return nil
}

func (ReshapeTo) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "t[shape]", Formula: "y has x's elements in the same row-major order", Params: "shape: sizes of the result"}
}
