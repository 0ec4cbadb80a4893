package primitives

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/quant"
	"github.com/gomoe/gomoe/sharding"
)

// dynamicSliceOp takes a box of a known size out of its first argument. The other
// arguments are the box's start indices.
type dynamicSliceOp struct {
	SliceSizes []int
}

var _ primitive = dynamicSliceOp{}

// DynamicSlice returns the box of the given sizes at the start indices, scalars i32[],
// one per dimension. Start indices are clamped so that the box fits; a negative one
// becomes 0.
func DynamicSlice(x *graph.Value, start []*graph.Value, sizes ...int) *graph.Value {
	return graph.Apply1(dynamicSliceOp{slices.Clone(sizes)}, append([]*graph.Value{x}, start...)...)
}

func (dynamicSliceOp) Name() string { return "dynamic_slice" }

func (s dynamicSliceOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if len(in) == 0 {
		return nil, fmt.Errorf("no arguments, want a value and one start index per dimension")
	}
	x := in[0]
	if err := startIndices(x, in[1:]); err != nil {
		return nil, err
	}
	if len(s.SliceSizes) != x.Rank() {
		return nil, fmt.Errorf("%d slice_sizes for %d dimensions, want one for each", len(s.SliceSizes), x.Rank())
	}
	for d, n := range s.SliceSizes {
		if n < 0 || n > x.Shape[d] {
			return nil, fmt.Errorf("slice size %d in dimension %d, want 0 to %d", n, d, x.Shape[d])
		}
	}
	return []graph.Type{{DType: x.DType, Shape: s.SliceSizes}}, nil
}

// startIndices checks the start indices for a box of x.
func startIndices(x graph.Type, start []graph.Type) error {
	if len(start) != x.Rank() {
		return fmt.Errorf("%d start indices for %d dimensions, want one for each", len(start), x.Rank())
	}
	for d, t := range start {
		if !t.Equal(graph.T(graph.I32)) {
			return fmt.Errorf("start index %d is %s, want the scalar i32[]", d, t)
		}
	}
	return nil
}

// VJP writes the cotangent into zeros, where the box was.
func (s dynamicSliceOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	out := make([]*graph.Value, len(e.In))
	out[0] = DynamicUpdateSlice(zeros(e.In[0]), ct[0], e.In[1:]...)
	return out, nil
}

// Shard allows splitting a dimension if the box has all of its indices.
func (s dynamicSliceOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	shape := c.Type(0).Shape
	dims := splitWhere(len(shape), func(d int) bool { return s.SliceSizes[d] == shape[d] })
	f := sharding.Factors{In: [][]int{dims}, Out: [][]int{dims}, RowWise: true, Linear: sharding.LinearFirst}
	for range c.In[1:] {
		f.In = append(f.In, nil)
	}
	return c.Place(f)
}

func (s dynamicSliceOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.DynamicSlice, Out: out, In: in, Kernel: func(a *exec.Args) error {
		x, shape := a.In[0], a.Out[0].Type.Shape
		work.Move(a, shape, a.Out[0], work.Layout{Strides: work.RowMajor(a, shape)}, x, boxAt(a, x.Type.Shape, shape, a.In[1:]))
		return nil
	}})
}

// boxAt returns the layout, in an array of the shape, of a box of the given sizes
// beginning at the start indices, clamped so that the box fits.
func boxAt(a *exec.Args, shape, sizes []int, start []array.Array) work.Layout {
	l := work.Layout{Strides: work.RowMajor(a, shape)}
	for d, i := range start {
		l.At += max(0, min(int(data[int32](i)[0]), shape[d]-sizes[d])) * l.Strides[d]
	}
	return l
}

func (dynamicSliceOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..], start_0 i32[], start_1 i32[], ...", Results: "t[slice_sizes]", Formula: "y[i_0, ..] = x[s_0 + i_0, ..], s_d = clamp(0, start_d, size_d - slice_size_d)",
		Params: "slice_sizes: one per dimension",
		Notes:  "A start from which the box would not fit is moved to the nearest one from which it does. So a negative start is 0; jax.lax.dynamic_slice counts it from the end, unless allow_negative_indices is False."}
}

// dynamicUpdateSliceOp replaces a box of its first argument by its second argument. The
// other arguments are the box's start indices.
type dynamicUpdateSliceOp struct{}

var _ primitive = dynamicUpdateSliceOp{}

// DynamicUpdateSlice returns x with the box beginning at the start indices, scalars
// i32[], one per dimension, replaced by update. Start indices are clamped so that
// update fits.
func DynamicUpdateSlice(x, update *graph.Value, start ...*graph.Value) *graph.Value {
	return graph.Apply1(dynamicUpdateSliceOp{}, append([]*graph.Value{x, update}, start...)...)
}

func (dynamicUpdateSliceOp) Name() string { return "dynamic_update_slice" }

func (dynamicUpdateSliceOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if len(in) < 2 {
		return nil, fmt.Errorf("%d arguments, want a value, its update and one start index per dimension", len(in))
	}
	x, update := in[0], in[1]
	if update.DType != x.DType || update.Rank() != x.Rank() {
		return nil, fmt.Errorf("update %s of %s, want the same element type and number of dimensions", update, x)
	}
	for d, n := range update.Shape {
		if n > x.Shape[d] {
			return nil, fmt.Errorf("update %s is larger than %s in dimension %d, want at most %d", update, x, d, x.Shape[d])
		}
	}
	return in[:1], startIndices(x, in[2:])
}

func (dynamicUpdateSliceOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	out := make([]*graph.Value, len(e.In))
	update, start := e.In[1], e.In[2:]
	if !isFill(e.In[0]) {
		out[0] = DynamicUpdateSlice(ct[0], zeros(update), start...)
	}
	out[1] = DynamicSlice(ct[0], start, update.Type.Shape...)
	return out, nil
}

// Shard allows splitting a dimension if the update has all of its indices. If the update
// is zeros, a pending sum of x stays pending in the result, and if x is zeros, a pending
// sum of the update.
func (dynamicUpdateSliceOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	x, update := c.Type(0), c.Type(1)
	dims := splitWhere(x.Rank(), func(d int) bool { return update.Shape[d] == x.Shape[d] })
	f := sharding.Factors{In: [][]int{dims, dims}, Out: [][]int{dims}, RowWise: true}
	for range c.In[2:] {
		f.In = append(f.In, nil)
	}
	switch {
	case isZero(c.Eqn.In[1]):
		f.Linear = sharding.LinearFirst
	case isZero(c.Eqn.In[0]) && len(c.In[1].Pending) > 0:
		f.Linear = sharding.LinearEach // only one argument is pending
	}
	return c.Place(f)
}

func (dynamicUpdateSliceOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.DynamicUpdateSlice, Out: out, In: in, InPlace: true, Kernel: func(a *exec.Args) error {
		x, update, y := a.In[0], a.In[1], a.Out[0]
		if update.Type.Equal(y.Type) { // y may share update's memory
			copy(y.Bytes(), update.Bytes())
			return nil
		}
		copy(y.Bytes(), x.Bytes())
		work.Move(a, update.Type.Shape, y, boxAt(a, y.Type.Shape, update.Type.Shape, a.In[2:]), update, work.Layout{Strides: work.RowMajor(a, update.Type.Shape)})
		return nil
	}})
}

func (dynamicUpdateSliceOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..], update t[..], start_0 i32[], start_1 i32[], ...", Results: "t[..]", Formula: "y = x, but y[s_0 + i_0, ..] = update[i_0, ..], s_d = clamp(0, start_d, size_d - update_size_d)",
		Notes: "A start from which the update would not fit is moved to the nearest one from which it does. So a negative start is 0, as in dynamic_slice."}
}

// cacheUpdateOp writes rows of each sequence into its cache; see CacheUpdate.
type cacheUpdateOp struct{}

var _ primitive = cacheUpdateOp{}

// CacheUpdate returns cache[B,R,..] with update[B,S,..] in the rows start[b] to start[b]+S-1 of
// sequence b, converted to the cache's element type, f32, f64, bf16, f16 or q8_0; start is
// i32[B]. Rows outside the cache make the run fail. A donated cache is updated in place,
// writing only these rows.
func CacheUpdate(cache, update, start *graph.Value) *graph.Value {
	return graph.Apply1(cacheUpdateOp{}, cache, update, start)
}

func (cacheUpdateOp) Name() string { return "cache_update" }

// Blocks: the cache may be q8_0.
func (cacheUpdateOp) Blocks() {}

func (cacheUpdateOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 3); err != nil {
		return nil, err
	}
	cache, update, start := in[0], in[1], in[2]
	if !cache.DType.IsFloat() && cache.DType != graph.Q8_0 {
		return nil, fmt.Errorf("the cache is %s, want f64, f32, bf16, f16 or q8_0", cache)
	}
	if err := floating(update); err != nil {
		return nil, fmt.Errorf("the update: %w", err)
	}
	if cache.Rank() < 2 || update.Rank() != cache.Rank() || update.Shape[1] > cache.Shape[1] {
		return nil, fmt.Errorf("update %s of the cache %s, want [B,S,..] of [B,R,..] with S up to R", update, cache)
	}
	want := cache.With(update.DType)
	want.Shape = append([]int(nil), cache.Shape...)
	want.Shape[1] = update.Shape[1]
	if !update.Equal(want) {
		return nil, fmt.Errorf("update %s of the cache %s, want %s", update, cache, want)
	}
	if want := graph.T(graph.I32, cache.Shape[0]); !start.Equal(want) {
		return nil, fmt.Errorf("start is %s, want %s", start, want)
	}
	return in[:1], nil
}

func (cacheUpdateOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	cache, update, start := e.In[0], e.In[1], e.In[2]
	if cache.Type.DType.IsBlock() {
		return nil, fmt.Errorf("a cache of %s has no derivative", cache.Type.DType)
	}
	shape := update.Type.Shape
	row := Add(BroadcastInDim(start, shape, 0), Iota(e.Out[0].Tracer(), graph.I32, 1, shape...))
	return []*graph.Value{
		CacheUpdate(ct[0], zeros(update), start),
		ConvertElementType(TakeAlongAxis(ct[0], row, 1), update.Type.DType),
		nil,
	}, nil
}

// Shard allows splitting all dimensions except the rows of the cache.
func (cacheUpdateOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	n := c.Type(0).Rank()
	dims := splitWhere(n, func(d int) bool { return d != 1 && (d < n-1 || !c.Type(0).DType.IsBlock()) })
	return c.Place(sharding.Factors{In: [][]int{dims, dims, {0}}, Out: [][]int{dims}})
}

func (cacheUpdateOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	placed, starts := in[2].Spec, e.Eqn.In[2].Type
	return e.Emit(lowering.KernelSpec{Op: ops.CacheUpdate, Out: out, In: in, InPlace: true, Kernel: func(a *exec.Args) error {
		cache, update, y := a.In[0], a.In[1], a.Out[0]
		start, room, rows := data[int32](a.In[2]), cache.Type.Shape[1], update.Type.Shape[1]
		for i, at := range start {
			if at < 0 || int(at) > room-rows {
				return cacheUpdateOp{}.BadIndex(a, placed, starts, i, at, room-rows+1)
			}
		}
		if len(y.Bytes()) == 0 {
			return nil
		}
		if update.Type.Equal(y.Type) { // every row is written, and y may share update's memory
			copy(y.Bytes(), update.Bytes())
			return nil
		}
		if unsafe.SliceData(y.Bytes()) != unsafe.SliceData(cache.Bytes()) {
			copy(y.Bytes(), cache.Bytes())
		}
		if len(update.Bytes()) == 0 {
			return nil
		}
		exec.Share(a, len(start), 1+cheap/max(update.Type.Len()/len(start), 1), cacheRowWrite{y, update, start})
		return nil
	}})
}

// cacheRowWrite is the work of writing an update's rows, a sequence at a time.
type cacheRowWrite struct {
	y, update array.Array
	start     []int32
}

func (w *cacheRowWrite) Piece(lo, hi int) {
	n := w.update.Type.Len() / len(w.start) // elements of a sequence
	width := n / w.update.Type.Shape[1]
	room := w.y.Type.Shape[1] * width
	for b := lo; b < hi; b++ {
		w.write(b*room+int(w.start[b])*width, b*n, n)
	}
}

// write sets n elements of y from `to` on to the elements of the update from `from` on.
func (w *cacheRowWrite) write(to, from, n int) {
	y, x := w.y, w.update
	switch {
	case x.Type.DType == y.Type.DType:
		size := x.Type.DType.Size()
		copy(y.Bytes()[to*size:], x.Bytes()[from*size:][:n*size])
	case y.Type.DType.IsBlock():
		var line [256]float32
		each, size := y.Type.DType.Block()
		for i := 0; i < n; i += each {
			wideLine(line[:each], x, from+i)
			if err := quant.Quantize(y.Bytes()[(to+i)/each*size:][:size], y.Type.DType, line[:each]); err != nil {
				panic(err) // rows are whole blocks
			}
		}
	default:
		if err := convertTile(y, to, x, from, n); err != nil {
			panic(err) // floats convert to floats
		}
	}
}

// wideLine sets line to the elements of x from `from` on.
func wideLine(line []float32, x array.Array, from int) {
	switch x.Type.DType {
	case graph.F32:
		copy(line, data[float32](x)[from:])
	case graph.BF16:
		array.WidenBrain(line, data[array.Brain](x)[from:][:len(line)])
	case graph.F16:
		array.WidenHalf(line, data[array.Half](x)[from:][:len(line)])
	default:
		for i := range line {
			line[i] = float32(data[float64](x)[from+i])
		}
	}
}

func (cacheUpdateOp) Doc() graph.Doc {
	return graph.Doc{Args: "cache t[B,R,..], update f[B,S,..], start i32[B]", Results: "t[B,R,..]", Formula: "y = cache, but y[b, start[b] + i, ..] = update[b, i, ..]",
		Notes: "The update is converted to the cache's element type, which may be q8_0. A donated cache is written in place. A start at which the update does not fit is an error of the run."}
}
