package primitives

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// logicalOp is the family of elementwise functions of bools, and of the bits of
// integers. The function not takes one argument; the others take two of the same type.
type logicalOp struct{ op ops.Op }

var _ primitive = logicalOp{}

// Not returns the complement: false for true, and every bit of an integer
// flipped.
func Not(x *graph.Value) *graph.Value { return graph.Apply1(logicalOp{ops.Not}, x) }

// And returns whether both x and y are true, or for integers the bits that are set in both.
func And(x, y *graph.Value) *graph.Value { return graph.Apply1(logicalOp{ops.And}, x, y) }

// Or returns whether x or y is true, or for integers the bits that are set in either.
func Or(x, y *graph.Value) *graph.Value { return graph.Apply1(logicalOp{ops.Or}, x, y) }

// Xor returns whether x and y differ, or for integers the bits in which they differ.
func Xor(x, y *graph.Value) *graph.Value { return graph.Apply1(logicalOp{ops.Xor}, x, y) }

func (l logicalOp) Name() string { return l.op.String() }

func (l logicalOp) args() int {
	if l.op == ops.Not {
		return 1
	}
	return 2
}

func (l logicalOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, l.args()); err != nil {
		return nil, err
	}
	if err := alike(in); err != nil {
		return nil, err
	}
	return in[:1], discrete.check(in[0])
}

// VJP returns nil: the result is not a float.
func (logicalOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

// Pointwise says that the result is a constant, in any placement, if the arguments are constants.
func (logicalOp) Pointwise() {}

func (l logicalOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), l.args(), 1, sharding.NotLinear))
}

func (l logicalOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: l.op, Out: out, In: in, Elementwise: true, Kernel: func(a *exec.Args) error {
		switch d := a.Out[0].Type.DType; d.Size() {
		case 1:
			ones := ^uint8(0)
			if d == graph.Bool {
				ones = 1
			}
			bitwise(a, l.op, ones)
		case 4:
			bitwise(a, l.op, ^uint32(0))
		default:
			bitwise(a, l.op, ^uint64(0))
		}
		return nil
	}})
}

// bitwise computes on unsigned integers of the size of ones, which has the bits set that
// `not` flips.
func bitwise[T uint8 | uint32 | uint64](a *exec.Args, op ops.Op, ones T) {
	z, x := bits[T](a.Out[0]), bits[T](a.In[0])
	y := x
	if len(a.In) > 1 {
		y = bits[T](a.In[1])
	}
	exec.Share(a, len(z), cheap, bitwiseElements[T]{z, x, y, op, ones})
}

type bitwiseElements[T uint8 | uint32 | uint64] struct {
	z, x, y []T
	op      ops.Op
	ones    T
}

func (w *bitwiseElements[T]) Piece(lo, hi int) {
	z, x, y := w.z, w.x, w.y
	switch w.op {
	case ops.Not:
		for i := lo; i < hi; i++ {
			z[i] = x[i] ^ w.ones
		}
	case ops.And:
		for i := lo; i < hi; i++ {
			z[i] = x[i] & y[i]
		}
	case ops.Or:
		for i := lo; i < hi; i++ {
			z[i] = x[i] | y[i]
		}
	case ops.Xor:
		for i := lo; i < hi; i++ {
			z[i] = x[i] ^ y[i]
		}
	}
}

func (l logicalOp) Doc() graph.Doc {
	if l.op == ops.Not {
		return graph.Doc{Args: "x i[..]", Results: "i[..]", Formula: "y = ¬x", Notes: "Of bool, or of every bit of integers."}
	}
	sign := map[ops.Op]string{ops.And: "∧", ops.Or: "∨", ops.Xor: "⊕"}[l.op]
	return graph.Doc{Args: "x i[..], y i[..]", Results: "i[..]", Formula: "z = x " + sign + " y", Notes: "Of bool, or of every bit of integers."}
}

func logicalFamily() []graph.Primitive {
	return []graph.Primitive{logicalOp{ops.Not}, logicalOp{ops.And}, logicalOp{ops.Or}, logicalOp{ops.Xor}}
}
