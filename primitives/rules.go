package primitives

import (
	"fmt"
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// primitive is implemented by every operation of this package.
type primitive interface {
	graph.Documented
	vjp.Rule
	sharding.Rule
	lowering.Rule
}

// flexible is implemented by primitives supporting any placement of the result.
type flexible interface {
	primitive
	sharding.Flexible
}

// rearranging is implemented by primitives only moving elements. If all arguments are constants, the result
// can have any placement.
type rearranging interface {
	primitive
	sharding.Rearranging
}

// pointwise is implemented by primitives with a constant result if all arguments are
// constants.
type pointwise interface {
	primitive
	sharding.Pointwise
}

// arity returns an error unless there are n arguments.
func arity(in []graph.Type, n int) error {
	if len(in) != n {
		return fmt.Errorf("%d arguments, want %d", len(in), n)
	}
	return nil
}

// alike returns an error if the types of the arguments differ.
func alike(in []graph.Type) error {
	for _, t := range in[1:] {
		if t.DType != in[0].DType {
			return fmt.Errorf("element types %s and %s differ; convert one with convert_element_type", in[0].DType, t.DType)
		}
		if !t.Equal(in[0]) {
			return fmt.Errorf("shapes of %s and %s differ; broadcast one with broadcast_in_dim", in[0], t)
		}
	}
	return nil
}

// floating returns an error unless the element type is a float type.
func floating(t graph.Type) error {
	if !t.DType.IsFloat() {
		return fmt.Errorf("element type %s, want f64, f32, bf16 or f16; convert with convert_element_type", t.DType)
	}
	return nil
}

// axisOf returns an error if t does not have the axis.
func axisOf(t graph.Type, axis int) error {
	if t.Rank() == 0 {
		return fmt.Errorf("axis %d of %s, which is a scalar and has none", axis, t)
	}
	if axis < 0 || axis >= t.Rank() {
		return fmt.Errorf("axis %d of %s, want 0 to %d", axis, t, t.Rank()-1)
	}
	return nil
}

// axesOf returns an error unless axes are distinct axes of t in ascending order.
func axesOf(t graph.Type, axes []int) error {
	for i, a := range axes {
		if err := axisOf(t, a); err != nil {
			return err
		}
		if i > 0 && axes[i-1] >= a {
			return fmt.Errorf("axes %v, want them distinct and ascending", axes)
		}
	}
	return nil
}

// atLeast returns an error if t has fewer than n dimensions.
func atLeast(t graph.Type, n int) error {
	if t.Rank() < n {
		return fmt.Errorf("%s has %d dimensions, want at least %d", t, t.Rank(), n)
	}
	return nil
}

// inferAlike returns the result type of an elementwise function with n arguments and a result
// of the same float type.
func inferAlike(in []graph.Type, n int) ([]graph.Type, error) {
	if err := arity(in, n); err != nil {
		return nil, err
	}
	if err := alike(in); err != nil {
		return nil, err
	}
	return in[:1], floating(in[0])
}

// wholes returns the factors of n dimensions that may not be split.
func wholes(n int) []int {
	d := make([]int, n)
	for i := range d {
		d[i] = sharding.Whole
	}
	return d
}

// splitWhere returns the factors of n dimensions: factor i for dimension i if ok returns
// true, and otherwise none, so that the dimension stays whole.
func splitWhere(n int, ok func(d int) bool) []int {
	dims := wholes(n)
	for d := range dims {
		if ok(d) {
			dims[d] = d
		}
	}
	return dims
}

// rowsOf returns the number and the length of the rows along the last dimension.
func rowsOf(t graph.Type) (rows, n int) {
	rows, n, _ = t.Around(t.Rank() - 1)
	return rows, n
}

// rowGrain returns the least number of rows of n elements worth a goroutine, assuming some
// nanoseconds per element.
func rowGrain(n int) int { return 1 + 2*dear/(1+n) }

// rowDims returns the factors of a value's dimensions, numbering rank: dimension i has
// factor i, except for the axis, which must be whole.
func rowDims(rank, axis int) []int {
	dims := make([]int, rank)
	for i := range dims {
		dims[i] = i
	}
	dims[axis] = sharding.Whole
	return dims
}

// sumOfRows returns the factors of a primitive summing over the rows of `args`
// arguments, each of `rank` dimensions. Its results have the last dimension only.
func sumOfRows(rank, args, results int) sharding.Factors {
	f := sharding.Factors{Sum: rowDims(rank, rank-1)[:rank-1]}
	for range args {
		f.In = append(f.In, rowDims(rank, rank-1))
	}
	for range results {
		f.Out = append(f.Out, []int{sharding.Whole})
	}
	return f
}

// parameterOf returns an error unless param, a parameter of rows x[..,D], has x's
// element type and shape [D].
func parameterOf(x, param graph.Type, name string) error {
	want := graph.T(x.DType, x.Shape[x.Rank()-1])
	if !param.Equal(want) {
		return fmt.Errorf("%s is %s for rows of %s, want %s", name, param, x, want)
	}
	return nil
}

// epsilon returns an error if eps is negative, infinite or NaN.
func epsilon(eps float64) error {
	if !(eps >= 0) || math.IsInf(eps, 0) {
		return fmt.Errorf("eps=%v, want a finite number of at least 0, such as eps=1e-06", eps)
	}
	return nil
}

// These primitives move elements without computing, and therefore support 8-bit floats: see
// graph.Moves. convertElementTypeOp converts to and from 8-bit floats. No placement leaves a
// sum of 8-bit floats pending, because no sum is linear in their codes.

func (broadcastInDimOp) Moves()     {}
func (concatenateOp) Moves()        {}
func (convertElementTypeOp) Moves() {}
func (DispatchOp) Moves()           {}
func (dynamicSliceOp) Moves()       {}
func (dynamicUpdateSliceOp) Moves() {}
func (gatherOp) Moves()             {}
func (padOp) Moves()                {}
func (reshapeOp) Moves()            {}
func (reverseOp) Moves()            {}
func (selectNOp) Moves()            {}
func (shardingConstraintOp) Moves() {}
func (sliceOp) Moves()              {}
func (stopGradientOp) Moves()       {}
func (takeAlongAxisOp) Moves()      {}
func (transposeOp) Moves()          {}

// differentiate is the derivative rule of a primitive fusing a formula of simple primitives.
// It traces the formula on arguments of e's types, differentiates the trace, and adds the
// derivative's equations to e's trace. Fused derivatives use it for their own derivatives,
// which are seldom needed and may be slow.
func differentiate(e *graph.Eqn, ct []*graph.Value, formula func(in []*graph.Value) []*graph.Value) ([]*graph.Value, error) {
	p, err := graph.Trace("formula", func(t *graph.Tracer) []*graph.Value {
		in := make([]*graph.Value, len(e.In))
		for i, v := range e.In {
			in[i] = t.Input(fmt.Sprintf("x%d", i), v.Type.DType, v.Type.Shape...)
		}
		return formula(in)
	})
	if err != nil {
		return nil, err
	}
	pull, err := vjp.Pullback(p)
	if err != nil {
		return nil, err
	}
	env := map[*graph.Value]*graph.Value{}
	for i, v := range e.In {
		env[pull.In[i]] = v
	}
	for i, v := range pull.In[len(e.In):] {
		env[v] = vjp.Instantiate(ct[i], e.Out[i])
	}
	for _, q := range pull.Eqns {
		if _, ok := q.Prim.(graph.PlaceLikeOp); ok { // the caller places its gradients
			env[q.Out[0]] = env[q.In[0]]
			continue
		}
		in := make([]*graph.Value, len(q.In))
		for i, v := range q.In {
			in[i] = env[v]
		}
		for i, v := range e.Out[0].Tracer().Apply(q.Prim, in...) {
			env[q.Out[i]] = v
		}
	}
	grads, next := make([]*graph.Value, len(e.In)), 0
	for i, v := range e.In {
		if v.Type.DType.IsFloat() {
			grads[i], next = env[pull.Out[next]], next+1
		}
	}
	return grads, nil
}

// sumKept returns the sum of v over one axis, broadcast along that axis.
func sumKept(v *graph.Value, axis int) *graph.Value {
	s := ReduceSumUnordered(v, axis)
	return along(s, v, axis)
}

// rowMean returns the mean of v over its last dimension, broadcast along it.
func rowMean(v *graph.Value) *graph.Value {
	return MulScalar(sumKept(v, v.Rank()-1), 1/float64(v.Dim(-1)))
}

// along broadcasts v along an axis of like missing in v.
func along(v, like *graph.Value, axis int) *graph.Value {
	return BroadcastInDim(v, like.Type.Shape, kept(like.Rank(), []int{axis})...)
}

// overRows broadcasts v[D] to every row of like[..,D].
func overRows(v, like *graph.Value) *graph.Value {
	return BroadcastInDim(v, like.Type.Shape, like.Rank()-1)
}

// sumRows sums v[..,D] over all but its last dimension.
func sumRows(v *graph.Value) *graph.Value {
	if v.Rank() == 1 {
		return v
	}
	return graph.Apply1(reduceSumOp{Axes: kept(v.Rank(), []int{v.Rank() - 1}), Unordered: true}, v)
}
