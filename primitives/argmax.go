package primitives

import (
	"fmt"
	"math"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

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

// alongAxis returns the factors of a primitive that works on the lines along an
// axis one by one, and so needs the axis whole. The primitive has one argument
// and `results` results, all of t's rank.
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
// element that is equal to the largest, or to the smallest.
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
