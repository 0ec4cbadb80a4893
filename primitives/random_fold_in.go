package primitives

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/random"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// randomFoldInOp makes a key from a key and a number.
type randomFoldInOp struct{}

var _ primitive = randomFoldInOp{}

// RandomFoldIn returns a new key u32[2] made from key and data, an integer scalar
// such as the number of a layer or step. Only the low 32 bits of data matter.
func RandomFoldIn(key, data *graph.Value) *graph.Value {
	return graph.Apply1(randomFoldInOp{}, key, data)
}

func (randomFoldInOp) Name() string { return "random_fold_in" }

func (randomFoldInOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if err := isKey(in[0]); err != nil {
		return nil, err
	}
	return []graph.Type{graph.T(graph.U32, 2)}, intScalar("data", in[1])
}

func (randomFoldInOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (randomFoldInOp) Shard(c *sharding.Context) (sharding.Decision, error) { return c.Whole() }

func (randomFoldInOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.RandomFoldIn, Out: out, In: in, Kernel: func(a *exec.Args) error {
		key := random.FoldIn(keyIn(a.In[0]), data[uint32](a.In[1].As(graph.U32))[0])
		copy(data[uint32](a.Out[0]), key[:])
		return nil
	}})
}

func (randomFoldInOp) Doc() graph.Doc {
	return graph.Doc{Args: "key u32[2], data int[]", Results: "u32[2]", Formula: "threefry2x32(key, (0, data mod 2³²))",
		Notes: "jax.random.fold_in: a key of its own for every layer or step."}
}
