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

// randomSeedOp makes a key from a seed.
type randomSeedOp struct{}

var _ primitive = randomSeedOp{}

// RandomKey returns the key u32[2] of a seed, jax.random.key_data(jax.random.key(seed)).
// A seed of more than 53 bits is a mistake: pass such a seed, or the key, as an
// input of the program.
func RandomKey(t *graph.Tracer, seed int64) *graph.Value {
	graph.Helper()
	x := float64(seed)
	if seed > 1<<53 || seed < -1<<53 {
		graph.Fail("key: seed %d has more than 53 bits; take the key u32[2] as an input", seed)
	}
	return RandomSeed(t.Apply(graph.FullOp{Value: x, DType: graph.I64})[0])
}

// RandomSeed returns the key u32[2] of a seed, an integer scalar: its high and
// its low 32 bits. The high ones are 0 for element types of 32 bits and fewer, as
// in JAX.
func RandomSeed(seed *graph.Value) *graph.Value { return graph.Apply1(randomSeedOp{}, seed) }

func (randomSeedOp) Name() string { return "random_seed" }

func (randomSeedOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	return []graph.Type{graph.T(graph.U32, 2)}, intScalar("seed", in[0])
}

func intScalar(what string, t graph.Type) error {
	if !t.DType.IsInt() || t.Rank() != 0 {
		return fmt.Errorf("%s %s, want an integer scalar such as i64[]", what, t)
	}
	return nil
}

func (randomSeedOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (randomSeedOp) Shard(c *sharding.Context) (sharding.Decision, error) { return c.Whole() }

func (randomSeedOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.RandomSeed, Out: out, In: in, Kernel: func(a *exec.Args) error {
		seed := uint64(data[int64](a.In[0].As(graph.I64))[0])
		if a.In[0].Type.DType != graph.I64 {
			seed = uint64(uint32(seed))
		}
		key := random.Seed(seed)
		copy(data[uint32](a.Out[0]), key[:])
		return nil
	}})
}

func keyIn(a array.Array) [2]uint32 { return [2]uint32(data[uint32](a)) }

func (randomSeedOp) Doc() graph.Doc {
	return graph.Doc{Args: "seed int[]", Results: "u32[2]", Formula: "key = (seed >> 32, seed mod 2³²)",
		Notes: "The key of jax.random.key(seed). Seeds of 32 bits and fewer, also negative ones, have 0 as the first word."}
}
