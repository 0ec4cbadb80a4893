package primitives

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/internal/work"
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

// Sort returns x sorted along a dimension, and each element's index i32 before
// sorting.
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
			keys := make([]rankedElement, n)
			for line := lo; line < hi; line++ {
				at := line/inner*n*inner + line%inner
				for i := range keys {
					keys[i] = rankedElement{key(at + i*inner), int32(i)}
				}
				slices.SortFunc(keys, rankedElement.compare)
				for i, k := range keys {
					index[at+i*inner] = k.index
				}
			}
		})
		takeAlong(a, a.Out[0], x, index, s.Dimension)
		return nil
	}})
}

// rankedElement is an element's order key and its index, breaking ties between equal keys.
type rankedElement struct {
	key   uint64
	index int32
}

func (r rankedElement) compare(o rankedElement) int {
	if r.key != o.key {
		return cmp.Compare(r.key, o.key)
	}
	return cmp.Compare(r.index, o.index)
}

func (sortOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "values t[..], indices i32[..]", Formula: "values ascending along dimension, values = x[indices]",
		Params: "dimension: one of x's", Notes: "Stable; 0 and -0 are equal; NaNs are last."}
}

// topKOp finds the K largest elements along the last dimension, in descending
// order. The lower index is first among equals. The order follows jax.lax.top_k: 0 is
// larger than -0, and NaNs are larger than Inf. Unlike JAX, which puts NaNs with a sign
// last, after -Inf, it treats them like other NaNs.
type topKOp struct {
	K int
}

var _ primitive = topKOp{}

// TopK returns the k largest elements of x along its last dimension and their
// indices i32, both [.., k].
func TopK(x *graph.Value, k int) (values, indices *graph.Value) {
	out := graph.Apply(topKOp{k}, x)
	return out[0], out[1]
}

func (topKOp) Name() string { return "top_k" }

func (t topKOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	x := in[0]
	if err := atLeast(x, 1); err != nil {
		return nil, err
	}
	last := x.Rank() - 1
	if err := indexable(x, last); err != nil {
		return nil, err
	}
	if t.K < 0 || t.K > x.Shape[last] {
		return nil, fmt.Errorf("k=%d of the last dimension of %s, want 0 to %d", t.K, x, x.Shape[last])
	}
	out := graph.Type{DType: x.DType, Shape: slices.Clone(x.Shape)}
	out.Shape[last] = t.K
	return []graph.Type{out, out.With(graph.I32)}, nil
}

func (t topKOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	last := e.In[0].Rank() - 1
	return []*graph.Value{graph.Apply1(addAlongAxisOp{last, e.In[0].Dim(last)}, ct[0], e.Out[1])}, nil
}

func (t topKOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(alongAxis(c.Type(0), c.Type(0).Rank()-1, 2))
}

// Up to this k, keeping the k best in order is faster than sorting all elements: rejecting
// an element costs one comparison.
const topKInsert = 64

func (t topKOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.TopK, Out: out, In: in, Kernel: func(a *exec.Args) error {
		x, index := a.In[0], data[int32](a.Out[1])
		last := x.Type.Rank() - 1
		rows, n, _ := x.Type.Around(last)
		if x.Type.DType == graph.F32 && t.K <= topKInsert {
			values := data[float32](x)
			a.Parallel(rows, 1+4*dear/(1+n), func(lo, hi int) {
				keys, best := make([]int32, n), make([]int32, t.K)
				for row := lo; row < hi; row++ {
					vector.Order(keys, values[row*n:][:n])
					largestKeys(best, index[row*t.K:][:t.K], keys)
				}
			})
			takeAlong(a, a.Out[0], x, index, last)
			return nil
		}
		key := orderKeys(x, true)
		a.Parallel(rows, 1+dear/(1+n), func(lo, hi int) {
			best := make([]rankedElement, 0, n)
			for row := lo; row < hi; row++ {
				best = best[:0]
				for i := range n {
					// The complement makes the largest first.
					best = t.add(best, rankedElement{^key(row*n + i), int32(i)})
				}
				if t.K > topKInsert {
					slices.SortFunc(best, rankedElement.compare)
				}
				for i, r := range best[:t.K] {
					index[row*t.K+i] = r.index
				}
			}
		})
		takeAlong(a, a.Out[0], x, index, last)
		return nil
	}})
}

// largestKeys writes the largest keys to best, in descending order, and their indices to
// index. Of equal keys the one with the lowest index is first. There are at least
// len(best) keys.
func largestKeys(best, index, keys []int32) {
	k, n := len(best), 0
	if k == 0 {
		return
	}
	for i, key := range keys {
		if n == k {
			if key <= best[k-1] {
				continue
			}
			n--
		}
		j := n
		for ; j > 0 && best[j-1] < key; j-- {
			best[j], index[j] = best[j-1], index[j-1]
		}
		best[j], index[j] = key, int32(i)
		n++
	}
}

// add returns best with r. Elements are added in the order of their indices. If K is at most topKInsert, add
// inserts r, keeping the K least in ascending order; otherwise it appends r.
func (t topKOp) add(best []rankedElement, r rankedElement) []rankedElement {
	if t.K > topKInsert {
		return append(best, r)
	}
	if len(best) == t.K {
		if t.K == 0 || best[t.K-1].key <= r.key {
			return best
		}
		best = best[:t.K-1]
	}
	best = append(best, r)
	i := len(best) - 1
	for ; i > 0 && best[i-1].key > r.key; i-- {
		best[i] = best[i-1]
	}
	best[i] = r
	return best
}

func (topKOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..,n]", Results: "values t[..,k], indices i32[..,k]", Formula: "values descending, values = x[.., indices]",
		Params: "k: how many, 0 to n", Notes: "Ties go to the lower index; 0 is larger than -0; NaNs are the largest, as in jax.lax.top_k, also NaNs with a sign, which JAX puts last; unlike router it does not refuse them."}
}

// argExtremeOp is the family of argmax and argmin: the index of the largest or
// the smallest element along Axis, and of several equal elements the lowest
// index. The first NaN wins over all numbers; 0 and -0 are equal.
type argExtremeOp struct {
	op   ops.Op
	Axis int
	// IndexDType is the integer type of the result; zero is i32.
	IndexDType graph.DType
}

var _ primitive = argExtremeOp{}

// ArgMax returns the index i32 of the largest element of x along axis.
func ArgMax(x *graph.Value, axis int) *graph.Value {
	return graph.Apply1(argExtremeOp{op: ops.ArgMax, Axis: axis}, x)
}

// ArgMin returns the index i32 of the smallest element of x along axis.
func ArgMin(x *graph.Value, axis int) *graph.Value {
	return graph.Apply1(argExtremeOp{op: ops.ArgMin, Axis: axis}, x)
}

func (r argExtremeOp) Name() string { return r.op.String() }

func (r argExtremeOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if err := axisOf(in[0], r.Axis); err != nil {
		return nil, err
	}
	n := in[0].Shape[r.Axis]
	if n == 0 {
		return nil, fmt.Errorf("axis %d of %s is empty, want at least one element", r.Axis, in[0])
	}
	out := without(in[0], []int{r.Axis})
	out.DType = r.IndexDType
	most := int64(math.MaxInt64)
	switch r.IndexDType {
	case graph.NoDType:
		out.DType, most = graph.I32, math.MaxInt32
	case graph.I32:
		most = math.MaxInt32
	case graph.I64:
	case graph.U32:
		most = math.MaxUint32
	case graph.U8:
		most = math.MaxUint8
	default:
		return nil, fmt.Errorf("index_dtype=%s, want i32, i64, u32 or u8", r.IndexDType)
	}
	if int64(n)-1 > most {
		return nil, fmt.Errorf("index_dtype=%s counts to %d and axis %d has %d elements; want i64", out.DType, most, r.Axis, n)
	}
	return []graph.Type{out}, nil
}

// VJP returns nil: indices have no cotangents.
func (r argExtremeOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (r argExtremeOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	f := alongAxis(c.Type(0), r.Axis, 0)
	f.Out = [][]int{kept(c.Type(0).Rank(), []int{r.Axis})}
	return c.Place(f)
}

// alongAxis returns the factors of a primitive processing each line along an axis
// separately, requiring the axis to be whole. The primitive has one argument and
// `results` results, all of t's rank.
func alongAxis(t graph.Type, axis, results int) sharding.Factors {
	f := sharding.Elementwise(t, 1, results, sharding.NotLinear)
	if len(f.In[0]) > axis {
		f.In[0][axis] = sharding.Whole // argument and results share one list
	}
	return f
}

func (r argExtremeOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: r.op, Out: out, In: in, Kernel: func(a *exec.Args) error {
		x := a.In[0]
		outer, n, inner := x.Type.Around(r.Axis)
		key := orderKeys(x, false)
		float := x.Type.DType.IsFloat()
		best := func(line int) int {
			at := line/inner*n*inner + line%inner
			top, index := uint64(0), 0
			for i := range n {
				k := key(at + i*inner)
				if r.op == ops.ArgMin && !(float && k == lastKey) {
					k = ^k
				}
				if i == 0 || k > top {
					top, index = k, i
				}
			}
			return index
		}
		each := func(set func(line, index int)) error {
			switch x.Type.DType {
			case graph.F32:
				eachLine(a, x.Type, r.Axis, [][]float32{data[float32](x)}, nil, func(k int, in, _ [][]float32) { set(k, extremeOf(r.op, in[0])) })
				return nil
			case graph.F64:
				eachLine(a, x.Type, r.Axis, [][]float64{data[float64](x)}, nil, func(k int, in, _ [][]float64) { set(k, extremeOf(r.op, in[0])) })
				return nil
			}
			a.Parallel(outer*inner, 1+dear/n, func(lo, hi int) {
				for line := lo; line < hi; line++ {
					set(line, best(line))
				}
			})
			return nil
		}
		switch a.Out[0].Type.DType {
		case graph.I64:
			y := data[int64](a.Out[0])
			return each(func(line, index int) { y[line] = int64(index) })
		case graph.U32:
			y := data[uint32](a.Out[0])
			return each(func(line, index int) { y[line] = uint32(index) })
		case graph.U8:
			y := data[uint8](a.Out[0])
			return each(func(line, index int) { y[line] = uint8(index) })
		default:
			y := data[int32](a.Out[0])
			return each(func(line, index int) { y[line] = int32(index) })
		}
	}})
}

// extremeOf returns the index of the first NaN of x or, if there is none, of the first
// element equal to the largest, or to the smallest.
func extremeOf[T float](op ops.Op, x []T) int {
	pick := vector.Largest[T]
	if op == ops.ArgMin {
		pick = vector.Smallest[T]
	}
	best := pick(x)
	for i, v := range x {
		if v == best || v != v {
			return i
		}
	}
	return 0
}

func (r argExtremeOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "i32[..] without axis", Formula: "y = " + r.Name() + " x along axis",
		Params: "axis: one of x's; index_dtype: integer type of the result, i32 if missing", Notes: "The lowest index of ties; a NaN wins."}
}

// lastKey is the order key of a NaN.
const lastKey = math.MaxUint64

// orderKeys returns a function mapping an element's index to an integer preserving
// the order of the elements: for floats -Inf .. Inf, NaN, all NaNs being equal.
// signed puts -0 before 0; otherwise they are equal.
func orderKeys(x array.Array, signed bool) func(i int) uint64 {
	switch x.Type.DType {
	case graph.F64:
		v := data[float64](x)
		return func(i int) uint64 { return floatKey(v[i], signed) }
	case graph.F32:
		v := data[float32](x)
		return func(i int) uint64 { return floatKey(float64(v[i]), signed) }
	case graph.BF16:
		v := data[array.Brain](x)
		return func(i int) uint64 { return floatKey(float64(v[i].Float32()), signed) }
	case graph.F16:
		v := data[array.Half](x)
		return func(i int) uint64 { return floatKey(float64(v[i].Float32()), signed) }
	case graph.I64:
		v := data[int64](x)
		return func(i int) uint64 { return uint64(v[i]) ^ 1<<63 }
	case graph.I32:
		v := data[int32](x)
		return func(i int) uint64 { return uint64(int64(v[i])) ^ 1<<63 }
	case graph.U32:
		v := data[uint32](x)
		return func(i int) uint64 { return uint64(v[i]) }
	default: // u8, bool
		v := work.Bits[uint8](x)
		return func(i int) uint64 { return uint64(v[i]) }
	}
}

func floatKey(x float64, signed bool) uint64 {
	switch b := math.Float64bits(x); {
	case x != x:
		return lastKey
	case x == 0 && !signed:
		return 1 << 63
	case b>>63 == 1:
		return ^b
	default:
		return b | 1<<63
	}
}
