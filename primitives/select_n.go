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

// selectNOp takes each element from the case that its first argument names. The
// first argument is bool, for case 0 or 1, or an integer; integers below 0 name case
// 0, and integers beyond the last case name the last. It has the shape of the cases
// or no dimensions. All cases have the same type.
type selectNOp struct{}

var _ primitive = selectNOp{}

// SelectN returns cases[which], element by element. Where `which` is bool, false takes
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

// Pointwise says that the result is a constant, in any placement, if the arguments are constants.
func (selectNOp) Pointwise() {}

// Shard lets a pending sum through where all cases but one are zeros, as they
// are in derivatives.
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
		exec.Share(a, len(z), cheap, selected[T]{z, yes, no, w})
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

type selected[T uint8 | uint16 | uint32 | uint64] struct {
	z, yes, no []T
	which      []bool
}

func (w *selected[T]) Piece(lo, hi int) {
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
