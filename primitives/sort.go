package primitives

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// sortOp sorts along a dimension, ascending and stable: 0 and -0 are equal,
// and NaNs are last.
type sortOp struct {
	Dimension int
}

var _ primitive = sortOp{}

// Sort returns x sorted along a dimension, and the index i32 that each element
// had along it before.
func Sort(x *graph.Value, dimension int) (values, indices *graph.Value) {
	out := graph.Apply(sortOp{dimension}, x)
	return out[0], out[1]
}

func (sortOp) Name() string { return "sort" }

func (s sortOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if err := axisOf(in[0], s.Dimension); err != nil {
		return nil, fmt.Errorf("dimension: %w", err)
	}
	if err := indexable(in[0], s.Dimension); err != nil {
		return nil, err
	}
	return []graph.Type{in[0], in[0].With(graph.I32)}, nil
}

// indexable returns an error if the axis is too long for indices of type i32.
func indexable(t graph.Type, axis int) error {
	if t.Shape[axis] > math.MaxInt32 {
		return fmt.Errorf("axis %d of %s is too long for indices in i32, want at most %d elements", axis, t, math.MaxInt32)
	}
	return nil
}

func (s sortOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{graph.Apply1(addAlongAxisOp{s.Dimension, e.In[0].Dim(s.Dimension)}, ct[0], e.Out[1])}, nil
}

func (s sortOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(alongAxis(c.Type(0), s.Dimension, 2))
}

func (s sortOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.Sort, Out: out, In: in, Kernel: func(a *exec.Args) error {
		x, index := a.In[0], data[int32](a.Out[1])
		outer, n, inner := x.Type.Around(s.Dimension)
		key := orderKeys(x, false)
		a.Parallel(outer*inner, 1+dear/(1+n), func(lo, hi int) {
			keys := make([]ranked, n)
			for line := lo; line < hi; line++ {
				at := line/inner*n*inner + line%inner
				for i := range keys {
					keys[i] = ranked{key(at + i*inner), int32(i)}
				}
				slices.SortFunc(keys, ranked.compare)
				for i, k := range keys {
					index[at+i*inner] = k.index
				}
			}
		})
		takeAlong(a, a.Out[0], x, index, s.Dimension)
		return nil
	}})
}

// ranked is an element's order key and its index, which orders elements with equal keys.
type ranked struct {
	key   uint64
	index int32
}

func (r ranked) compare(o ranked) int {
	if r.key != o.key {
		return cmp.Compare(r.key, o.key)
	}
	return cmp.Compare(r.index, o.index)
}

func (sortOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "values t[..], indices i32[..]", Formula: "values ascending along dimension, values = x[indices]",
		Params: "dimension: one of x's", Notes: "Stable; 0 and -0 are equal; NaNs are last."}
}
