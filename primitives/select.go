package primitives

import (
	"errors"
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// selectNOp takes each element from the case selected by its first argument. The
// first argument is bool, for case 0 or 1, or an integer; integers below 0 select case
// 0, and integers exceeding the last case select the last. It has the shape of the
// cases or is a scalar. All cases have the same type.
type selectNOp struct{}

var _ primitive = selectNOp{}

// SelectN returns cases[which], element by element. If `which` is bool, false selects
// the first case and true the second.
func SelectN(which *graph.Value, cases ...*graph.Value) *graph.Value {
	return graph.Apply1(selectNOp{}, append([]*graph.Value{which}, cases...)...)
}

// Where returns yes where cond is true, and no elsewhere.
func Where(cond, yes, no *graph.Value) *graph.Value {
	graph.Helper()
	return SelectN(cond, no, yes)
}

func (selectNOp) Name() string { return "select_n" }

func (selectNOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if len(in) < 2 {
		return nil, fmt.Errorf("%d arguments, want which and one or more cases", len(in))
	}
	which, cases := in[0], in[1:]
	if which.DType != graph.Bool && !which.DType.IsInt() {
		return nil, fmt.Errorf("which is %s, want bool or an integer type; compare, or convert with convert_element_type", which)
	}
	if which.DType == graph.Bool && len(cases) > 2 {
		return nil, fmt.Errorf("%d cases for a bool, want at most 2; select with an integer", len(cases))
	}
	if err := alike(cases); err != nil {
		return nil, fmt.Errorf("cases: %w", err)
	}
	if which.Rank() > 0 && !which.With(cases[0].DType).Equal(cases[0]) {
		return nil, errors.New("which has neither the shape of the cases nor no dimensions; broadcast it with broadcast_in_dim")
	}
	return cases[:1], nil
}

func (selectNOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	which, g, last := e.In[0], ct[0], len(e.In)-2
	out := make([]*graph.Value, len(e.In))
	if last == 0 {
		out[1] = g
		return out, nil
	}
	zeros := ZerosLike(g)
	if which.Type.DType == graph.Bool {
		out[1], out[2] = Where(which, zeros, g), Where(which, g, zeros)
		return out, nil
	}
	for i := range last + 1 {
		at := FullLike(which, float64(i))
		hit := Eq(which, at)
		switch i {
		case 0:
			hit = Le(which, at)
		case last:
			hit = Ge(which, at)
		}
		out[1+i] = Where(hit, g, zeros)
	}
	return out, nil
}

func (selectNOp) Pointwise() {}

// Shard lets a pending sum pass if all cases except one are zeros, as in
// derivatives.
func (selectNOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	others := 0
	for _, v := range c.Eqn.In[1:] {
		if !isZero(v) {
			others++
		}
	}
	l := sharding.NotLinear
	if others <= 1 {
		l = sharding.LinearEach
	}
	f := sharding.Elementwise(c.Type(1), len(c.In), 1, l)
	if c.Type(0).Rank() == 0 {
		f.In[0] = nil
	}
	return c.Place(f)
}

func (selectNOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.SelectN, Out: out, In: in, Elementwise: true, Kernel: func(a *exec.Args) error {
		switch a.Out[0].Type.DType.Size() {
		case 1:
			choose[uint8](a)
		case 2:
			choose[uint16](a)
		case 4:
			choose[uint32](a)
		default:
			choose[uint64](a)
		}
		return nil
	}})
}

// choose is the kernel of selectNOp for elements of T's size.
func choose[T uint8 | uint16 | uint32 | uint64](a *exec.Args) {
	which, z := a.In[0], work.Bits[T](a.Out[0])
	room := exec.NewDirty[caseSet[T]](a)
	room.cases = room.cases[:0]
	for _, x := range a.In[1:] {
		room.cases = append(room.cases, work.Bits[T](x))
	}
	cases := room.cases
	switch which.Type.DType {
	case graph.Bool:
		w := data[bool](which)
		if which.Type.Rank() == 0 || len(cases) == 1 {
			n := 0
			if len(cases) == 2 && w[0] {
				n = 1
			}
			copy(z, cases[n])
			return
		}
		no, yes := cases[0], cases[1]
		exec.Share(a, len(z), cheap, elementSelection[T]{z, yes, no, w})
	case graph.U8:
		chooseInt[uint8](a, which, z, cases)
	case graph.U32:
		chooseInt[uint32](a, which, z, cases)
	case graph.I32:
		chooseInt[int32](a, which, z, cases)
	case graph.I64:
		chooseInt[int64](a, which, z, cases)
	}
}

type caseSet[T any] struct{ cases [][]T }

type elementSelection[T uint8 | uint16 | uint32 | uint64] struct {
	z, yes, no []T
	which      []bool
}

func (w *elementSelection[T]) Piece(lo, hi int) {
	vector.Select(w.z[lo:hi], w.yes[lo:hi], w.no[lo:hi], w.which[lo:hi])
}

func chooseInt[I uint8 | uint32 | int32 | int64, T any](a *exec.Args, which array.Array, z []T, cases [][]T) {
	w, last := data[I](which), int64(len(cases)-1)
	at := func(i I) int64 { return min(max(int64(i), 0), last) }
	if which.Type.Rank() == 0 {
		copy(z, cases[at(w[0])])
		return
	}
	a.Parallel(len(z), cheap, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			z[i] = cases[at(w[i])][i]
		}
	})
}

func (selectNOp) Doc() graph.Doc {
	return graph.Doc{Args: "which bool[..] | i[..] | i[], case_0 t[..], case_1 t[..], ...", Results: "t[..]", Formula: "y = case_which",
		Notes: "A bool selects case_0 where false and case_1 where true. An integer out of range selects the nearest case, which receives the cotangent (in JAX none does). which has the cases' shape or none."}
}

// clampOp limits its second argument to the range between the first and the third,
// bounds of the same shape or scalars. The upper bound wins where the bounds cross.
// NaN in any of the three gives NaN.
type clampOp struct{}

var _ primitive = clampOp{}

// Clamp returns min(max(x, lo), hi). The bounds have x's type, or are scalars of its
// element type. Cotangents go to x where it is strictly between the bounds, and to
// the violated bound where x is outside. If x equals a bound, no argument receives a
// cotangent.
func Clamp(lo, x, hi *graph.Value) *graph.Value { return graph.Apply1(clampOp{}, lo, x, hi) }

func (clampOp) Name() string { return "clamp" }

func (clampOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 3); err != nil {
		return nil, err
	}
	x := in[1]
	for i, name := range [...]string{"min", "", "max"} {
		switch b := in[i]; {
		case b.DType != x.DType:
			return nil, fmt.Errorf("%s is %s, want element type %s as x; convert one with convert_element_type", name, b, x.DType)
		case b.Rank() > 0 && !b.Equal(x):
			return nil, fmt.Errorf("%s is %s, want the shape of x or no dimensions; broadcast it with broadcast_in_dim", name, b)
		}
	}
	return in[1:2], nil
}

// VJP follows jax.lax.clamp.
func (clampOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, g := e.In[1], ct[0]
	lo, hi, zeros := broadcastBound(e.In[0], x), broadcastBound(e.In[2], x), ZerosLike(x)
	below := Where(And(Gt(lo, x), Lt(lo, hi)), g, zeros)
	above := Where(Lt(hi, x), g, zeros)
	return []*graph.Value{
		boundCotangent(below, e.In[0]),
		Where(And(Gt(x, lo), Lt(x, hi)), g, zeros),
		boundCotangent(above, e.In[2]),
	}, nil
}

// broadcastBound broadcasts a scalar bound to the shape of x.
func broadcastBound(b, x *graph.Value) *graph.Value {
	if b.Rank() == x.Rank() {
		return b
	}
	return BroadcastInDim(b, x.Type.Shape)
}

// boundCotangent returns the cotangent of a bound: g, or the sum of g if the bound is a
// scalar.
func boundCotangent(g, of *graph.Value) *graph.Value {
	if of.Rank() == g.Rank() {
		return g
	}
	return ReduceSumUnordered(g)
}

func (clampOp) Pointwise() {}

func (clampOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	f := sharding.Elementwise(c.Type(1), 3, 1, sharding.NotLinear)
	for i := range f.In {
		if c.Type(i).Rank() == 0 {
			f.In[i] = nil
		}
	}
	return c.Place(f)
}

func (clampOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.Clamp, Out: out, In: in, Elementwise: true, Kernel: func(a *exec.Args) error {
		switch a.Out[0].Type.DType {
		case graph.F64:
			clampAll(a, data[float64])
		case graph.I32:
			clampAll(a, data[int32])
		case graph.I64:
			clampAll(a, data[int64])
		case graph.U32:
			clampAll(a, data[uint32])
		case graph.U8:
			clampAll(a, data[uint8])
		case graph.Bool:
			clampAll(a, work.Bits[uint8])
		default:
			tiled(a, cheap, clampTile)
		}
		return nil
	}})
}

func clampTile(_ *exec.Args, _, _ int, y []float32, x [][]float32) {
	if len(x[0]) == 1 && len(x[2]) == 1 {
		vector.Clamp(y, x[1], x[0][0], x[2][0])
	} else {
		clamp(y, x[0], x[1], x[2])
	}
}

// clampAll clamps arrays; `of` returns their elements.
func clampAll[T number](a *exec.Args, of func(array.Array) []T) {
	lo, x, hi, y := of(a.In[0]), of(a.In[1]), of(a.In[2]), of(a.Out[0])
	exec.Share(a, len(y), cheap, clampElements[T]{y, lo, x, hi})
}

type clampElements[T number] struct{ y, lo, x, hi []T }

func (w *clampElements[T]) Piece(from, to int) {
	lo, hi := w.lo, w.hi
	if len(lo) == len(w.y) {
		lo = lo[from:to]
	}
	if len(hi) == len(w.y) {
		hi = hi[from:to]
	}
	clamp(w.y[from:to], lo, w.x[from:to], hi)
}

// clamp writes min(max(x, lo), hi) to y, broadcasting bounds of one element.
func clamp[T number](y, lo, x, hi []T) {
	if len(lo) == 1 && len(hi) == 1 {
		l, h := lo[0], hi[0]
		for i := range y {
			y[i] = min(max(x[i], l), h)
		}
		return
	}
	l, h := 0, 0
	for i := range y {
		if len(lo) > 1 {
			l = i
		}
		if len(hi) > 1 {
			h = i
		}
		y[i] = min(max(x[i], lo[l]), hi[h])
	}
}

func (clampOp) Doc() graph.Doc {
	return graph.Doc{Args: "min t[..] | t[], x t[..], max t[..] | t[]", Results: "t[..]", Formula: "y = min(max(x, min), max)",
		Notes: "NaN in any of the three gives NaN. Where x equals a bound, nobody receives the cotangent."}
}
