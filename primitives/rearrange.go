package primitives

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// moveBox copies a box of the shape from argument number arg to the result. The layouts in
// both are given by the offset of the first element and by strides, in elements.
type moveBox = func(a *exec.Args, arg int, shape []int, toAt int, to []int, fromAt int, from []int)

// rearrangement is a primitive composing its result from boxes of elements of its arguments.
type rearrangement interface {
	primitive
	// Boxes calls move for each box, in order. Later boxes may overwrite elements of earlier ones.
	// It uses the types of arguments and results in a, without reading elements.
	Boxes(a *exec.Args, move moveBox)
}

// moveBoxes returns the host kernel of a rearrangement.
func moveBoxes(p rearrangement) exec.Kernel {
	return func(a *exec.Args) error {
		p.Boxes(a, func(a *exec.Args, arg int, shape []int, toAt int, to []int, fromAt int, from []int) {
			work.Move(a, shape, a.Out[0], work.Layout{At: toAt, Strides: to}, a.In[arg], work.Layout{At: fromAt, Strides: from})
		})
		return nil
	}
}

// broadcastInDimOp broadcasts its argument along new dimensions and along
// dimensions of size 1. Dimension i of the argument is dimension Dims[i] of the
// result.
type broadcastInDimOp struct {
	Shape []int
	Dims  []int
}

var _ flexible = broadcastInDimOp{}

// BroadcastInDim returns x broadcast to shape. Dimension i of x becomes dimension
// dims[i] of the result; it has the result's size or size 1.
func BroadcastInDim(x *graph.Value, shape []int, dims ...int) *graph.Value {
	return graph.Apply1(broadcastInDimOp{slices.Clone(shape), slices.Clone(dims)}, x)
}

// BroadcastTo returns x broadcast to shape as in NumPy, aligning the dimensions of x with
// the last ones of shape. Each has the size in shape, or size 1.
func BroadcastTo(x *graph.Value, shape ...int) *graph.Value {
	graph.Helper()
	if slices.Equal(x.Type.Shape, shape) {
		return x
	}
	if x.Rank() > len(shape) {
		graph.Fail("broadcast of %s to %v: the result has fewer dimensions, want at least %d", x.Type, shape, x.Rank())
	}
	dims := make([]int, x.Rank())
	for i := range dims {
		dims[i] = len(shape) - x.Rank() + i
	}
	return BroadcastInDim(x, shape, dims...)
}

func (broadcastInDimOp) Name() string { return "broadcast_in_dim" }

func (b broadcastInDimOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	x := in[0]
	if len(b.Dims) != x.Rank() {
		return nil, fmt.Errorf("dims %v for %d dimensions, want one entry for each", b.Dims, x.Rank())
	}
	out := graph.Type{DType: x.DType, Shape: b.Shape}
	if !out.Fits() {
		return nil, fmt.Errorf("shape %v, want sizes of at least 0 whose bytes fit in 63 bits", b.Shape)
	}
	if err := axesOf(out, b.Dims); err != nil {
		return nil, fmt.Errorf("dims: %w", err)
	}
	for i, d := range b.Dims {
		if x.Shape[i] != b.Shape[d] && x.Shape[i] != 1 {
			return nil, fmt.Errorf("dimension %d of size %d cannot become dimension %d of %v; want size %d or 1", i, x.Shape[i], d, b.Shape, b.Shape[d])
		}
	}
	return []graph.Type{out}, nil
}

// VJP sums the cotangent over the broadcast dimensions.
func (b broadcastInDimOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	var axes []int
	for d := range b.Shape {
		i := slices.Index(b.Dims, d)
		if i < 0 || e.In[0].Dim(i) == 1 && b.Shape[d] != 1 {
			axes = append(axes, d)
		}
	}
	g := ct[0]
	if len(axes) > 0 {
		g = graph.Apply1(reduceSumOp{Axes: axes, Unordered: true}, g)
	}
	if !g.Type.Equal(e.In[0].Type) {
		g = Reshape(g, e.In[0].Type.Shape...)
	}
	return []*graph.Value{g}, nil
}

func (b broadcastInDimOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(b.factors(c))
}

func (b broadcastInDimOp) factors(c *sharding.Context) sharding.Factors {
	in := make([]int, len(b.Dims))
	for i, d := range b.Dims {
		in[i] = d
		if c.Type(0).Shape[i] != b.Shape[d] {
			in[i] = sharding.Whole
		}
	}
	out := make([]int, len(b.Shape))
	for d := range out {
		out[d] = d
	}
	return sharding.Factors{In: [][]int{in}, Out: [][]int{out}, RowWise: true}
}

// ShardAs places the argument's dimensions like the corresponding dimensions of the
// result. Broadcast dimensions may have any placement.
func (b broadcastInDimOp) ShardAs(c *sharding.Context, out sharding.Spec) (sharding.Decision, error) {
	f := b.factors(c)
	in := sharding.Spec{Dims: make([][]string, len(b.Dims))}
	for i, n := range f.In[0] {
		if n == sharding.Whole {
			continue
		}
		in.Dims[i] = out.At(n)
		if n == 0 && i == 0 {
			in.Ragged = out.Ragged
		}
	}
	return sharding.Decision{In: []sharding.Spec{in}, Out: []sharding.Spec{out}}, nil
}

func (b broadcastInDimOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	if inner := b.inner(e, out[0], in[0]); inner > 0 {
		return e.Emit(lowering.KernelSpec{Op: ops.BroadcastInDim, Out: []lowering.Buf{out[0]}, In: []lowering.Buf{in[0]}, Repeat: inner, Kernel: moveBoxes(b)})
	}
	return e.Emit(lowering.KernelSpec{Op: ops.BroadcastInDim, Out: out, In: in, Kernel: moveBoxes(b)})
}

func (b broadcastInDimOp) Boxes(a *exec.Args, move moveBox) {
	x, shape := a.In[0].Type.Shape, a.Out[0].Type.Shape
	from, n := exec.Make[int](a, len(shape)), 1
	for i := len(b.Dims) - 1; i >= 0; i-- {
		if x[i] == shape[b.Dims[i]] {
			from[b.Dims[i]] = n
		}
		n *= x[i]
	}
	move(a, 0, shape, 0, work.RowMajor(a, shape), 0, from)
}

// inner returns the number of consecutive copies of each element. It is 0 if other
// dimensions lie between the argument's dimensions in the result, or if the number
// differs between ranks.
func (b broadcastInDimOp) inner(e *lowering.Emitter, out, in lowering.Buf) int {
	from := make([]int, out.Type.Rank()) // 1 for a repeated dimension, 2 for one of the argument, 0 for one of size 1
	for d, n := range out.Type.Shape {
		if n != 1 || d == 0 && out.Spec.Ragged != nil {
			from[d] = 1
		}
	}
	last := -1
	for i, d := range b.Dims {
		if from[d] == 0 || in.Type.Shape[i] == 1 && !(d == 0 && in.Spec.Ragged != nil) {
			continue
		}
		if d < last {
			return 0
		}
		from[d], last = 2, d
	}
	inner := 1
	for d := last + 1; d < len(from) && last >= 0; d++ {
		if !e.Even(out, d) {
			return 0
		}
		inner *= out.Type.Shape[d]
	}
	for d, seen := last, false; d >= 0; d-- {
		seen = seen || from[d] == 1
		if seen && from[d] == 2 {
			return 0
		}
	}
	return inner
}

func (broadcastInDimOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "t[shape]", Formula: "y[.., i_d, ..] = x[i_dims] (index 0 where x has size 1)",
		Params: "shape: sizes of the result; dims: the result's dimension for each of x's"}
}

// transposeOp permutes the dimensions of its argument: dimension i of the result is
// dimension Permutation[i] of the argument.
type transposeOp struct {
	Permutation []int
}

var _ rearranging = transposeOp{}

// Transpose returns x with permuted dimensions: dimension i of the result is dimension
// perm[i] of x.
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

// Factors allows splitting every dimension.
func (p transposeOp) Factors(c *sharding.Context, _ bool) sharding.Factors {
	f := sharding.Elementwise(c.Type(0), 1, 0, sharding.LinearTogether)
	f.Out = [][]int{p.Permutation}
	return f
}

func (p transposeOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.Transpose, Out: out, In: in, Kernel: moveBoxes(p)})
}

func (p transposeOp) Boxes(a *exec.Args, move moveBox) {
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

// sliceOp takes a box out of its argument: in each dimension every Strides-th index
// from StartIndices up to, but not including, LimitIndices. An empty Strides means 1
// everywhere.
type sliceOp struct {
	StartIndices []int
	LimitIndices []int
	Strides      []int
}

var _ rearranging = sliceOp{}

// Slice returns the box x[start_0:limit_0:stride_0, ...], taking every index if there
// are no strides. There is one start, limit and stride per dimension.
func Slice(x *graph.Value, start, limit []int, strides ...int) *graph.Value {
	return graph.Apply1(sliceOp{slices.Clone(start), slices.Clone(limit), slices.Clone(strides)}, x)
}

// SliceInDim returns indices lo to hi-1 of one dimension of x and all of the
// others.
func SliceInDim(x *graph.Value, axis, lo, hi int) *graph.Value {
	graph.Helper()
	if axis < 0 || axis >= x.Rank() {
		graph.Fail("slice of %s: axis %d, want 0 to %d", x.Type, axis, x.Rank()-1)
	}
	start, limit := make([]int, x.Rank()), slices.Clone(x.Type.Shape)
	start[axis], limit[axis] = lo, hi
	return Slice(x, start, limit)
}

func (sliceOp) Name() string { return "slice" }

func (s sliceOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	x := in[0]
	if len(s.StartIndices) != x.Rank() || len(s.LimitIndices) != x.Rank() || len(s.Strides) != x.Rank() && len(s.Strides) != 0 {
		return nil, fmt.Errorf("%d start_indices, %d limit_indices and %d strides for %d dimensions, want one of each per dimension, or no strides",
			len(s.StartIndices), len(s.LimitIndices), len(s.Strides), x.Rank())
	}
	out := graph.Type{DType: x.DType, Shape: make([]int, x.Rank())}
	for d, n := range x.Shape {
		lo, hi, step := s.StartIndices[d], s.LimitIndices[d], s.stride(d)
		if lo < 0 || hi < lo || hi > n {
			return nil, fmt.Errorf("dimension %d from %d to %d, want 0 <= start <= limit <= %d", d, lo, hi, n)
		}
		if step < 1 {
			return nil, fmt.Errorf("dimension %d with stride %d, want at least 1; reverse with rev", d, step)
		}
		if hi > lo {
			out.Shape[d] = (hi-lo-1)/step + 1
		}
	}
	return []graph.Type{out}, nil
}

func (s sliceOp) stride(d int) int {
	if len(s.Strides) == 0 {
		return 1
	}
	return s.Strides[d]
}

// VJP pads the cotangent with zeros.
func (s sliceOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	rank := e.In[0].Rank()
	low, high, interior := make([]int, rank), make([]int, rank), make([]int, rank)
	for d := range rank {
		low[d], interior[d] = s.StartIndices[d], s.stride(d)-1
		end := low[d] // one more than the last index taken
		if n := e.Out[0].Dim(d); n > 0 {
			end += (n-1)*s.stride(d) + 1
		}
		high[d] = e.In[0].Dim(d) - end
	}
	return []*graph.Value{Pad(ct[0], zeroOf(ct[0]), low, high, interior...)}, nil
}

func (s sliceOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(s.Factors(c, false))
}

// Factors allows splitting a dimension if the box has all of its indices.
func (s sliceOp) Factors(c *sharding.Context, _ bool) sharding.Factors {
	shape := c.Type(0).Shape
	dims := splitWhere(len(shape), func(d int) bool {
		return s.StartIndices[d] == 0 && s.LimitIndices[d] == shape[d] && s.stride(d) == 1
	})
	return sharding.Factors{In: [][]int{dims}, Out: [][]int{dims}, RowWise: true, Linear: sharding.LinearTogether}
}

// Lower aliases the argument if the box covers all of it.
func (s sliceOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	if slices.Equal(out[0].Type.Shape, in[0].Type.Shape) {
		e.Alias(out[0], in[0])
		return nil
	}
	return e.Emit(lowering.KernelSpec{Op: ops.Slice, Out: out, In: in, Kernel: moveBoxes(s)})
}

func (s sliceOp) Boxes(a *exec.Args, move moveBox) {
	shape, from, at := a.Out[0].Type.Shape, work.RowMajor(a, a.In[0].Type.Shape), 0
	for d := range from {
		at += s.StartIndices[d] * from[d]
		from[d] *= s.stride(d)
	}
	move(a, 0, shape, 0, work.RowMajor(a, shape), at, from)
}

func (sliceOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "t[..]", Formula: "y[i_0, ..] = x[start_0 + i_0·stride_0, ..]",
		Params: "start_indices, limit_indices: one per dimension, 0 <= start <= limit <= size; strides: 1 or more each, none for all 1"}
}

// concatenateOp concatenates its one or more arguments along a dimension.
type concatenateOp struct {
	Dimension int
}

var _ rearranging = concatenateOp{}

// Concatenate returns the arguments concatenated along the dimension, in order.
// Their shapes may differ only in that dimension.
func Concatenate(dimension int, xs ...*graph.Value) *graph.Value {
	graph.Helper()
	if len(xs) == 0 {
		graph.Fail("concatenate of nothing, want at least one value")
	}
	return graph.Apply1(concatenateOp{dimension}, xs...)
}

func (concatenateOp) Name() string { return "concatenate" }

func (j concatenateOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if len(in) == 0 {
		return nil, fmt.Errorf("no arguments, want at least one")
	}
	if err := axisOf(in[0], j.Dimension); err != nil {
		return nil, err
	}
	out := graph.Type{DType: in[0].DType, Shape: slices.Clone(in[0].Shape)}
	for i, t := range in[1:] {
		if t.DType != out.DType {
			return nil, fmt.Errorf("element types %s and %s differ; convert one with convert_element_type", out.DType, t.DType)
		}
		if t.Rank() != out.Rank() {
			return nil, fmt.Errorf("argument %d has %d dimensions and argument 0 has %d; want the same number", i+1, t.Rank(), out.Rank())
		}
		for d, n := range t.Shape {
			switch {
			case d != j.Dimension && n != out.Shape[d]:
				return nil, fmt.Errorf("dimension %d of argument %d has size %d, want %d as argument 0; sizes differ along dimension %d only", d, i+1, n, out.Shape[d], j.Dimension)
			case d == j.Dimension && n > math.MaxInt-out.Shape[d]:
				return nil, fmt.Errorf("the sizes along dimension %d have no sum", d)
			case d == j.Dimension:
				out.Shape[d] += n
			}
		}
	}
	return []graph.Type{out}, nil
}

// VJP returns to every argument its slice of the cotangent.
func (j concatenateOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	out := make([]*graph.Value, len(e.In))
	at := 0
	for i, v := range e.In {
		n := v.Dim(j.Dimension)
		out[i] = SliceInDim(ct[0], j.Dimension, at, at+n)
		at += n
	}
	return out, nil
}

func (j concatenateOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(j.Factors(c, false))
}

// Factors allows splitting all dimensions except Dimension.
func (j concatenateOp) Factors(c *sharding.Context, _ bool) sharding.Factors {
	dims := rowDims(c.Type(0).Rank(), j.Dimension)
	f := sharding.Factors{Out: [][]int{dims}, RowWise: true, Linear: sharding.LinearTogether}
	for range c.In {
		f.In = append(f.In, dims)
	}
	return f
}

func (j concatenateOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	if len(in) == 1 {
		e.Alias(out[0], in[0])
		return nil
	}
	return e.Emit(lowering.KernelSpec{Op: ops.Concatenate, Out: out, In: in, Kernel: moveBoxes(j)})
}

func (j concatenateOp) Boxes(a *exec.Args, move moveBox) {
	to, at := work.RowMajor(a, a.Out[0].Type.Shape), 0
	for i, x := range a.In {
		shape := x.Type.Shape
		move(a, i, shape, at, to, 0, work.RowMajor(a, shape))
		at += shape[j.Dimension] * to[j.Dimension]
	}
}

func (concatenateOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..], y t[..], ...", Results: "t[..]", Formula: "[x y ...] along the dimension",
		Params: "dimension: the one along which the arguments follow each other"}
}

// padOp inserts, in each dimension, Low copies of a value before its argument, High
// copies after it and Interior copies between any two neighbours. A negative Low
// or High removes elements, after inserting Interior. An empty Interior means 0
// everywhere.
type padOp struct {
	Low      []int
	High     []int
	Interior []int
}

var _ rearranging = padOp{}

// Pad returns x with low[d] copies of the scalar value before it in dimension
// d, high[d] after it and interior[d] between neighbours. Omitting interior inserts
// nothing between neighbours. Negative low and high remove elements.
func Pad(x, value *graph.Value, low, high []int, interior ...int) *graph.Value {
	if !slices.ContainsFunc(interior, func(n int) bool { return n != 0 }) {
		interior = nil
	}
	return graph.Apply1(padOp{slices.Clone(low), slices.Clone(high), slices.Clone(interior)}, x, value)
}

func (padOp) Name() string { return "pad" }

// maxPad bounds each number of copies, keeping sizes from overflowing.
const maxPad = 1 << 40

func (p padOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	x, value := in[0], in[1]
	if value.Rank() != 0 || value.DType != x.DType {
		return nil, fmt.Errorf("the padding is %s, want the scalar %s[]", value, x.DType)
	}
	if len(p.Low) != x.Rank() || len(p.High) != x.Rank() || len(p.Interior) != x.Rank() && len(p.Interior) != 0 {
		return nil, fmt.Errorf("%d low, %d high and %d interior for %d dimensions, want one of each per dimension, or no interior",
			len(p.Low), len(p.High), len(p.Interior), x.Rank())
	}
	out := graph.Type{DType: x.DType, Shape: make([]int, x.Rank())}
	for d, n := range x.Shape {
		lo, hi, mid := p.Low[d], p.High[d], p.interior(d)
		if mid < 0 {
			return nil, fmt.Errorf("dimension %d with interior %d, want at least 0", d, mid)
		}
		if max(lo, -lo, hi, -hi, mid) > maxPad || min(lo, hi) < -maxPad || n > 1 && mid > 0 && mid > maxPad/n {
			return nil, fmt.Errorf("dimension %d with low %d, high %d and interior %d, want at most %d", d, lo, hi, mid, maxPad)
		}
		size := lo + hi + n + max(n-1, 0)*mid
		if size < 0 {
			return nil, fmt.Errorf("dimension %d of size %d with low %d, high %d and interior %d is left with size %d, want at least 0", d, n, lo, hi, mid, size)
		}
		out.Shape[d] = size
	}
	if !out.Fits() {
		return nil, errors.New("the result has more bytes than fit in 63 bits")
	}
	return []graph.Type{out}, nil
}

func (p padOp) interior(d int) int {
	if len(p.Interior) == 0 {
		return 0
	}
	return p.Interior[d]
}

// VJP slices the elements of x out of the cotangent. The cotangent of the value is
// the sum of all other elements, selected by a mask of ones.
func (p padOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, g := e.In[0], ct[0]
	zero := zeroOf(g)
	low, high, strides := make([]int, x.Rank()), make([]int, x.Rank()), make([]int, x.Rank())
	for d := range x.Rank() {
		low[d], high[d], strides[d] = -p.Low[d], -p.High[d], p.interior(d)+1
	}
	gx := Pad(g, zero, low, high)
	if len(p.Interior) > 0 {
		gx = Slice(gx, make([]int, x.Rank()), gx.Type.Shape, strides...)
	}
	if isFill(e.In[1]) {
		return []*graph.Value{gx, nil}, nil
	}
	mask := p.mask(e.In[0], g)
	if mask == nil {
		return []*graph.Value{gx, nil}, nil
	}
	return []*graph.Value{gx, ReduceSumUnordered(Mul(g, mask))}, nil
}

// mask returns ones where the result g is padding and zeros where it is x, nil if
// nothing is padded. It combines one list per padded dimension, so that a rank can
// compute its shard, even of rows in expert order.
func (p padOp) mask(x, g *graph.Value) *graph.Value {
	var mask *graph.Value
	for d, n := range x.Type.Shape {
		if !p.pads(d) {
			continue
		}
		t := g.Tracer()
		one := t.Apply(graph.FullOp{Value: 1, DType: g.Type.DType})[0]
		line := t.Apply(graph.FullOp{DType: g.Type.DType, Shape: []int{n}})[0]
		line = Pad(line, one, p.Low[d:d+1], p.High[d:d+1], p.interior(d))
		all := BroadcastInDim(line, g.Type.Shape, d)
		if mask == nil {
			mask = all
		} else {
			mask = Max(mask, all)
		}
	}
	return mask
}

// pads reports whether dimension d is changed.
func (p padOp) pads(d int) bool { return p.Low[d] != 0 || p.High[d] != 0 || p.interior(d) != 0 }

func (p padOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(p.Factors(c, false))
}

// Factors allows splitting dimensions without padding.
func (p padOp) Factors(c *sharding.Context, _ bool) sharding.Factors {
	dims := splitWhere(c.Type(0).Rank(), func(d int) bool { return !p.pads(d) })
	f := sharding.Factors{In: [][]int{dims, nil}, Out: [][]int{dims}, RowWise: true, Linear: sharding.LinearTogether}
	if isZero(c.Eqn.In[1]) {
		f.Linear = sharding.LinearFirst
	}
	return f
}

func (p padOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.Pad, Out: out, In: in, Kernel: moveBoxes(p)})
}

// Boxes fills the result with the value, before copying the elements of x appearing in it.
func (p padOp) Boxes(a *exec.Args, move moveBox) {
	x, y := a.In[0].Type.Shape, a.Out[0].Type.Shape
	whole := work.RowMajor(a, y)
	move(a, 1, y, 0, whole, 0, exec.Make[int](a, len(y)))
	shape, to, from := exec.Make[int](a, len(x)), work.RowMajor(a, y), work.RowMajor(a, x)
	toAt, fromAt := 0, 0
	for d := range shape {
		// Index i of x goes to low + i·step; keep the indices with 0 <= that < size.
		step, low, size := p.interior(d)+1, p.Low[d], y[d]
		first, end := 0, 0
		if low < 0 {
			first = (-low + step - 1) / step
		}
		if size > low {
			end = min(x[d], (size-low-1)/step+1)
		}
		shape[d] = max(end-first, 0)
		toAt += (low + first*step) * whole[d]
		to[d] = step * whole[d]
		fromAt += first * from[d]
	}
	move(a, 0, shape, toAt, to, fromAt, from)
}

func (padOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..], value t[]", Results: "t[..]", Formula: "y[low_0 + i_0·(interior_0 + 1), ..] = x[i_0, ..], elsewhere value",
		Params: "low, high: copies of value before and behind x, per dimension, negative to take elements away; interior: copies between neighbours, none for all 0"}
}

// reverseOp reverses the order of the elements along some dimensions.
type reverseOp struct {
	Dimensions []int
}

var _ rearranging = reverseOp{}

// Reverse returns x, reversing the order of elements along the dimensions, given in
// ascending order.
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

// Factors allows splitting the dimensions that are not reversed.
func (r reverseOp) Factors(c *sharding.Context, _ bool) sharding.Factors {
	dims := splitWhere(c.Type(0).Rank(), func(d int) bool { return !slices.Contains(r.Dimensions, d) })
	return sharding.Factors{In: [][]int{dims}, Out: [][]int{dims}, RowWise: true, Linear: sharding.LinearTogether}
}

func (r reverseOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.Rev, Out: out, In: in, Kernel: moveBoxes(r)})
}

func (r reverseOp) Boxes(a *exec.Args, move moveBox) {
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
