package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/random"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// stochasticRoundOp rounds f32 to bf16, up or down at random.
type stochasticRoundOp struct{}

var _ primitive = stochasticRoundOp{}

// StochasticRound returns x f32 as bf16: of the two numbers around an element one at random, the nearer one as often as
// makes x the mean. key u32[2] is a key as RandomKey makes it. The same elements are rounded up on every mesh. An infinity,
// a NaN and what bf16 holds stay as they are; what is past the largest number is rounded to it or to an infinity. The
// derivative is that of the mean. x must not be in expert order.
func StochasticRound(x, key *graph.Value) *graph.Value {
	return graph.Apply1(stochasticRoundOp{}, x, key)
}

func (stochasticRoundOp) Name() string { return "stochastic_round" }

func (stochasticRoundOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if d := in[0].DType; d != graph.F32 {
		return nil, fmt.Errorf("x has element type %s, want f32; convert with convert_element_type", d)
	}
	return []graph.Type{in[0].With(graph.BF16)}, isKey(in[1])
}

func (stochasticRoundOp) VJP(_ *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{ConvertElementType(ct[0], graph.F32), nil}, nil
}

// Shard lets x be split in any way that leaves the index of its elements known: not into ragged rows.
func (stochasticRoundOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	f := sharding.Elementwise(c.Type(0), 1, 1, sharding.NotLinear)
	f.In, f.RowWise = append(f.In, []int{sharding.Whole}), false
	return c.Place(f)
}

func (stochasticRoundOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	spec, global := out[0].Spec, e.Eqn.Out[0].Type.Shape
	return e.Emit(lowering.KernelSpec{Op: ops.StochasticRound, Out: out, In: in, Kernel: func(a *exec.Args) error {
		y := data[array.Brain](a.Out[0])
		exec.Share(a, len(y), cheap, stochasticPiece{runsOf(a, a.Out[0].Type.Shape, global, spec), y, data[float32](a.In[0]), keyIn(a.In[1]), exec.RoomsOf[uint32](a, random.Few)})
		return nil
	}})
}

type stochasticPiece struct {
	runs
	y     []array.Brain
	x     []float32
	key   [2]uint32
	rooms *exec.Rooms[uint32]
}

func (w stochasticPiece) Piece(lo, hi int) {
	room := w.rooms.Take()
	for lo < hi {
		n := min(hi-lo, w.size-lo%w.size)
		random.RoundBrain(w.y[lo:lo+n], w.x[lo:lo+n], w.key, w.global(lo), room)
		lo += n
	}
}

func (stochasticRoundOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f32[..], key u32[2]", Results: "bf16[..]", Formula: "y[i] = the upper 16 bits of x[i] + r[i], as integers; r[i] = half i mod 2, the lower one first, of random_bits(key)[i/2]",
		Notes: "Rounds to one of the two numbers around x, so that x is the mean. An infinity and a NaN stay what they are. The derivative is that of the mean, 1. An element depends on the key and its index in the whole value, so it is the same on every mesh; rows in expert order are refused."}
}
