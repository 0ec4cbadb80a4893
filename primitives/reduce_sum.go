package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// ReduceSum sums over axes. Axes are summed one after another from the last to
// the first, each from index 0 up, in f64 for f64 and f32 and in f32 for bf16
// and f16; integers wrap.
//
// The result has the same bits on every mesh: where an axis is split, the
// ranks' parts, with the whole axes already summed, are gathered and then
// summed in order. Unordered gives this up for speed and leaves a pending sum
// instead; derivatives use it.
type ReduceSum struct {
	Axes      []int
	Unordered bool
}

var _ Primitive = ReduceSum{}

// Sum returns the sum of x over axes, which are ascending; over all of them if
// none is given.
func Sum(x *graph.Value, axes ...int) *graph.Value {
	if len(axes) == 0 {
		for i := range x.Rank() {
			axes = append(axes, i)
		}
	}
	return graph.Apply1(ReduceSum{Axes: slices.Clone(axes)}, x)
}

func (ReduceSum) Name() string { return "reduce_sum" }

func (r ReduceSum) Infer(in []graph.Type) ([]graph.Type, error) {
	return inferReduce(in, r.Axes)
}

// inferReduce types a reduction that drops axes.
func inferReduce(in []graph.Type, axes []int) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if err := axesOf(in[0], axes); err != nil {
		return nil, err
	}
	out := graph.Type{DType: in[0].DType}
	for d, n := range in[0].Shape {
		if !slices.Contains(axes, d) {
			out.Shape = append(out.Shape, n)
		}
	}
	return []graph.Type{out}, nil
}

func (r ReduceSum) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{Broadcast(ct[0], e.In[0].Type.Shape, kept(e.In[0].Rank(), r.Axes)...)}, nil
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

func (r ReduceSum) Shard(c *sharding.Context) (sharding.Decision, error) {
	f := sharding.Factors{In: [][]int{nil}, Out: [][]int{kept(c.Type(0).Rank(), r.Axes)}, Sum: r.Axes, RowWise: true}
	for d := range c.Type(0).Rank() {
		f.In[0] = append(f.In[0], d)
	}
	if r.Unordered {
		f.Linear = sharding.LinearTogether
	}
	dec, err := c.Place(f)
	if err == nil && !r.Unordered && c.In[0].Ragged == nil {
		dec.Out[0].Pending = nil // Lower gathers the parts
	}
	return dec, err
}

func (r ReduceSum) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	x := in[0]
	split := slices.DeleteFunc(slices.Clone(r.Axes), func(d int) bool { return len(x.Spec.At(d)) == 0 })
	if r.Unordered || len(split) == 0 || x.Spec.Ragged != nil {
		return e.Kernel("reduce_sum", out, in, reduceSum(r.Axes))
	}
	// Sum what is whole, bring the parts of each split axis together, sum those.
	first := slices.DeleteFunc(slices.Clone(r.Axes), func(d int) bool { return slices.Contains(split, d) })
	part, spec := x.Type, x.Spec
	if len(first) > 0 && slices.Max(first) < slices.Min(split) {
		first = nil // would change the order of the axes; gather all of it
	}
	first = slices.DeleteFunc(first, func(d int) bool { return d < slices.Max(split) })
	b := x
	if len(first) > 0 {
		ts, _ := inferReduce([]graph.Type{part}, first)
		spec = sharding.Spec{}
		for _, d := range kept(part.Rank(), first) {
			spec.Dims = append(spec.Dims, x.Spec.At(d))
		}
		if d := ts[0].DType; d == graph.BF16 || d == graph.F16 {
			ts[0].DType = graph.F32 // so that the result is rounded once
		}
		b = e.Temp(ts[0])
		b.Spec = spec
		if err := e.Kernel("reduce_sum", []lowering.Buf{b}, in, reduceSum(first)); err != nil {
			return err
		}
	}
	global := graph.Type{DType: b.Type.DType}
	want := sharding.Spec{}
	var rest []int
	for i, d := range kept(part.Rank(), first) {
		n := b.Type.Shape[i] * e.Mesh.Parts(spec.At(i))
		global.Shape = append(global.Shape, n)
		axes := spec.At(i)
		if slices.Contains(r.Axes, d) {
			rest = append(rest, i)
			axes = nil
		}
		want.Dims = append(want.Dims, axes)
	}
	got, err := e.Reshard(global, b, want)
	if err != nil {
		return err
	}
	return e.Kernel("reduce_sum", out, []lowering.Buf{got}, reduceSum(rest))
}

func reduceSum(axes []int) lowering.Kernel {
	return func(a *lowering.Args) error {
		x := a.In[0]
		if d := x.Type.DType; d == graph.BF16 || d == graph.F16 {
			x = x.As(graph.F32)
		}
		for i := len(axes) - 1; i >= 0; i-- {
			y := a.Out[0]
			if i > 0 || y.Type.DType != x.Type.DType {
				y = array.New(dropAxis(x.Type, axes[i]))
			}
			sumAxis(a, y, x, axes[i])
			x = y
		}
		return array.Convert(a.Out[0], x)
	}
}

func dropAxis(t graph.Type, axis int) graph.Type {
	return graph.Type{DType: t.DType, Shape: slices.Delete(slices.Clone(t.Shape), axis, axis+1)}
}

// sumAxis writes x summed over one axis to y.
func sumAxis(a *lowering.Args, y, x array.Array, axis int) {
	outer, n, inner := around(x.Type, axis)
	switch x.Type.DType {
	case graph.F64:
		sumFloat(a, data[float64](y), data[float64](x), outer, n, inner)
	case graph.F32:
		sumFloat(a, data[float32](y), data[float32](x), outer, n, inner)
	case graph.I32:
		sumInt(data[int32](y), data[int32](x), outer, n, inner)
	case graph.I64:
		sumInt(data[int64](y), data[int64](x), outer, n, inner)
	case graph.U32:
		sumInt(data[uint32](y), data[uint32](x), outer, n, inner)
	case graph.U8:
		sumInt(data[uint8](y), data[uint8](x), outer, n, inner)
	}
}

// around returns the numbers of elements before, along and behind an axis.
func around(t graph.Type, axis int) (outer, n, inner int) {
	outer, inner = 1, 1
	for d, s := range t.Shape {
		switch {
		case d < axis:
			outer *= s
		case d > axis:
			inner *= s
		}
	}
	return outer, t.Shape[axis], inner
}

func sumFloat[T Float](a *lowering.Args, y, x []T, outer, n, inner int) {
	a.Parallel(outer, 1+4096/(1+n*inner), func(lo, hi int) {
		acc := make([]float64, inner)
		for o := lo; o < hi; o++ {
			clear(acc)
			for i := range n {
				row := x[(o*n+i)*inner : (o*n+i+1)*inner]
				for j, v := range row {
					acc[j] += float64(v)
				}
			}
			for j, v := range acc {
				y[o*inner+j] = T(v)
			}
		}
	})
}

func sumInt[T int32 | int64 | uint32 | uint8](y, x []T, outer, n, inner int) {
	for o := range outer {
		dst := y[o*inner : (o+1)*inner]
		clear(dst)
		for i := range n {
			for j, v := range x[(o*n+i)*inner : (o*n+i+1)*inner] {
				dst[j] += v
			}
		}
	}
}

func (ReduceSum) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "t[..] without axes", Formula: "y = Σ x over axes",
		Params: "axes: ascending; unordered: let each rank sum its part and add the parts, instead of the same bits on every mesh",
		Notes:  "Sums in f64 (f32 for bf16 and f16), from the last axis to the first, each from index 0 up."}
}
