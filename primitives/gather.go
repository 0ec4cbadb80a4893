package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/work"
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
// axis 0 these are rows, such as rows of an embedding table. x[A,N,B] and
// indices[I] with axis 1 give [A,I,B]. An index that is negative or not less than
// the size of the axis makes the run fail.
func Gather(x, indices *graph.Value, axis int) *graph.Value {
	return graph.Apply1(gatherOp{axis}, x, indices)
}

func (gatherOp) Name() string { return "gather" }

// Blocks marks a primitive moving weights in blocks.
func (gatherOp) Blocks() {}

func (g gatherOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if in[0].DType.IsBlock() && g.Axis == in[0].Rank()-1 {
		return nil, fmt.Errorf("axis=%d of %s, along which its blocks lie; want another axis, or convert with convert_element_type dtype=f32", g.Axis, in[0])
	}
	return gatherType(in[0], in[1], g.Axis)
}

// gatherType returns the type of x at indices along an axis.
func gatherType(x, indices graph.Type, axis int) ([]graph.Type, error) {
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
	x, indices, taken := gatherFactors(c.Type(0).Rank(), c.Type(1).Rank(), g.Axis)
	return c.Place(sharding.Factors{In: [][]int{x, indices}, Out: [][]int{taken}, RowWise: true, Linear: sharding.LinearFirst})
}

// gatherFactors returns the factors of x, of indices, and of x at indices.
func gatherFactors(rank, indexRank, axis int) (x, indices, taken []int) {
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

// scatterAddOp adds updates to elements along an axis, selected by index. Its transpose in
// the updates is Gather.
type scatterAddOp struct {
	Axis int
}

var _ primitive = scatterAddOp{}

// ScatterAdd returns x with each update added at its index along the axis: x[A,N,B],
// indices[I] and updates[A,I,B] give [A,N,B] for axis 1. Updates of the same element
// are added in the order of the indices. An index that is negative or not less than
// the size of the axis makes the run fail.
func ScatterAdd(x, indices, updates *graph.Value, axis int) *graph.Value {
	return graph.Apply1(scatterAddOp{axis}, x, indices, updates)
}

func (scatterAddOp) Name() string { return "scatter_add" }

func (s scatterAddOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 3); err != nil {
		return nil, err
	}
	x, indices, updates := in[0], in[1], in[2]
	if x.DType == graph.Bool {
		return nil, fmt.Errorf("element type bool cannot be added, want an integer or a float type; convert with convert_element_type")
	}
	want, err := gatherType(x, indices, s.Axis)
	if err != nil {
		return nil, err
	}
	if !updates.Equal(want[0]) {
		return nil, fmt.Errorf("updates are %s, want %s: those of the argument with the dimensions of the indices in the place of axis %d", updates, want[0], s.Axis)
	}
	return in[:1], nil
}

func (s scatterAddOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{ct[0], nil, Gather(ct[0], e.In[1], s.Axis)}, nil
}

// Shard requires the axis to be whole. Each rank adds its own updates, leaving a sum
// pending over the axes splitting the indices.
func (s scatterAddOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	x, indices, taken := gatherFactors(c.Type(0).Rank(), c.Type(1).Rank(), s.Axis)
	f := sharding.Factors{In: [][]int{x, indices, taken}, Out: [][]int{x}, Sum: indices, RowWise: true}
	if isZero(c.Eqn.In[0]) && len(c.In[2].Pending) > 0 {
		f.Linear = sharding.LinearEach
	}
	return c.Place(f)
}

// Lower emits a kernel starting from x on one of the ranks sharing a pending sum, and from
// zeros on the others.
func (s scatterAddOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	summed := in[1].Spec.Axes()
	// The result must not alias the indices or the updates, because they are read after
	// elements of the result are written.
	apart := !in[1].Type.Equal(out[0].Type) && !in[2].Type.Equal(out[0].Type)
	return e.Emit(lowering.KernelSpec{Op: ops.ScatterAdd, Out: out, In: in, InPlace: apart, Kernel: func(a *exec.Args) error {
		_, n, _ := a.In[0].Type.Around(s.Axis)
		if err := inRange(data[int32](a.In[1]), n); err != nil {
			return err
		}
		if a.Index(summed) != 0 {
			clear(a.Out[0].Bytes())
		} else {
			copy(a.Out[0].Bytes(), a.In[0].Bytes())
		}
		return s.add(a)
	}})
}

// add adds the updates to the elements of the result.
func (s scatterAddOp) add(a *exec.Args) error {
	y, updates, axis := a.Out[0], a.In[2], s.Axis
	if updates.Type.Len() == 0 || y.Type.Len() == 0 {
		return nil // without lists of targets, which are as long as the axis
	}
	byTarget := sortByTarget(data[int32](a.In[1]), y.Type.Shape[axis])
	switch y.Type.DType {
	case graph.F64:
		scatterAdd[float64, float64](a, byTarget, y, updates, axis)
	case graph.F32:
		scatterAdd[float32, float64](a, byTarget, y, updates, axis)
	case graph.BF16, graph.F16:
		scatterNarrow(a, byTarget, y, updates, axis)
	case graph.I64:
		scatterAdd[int64, int64](a, byTarget, y, updates, axis)
	case graph.I32:
		scatterAdd[int32, int32](a, byTarget, y, updates, axis)
	case graph.U32:
		scatterAdd[uint32, uint32](a, byTarget, y, updates, axis)
	case graph.U8:
		scatterAdd[uint8, uint8](a, byTarget, y, updates, axis)
	}
	return nil
}

// targets lists the indices of each target, an element of the axis: the positions of the indices
// equal to t are order[start[t]:start[t+1]], ascending.
type targets struct{ start, order []int }

func sortByTarget(indices []int32, n int) targets {
	t := targets{make([]int, n+1), make([]int, len(indices))}
	for _, i := range indices {
		t.start[i+1]++
	}
	for i := range n {
		t.start[i+1] += t.start[i]
	}
	next := append([]int(nil), t.start[:n]...)
	for k, i := range indices {
		t.order[next[i]] = k
		next[i]++
	}
	return t
}

// scatterBlock is the number of elements of a row added at a time. It keeps their sums in the
// cache, and small if a row is a whole matrix.
const scatterBlock = 4096

// eachRow calls f, in parallel, for each block of the rows with updates along the axis. f gets the
// first element of the block in y, its size, and the numbers i of its updates, stored at elements
// at+i·row of the updates.
func (by targets) eachRow(a *exec.Args, y array.Array, axis int, begin func() func(to, n, at, row int, from []int)) {
	outer, n, inner := y.Type.Around(axis)
	count, blocks := len(by.order), (inner+scatterBlock-1)/scatterBlock
	a.Parallel(outer*n*blocks, 1+dear/(1+min(inner, scatterBlock)*(1+count/max(n, 1))), func(lo, hi int) {
		f := begin()
		for u := lo; u < hi; u++ {
			k, c := u/blocks, u%blocks*scatterBlock
			o, t := k/n, k%n
			if from := by.order[by.start[t]:by.start[t+1]]; len(from) > 0 {
				f(k*inner+c, min(scatterBlock, inner-c), o*count*inner+c, inner, from)
			}
		}
	})
}

// scatterAdd adds in the type S and rounds to T once per element of y.
func scatterAdd[T, S float64 | float32 | int64 | int32 | uint32 | uint8](a *exec.Args, by targets, y, updates array.Array, axis int) {
	dst, src := data[T](y), data[T](updates)
	by.eachRow(a, y, axis, func() func(to, n, at, row int, from []int) {
		room := make([]S, scatterBlock)
		return func(to, n, at, row int, from []int) {
			sum, y := room[:n], dst[to:to+n]
			for j, v := range y {
				sum[j] = S(v)
			}
			for _, i := range from {
				for j, v := range src[at+i*row:][:n] {
					sum[j] += S(v)
				}
			}
			for j, v := range sum {
				y[j] = T(v)
			}
		}
	})
}

// scatterNarrow is scatterAdd for bf16 and f16, in f64. Sums are rounded to f32 and then to the type
// of y.
func scatterNarrow(a *exec.Args, by targets, y, updates array.Array, axis int) {
	d := y.Type.DType
	by.eachRow(a, y, axis, func() func(to, n, at, row int, from []int) {
		wide, sums := make([]float32, scatterBlock), make([]float64, scatterBlock)
		return func(to, n, at, row int, from []int) {
			part, sum, dst := wide[:n], sums[:n], y.Bytes()[2*to:][:2*n]
			widenRow(part, dst, d)
			for j, v := range part {
				sum[j] = float64(v)
			}
			for _, i := range from {
				widenRow(part, updates.Bytes()[2*(at+i*row):][:2*n], d)
				for j, v := range part {
					sum[j] += float64(v)
				}
			}
			for j, v := range sum {
				part[j] = float32(v)
			}
			narrowRow(dst, part, d)
		}
	})
}

func (scatterAddOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[A..,N,B..], indices i32[I..], updates t[A..,I..,B..]", Results: "t[A..,N,B..]", Formula: "y[a.., n, b..] = x[a.., n, b..] + Σ updates[a.., i.., b..] over i.. with indices[i..] = n",
		Params: "axis: the dimension N",
		Notes:  "Updates of one element are added in the order of the indices, in f64 for f64 and f32, and for bf16 and f16 rounded to f32 first; integers wrap. Where the indices are split over ranks, each sums its own. An index below 0 or not below N is an error of the run."}
}

// takeAlongAxisOp picks elements along Axis by index. Every line has its own list of
// indices. An index outside the axis makes the run fail.
type takeAlongAxisOp struct {
	Axis int
}

var _ primitive = takeAlongAxisOp{}

// TakeAlongAxis returns x[.., indices[.., j, ..], ..]. indices are i32 and count along
// the axis; in all other dimensions they have x's sizes.
func TakeAlongAxis(x, indices *graph.Value, axis int) *graph.Value {
	return graph.Apply1(takeAlongAxisOp{axis}, x, indices)
}

func (takeAlongAxisOp) Name() string { return "take_along_axis" }

func (t takeAlongAxisOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	x, index := in[0], in[1]
	if err := axisOf(x, t.Axis); err != nil {
		return nil, err
	}
	if index.DType != graph.I32 {
		return nil, fmt.Errorf("indices %s, want element type i32; convert with convert_element_type", index)
	}
	if index.Rank() != x.Rank() {
		return nil, fmt.Errorf("indices %s for %s, want as many dimensions", index, x)
	}
	for d, n := range x.Shape {
		if d != t.Axis && index.Shape[d] != n {
			return nil, fmt.Errorf("indices %s for %s, want the same sizes except along axis %d", index, x, t.Axis)
		}
	}
	return []graph.Type{index.With(x.DType)}, nil
}

func (t takeAlongAxisOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{graph.Apply1(addAlongAxisOp{t.Axis, e.In[0].Dim(t.Axis)}, ct[0], e.In[1]), nil}, nil
}

// Shard allows the axis of the indices to be split, but not the axis of x.
func (t takeAlongAxisOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	index := sharding.Elementwise(c.Type(1), 1, 0, 0).In[0]
	x := slices.Clone(index)
	x[t.Axis] = sharding.Whole
	return c.Place(sharding.Factors{In: [][]int{x, index}, Out: [][]int{index}, RowWise: true, Linear: sharding.LinearFirst})
}

func (t takeAlongAxisOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.TakeAlongAxis, Out: out, In: in, Kernel: func(a *exec.Args) error {
		if err := inAxis(a.In[1], t.Axis, a.In[0].Type.Shape[t.Axis]); err != nil {
			return err
		}
		takeAlong(a, a.Out[0], a.In[0], data[int32](a.In[1]), t.Axis)
		return nil
	}})
}

// inAxis returns an error for the first index outside an axis of n elements, or nil.
func inAxis(index array.Array, axis, n int) error {
	for i, k := range data[int32](index) {
		if k < 0 || int(k) >= n {
			return axisError(index.Type, axis, i, k, n)
		}
	}
	return nil
}

// axisError returns the error for an index outside the axis, which has n elements. The
// index is element `at` of indices of type t.
func axisError(t graph.Type, axis, at int, index int32, n int) error {
	return fmt.Errorf("element %d of the indices %s is %d, want 0 to %d for axis %d", at, t, index, n-1, axis)
}

// takeAlong sets dst to the elements of src at index. Every index is in range.
func takeAlong(a *exec.Args, dst, src array.Array, index []int32, axis int) {
	outer, n, inner := src.Type.Around(axis)
	m := dst.Type.Shape[axis]
	switch dst.Type.DType.Size() {
	case 1:
		takeLines(a, work.Bits[uint8](dst), work.Bits[uint8](src), index, outer, n, m, inner)
	case 2:
		takeLines(a, work.Bits[uint16](dst), work.Bits[uint16](src), index, outer, n, m, inner)
	case 4:
		takeLines(a, work.Bits[uint32](dst), work.Bits[uint32](src), index, outer, n, m, inner)
	default:
		takeLines(a, work.Bits[uint64](dst), work.Bits[uint64](src), index, outer, n, m, inner)
	}
}

func takeLines[T any](a *exec.Args, dst, src []T, index []int32, outer, n, m, inner int) {
	exec.Share(a, outer, 1+dear/(1+m*inner), lineSelection[T]{dst, src, index, n, m, inner})
}

type lineSelection[T any] struct {
	dst, src    []T
	index       []int32
	n, m, inner int
}

func (w *lineSelection[T]) Piece(lo, hi int) {
	for o := lo; o < hi; o++ {
		for i := range w.m {
			for j := range w.inner {
				at := (o*w.m+i)*w.inner + j
				w.dst[at] = w.src[(o*w.n+int(w.index[at]))*w.inner+j]
			}
		}
	}
}

func (takeAlongAxisOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..,n,..], indices i32[..,m,..]", Results: "t[..,m,..]", Formula: "y[.., i, ..] = x[.., indices[.., i, ..], ..]",
		Params: "axis: where the indices point", Notes: "An index outside 0..n-1 is an error of the run."}
}

// addAlongAxisOp is the transpose of takeAlongAxisOp: it adds elements at their indices to
// zeros with Size along Axis. Elements with the same index are added in the order of the
// axis, in f64 for f64 and in f32 for other floats. An index outside the axis makes the run
// fail.
type addAlongAxisOp struct {
	Axis, Size int
}

var _ primitive = addAlongAxisOp{}

func (addAlongAxisOp) Name() string { return "add_along_axis" }

func (t addAlongAxisOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	x := in[0]
	if err := floating(x); err != nil {
		return nil, err
	}
	if err := axisOf(x, t.Axis); err != nil {
		return nil, err
	}
	if !in[1].Equal(x.With(graph.I32)) {
		return nil, fmt.Errorf("indices %s for %s, want %s", in[1], x, x.With(graph.I32))
	}
	out := graph.Type{DType: x.DType, Shape: slices.Clone(x.Shape)}
	out.Shape[t.Axis] = t.Size
	if !out.Fits() {
		return nil, fmt.Errorf("size=%d, want 0 or more and a result of less than 2^63 bytes", t.Size)
	}
	return []graph.Type{out}, nil
}

func (t addAlongAxisOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{TakeAlongAxis(ct[0], e.In[1], t.Axis), nil}, nil
}

func (t addAlongAxisOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	f := sharding.Elementwise(c.Type(0), 2, 0, sharding.LinearFirst)
	out := slices.Clone(f.In[0])
	out[t.Axis] = sharding.Whole
	f.Out, f.Sum = [][]int{out}, []int{t.Axis}
	return c.Place(f)
}

func (t addAlongAxisOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	add := inFloat(addAlong[float32](t.Axis), addAlong[float64](t.Axis))
	return e.Emit(lowering.KernelSpec{Op: ops.AddAlongAxis, Out: out, In: in, Dry: widening(), Kernel: func(a *exec.Args) error {
		if err := inAxis(a.In[1], t.Axis, a.Out[0].Type.Shape[t.Axis]); err != nil {
			return err
		}
		return add(a)
	}})
}

func addAlong[T float](axis int) exec.Kernel {
	return func(a *exec.Args) error {
		x, index, y := data[T](a.In[0]), data[int32](a.In[1]), data[T](a.Out[0])
		outer, m, inner := a.In[0].Type.Around(axis)
		n := a.Out[0].Type.Shape[axis]
		exec.Share(a, outer, 1+dear/(1+(m+n)*inner), lineAddition[T]{y, x, index, n, m, inner})
		return nil
	}
}

type lineAddition[T float] struct {
	y, x        []T
	index       []int32
	n, m, inner int
}

func (w *lineAddition[T]) Piece(lo, hi int) {
	clear(w.y[lo*w.n*w.inner : hi*w.n*w.inner])
	for o := lo; o < hi; o++ {
		for i := range w.m {
			for j := range w.inner {
				at := (o*w.m+i)*w.inner + j
				w.y[(o*w.n+int(w.index[at]))*w.inner+j] += w.x[at]
			}
		}
	}
}

func (addAlongAxisOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..,m,..], indices i32[..,m,..]", Results: "f[..,size,..]", Formula: "y[.., k, ..] = Σ x[.., i, ..] over indices[.., i, ..] = k",
		Params: "axis: where the indices point; size: of the result along axis", Notes: "The transpose of take_along_axis. An index outside 0..size-1 is an error of the run."}
}

// position returns the index, in a value of type t with placement s, of element `flat` of a
// rank's part, for messages. In ragged rows it is the index in the rank's part.
func position(a *exec.Args, s sharding.Spec, t graph.Type, flat int) []int {
	idx, part := s.Box(a.Mesh, a.Rank, t)
	for d := len(idx) - 1; d >= 0; d-- {
		n := part.Shape[d]
		idx[d] += flat % n
		flat /= n
	}
	return idx
}

// Primitives with an argument of indices have the method BadIndex, called by devices. It returns the error
// for an index not below n: element flat of the rank's shard of that argument, of type t and placement s. a
// has the mesh and the rank.

func (embeddingOp) BadIndex(a *exec.Args, s sharding.Spec, t graph.Type, flat int, id int32, n int) error {
	return idError(a, s, t, flat, id, 0, n, "id")
}

func (embeddingGradOp) BadIndex(a *exec.Args, s sharding.Spec, t graph.Type, flat int, id int32, n int) error {
	return idError(a, s, t, flat, id, 0, n, "id")
}

func (crossEntropyOp) BadIndex(a *exec.Args, s sharding.Spec, t graph.Type, flat int, label int32, n int) error {
	return idError(a, s, t, flat, label, IgnoredLabel, n, "label")
}

func (crossEntropyGradOp) BadIndex(a *exec.Args, s sharding.Spec, t graph.Type, flat int, label int32, n int) error {
	return idError(a, s, t, flat, label, IgnoredLabel, n, "label")
}

func (attentionOp) BadIndex(a *exec.Args, s sharding.Spec, t graph.Type, flat int, length int32, n int) error {
	return idError(a, s, t, flat, length, 0, n, "length")
}

func (attentionGradOp) BadIndex(a *exec.Args, s sharding.Spec, t graph.Type, flat int, length int32, n int) error {
	return idError(a, s, t, flat, length, 0, n, "length")
}

func (cacheUpdateOp) BadIndex(a *exec.Args, s sharding.Spec, t graph.Type, flat int, start int32, n int) error {
	return idError(a, s, t, flat, start, 0, n, "start")
}

func (gatherOp) BadIndex(_ *exec.Args, _ sharding.Spec, _ graph.Type, flat int, index int32, n int) error {
	return rangeError(index, flat, n)
}

func (scatterAddOp) BadIndex(_ *exec.Args, _ sharding.Spec, _ graph.Type, flat int, index int32, n int) error {
	return rangeError(index, flat, n)
}

func (p takeAlongAxisOp) BadIndex(a *exec.Args, s sharding.Spec, t graph.Type, flat int, index int32, n int) error {
	_, part := s.Box(a.Mesh, a.Rank, t)
	return axisError(part, p.Axis, flat, index, n)
}

func (p addAlongAxisOp) BadIndex(a *exec.Args, s sharding.Spec, t graph.Type, flat int, index int32, n int) error {
	_, part := s.Box(a.Mesh, a.Rank, t)
	return axisError(part, p.Axis, flat, index, n)
}

// idError returns the error for an id below lo or not below n.
func idError(a *exec.Args, s sharding.Spec, t graph.Type, flat int, id int32, lo, n int, what string) error {
	if lo >= n {
		return fmt.Errorf("%s %d at %v, but the table is empty", what, id, position(a, s, t, flat))
	}
	return fmt.Errorf("%s %d at %v, want %d to %d", what, id, position(a, s, t, flat), lo, n-1)
}

// checkIDs runs k if all elements of ids, a rank's part of a value of type t with placement s,
// are at least lo and below n. Otherwise it returns an error.
func checkIDs(a *exec.Args, s sharding.Spec, t graph.Type, ids array.Array, lo, n int, what string, k exec.Kernel) error {
	x := data[int32](ids)
	bad := slices.IndexFunc(x, func(id int32) bool { return int(id) < lo || int(id) >= n })
	if bad >= 0 {
		return idError(a, s, t, bad, x[bad], lo, n, what)
	}
	return k(a)
}
