package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// scatterAddOp adds updates to those elements along an axis that the indices name. Its
// transpose, in the updates, is Gather.
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
	want, err := takenType(x, indices, s.Axis)
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

// Shard requires the axis to be whole. Each rank adds the updates that it holds,
// which leaves a sum pending over the axes that split the indices.
func (s scatterAddOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	x, indices, taken := takenFactors(c.Type(0).Rank(), c.Type(1).Rank(), s.Axis)
	f := sharding.Factors{In: [][]int{x, indices, taken}, Out: [][]int{x}, Sum: indices, RowWise: true}
	if isZero(c.Eqn.In[0]) && len(c.In[2].Pending) > 0 {
		f.Linear = sharding.LinearEach
	}
	return c.Place(f)
}

// Lower emits a kernel that begins with x on one of the ranks that share a pending sum,
// and with zeros on the others.
func (s scatterAddOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	summed := in[1].Spec.Axes()
	// The result must not lie in the memory of the indices or the updates, which are
	// read after elements of the result are written.
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

// add adds the updates to the result, which holds what they are added to.
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

// targets says which indices name each target, an element of the axis: the positions of
// the indices that name t are order[start[t]:start[t+1]], ascending.
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

// scatterBlock is how many elements of a row are added at a time: their sums stay in a cache, and
// take little memory where a row is a whole matrix.
const scatterBlock = 4096

// eachRow calls f, in parallel, for the blocks of the rows along the axis to which something is
// added: with where the block begins in y and its size, and the places of its updates, which lie
// at elements at+i·row of the updates.
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
