package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/random"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// RandomSeedOp makes a key from a seed.
type RandomSeedOp struct{}

// RandomFoldInOp makes a key from a key and a number.
type RandomFoldInOp struct{}

// RandomSplitOp makes Num keys from one.
type RandomSplitOp struct{ Num int }

var (
	_ primitive = RandomSeedOp{}
	_ primitive = RandomFoldInOp{}
	_ flexible  = RandomSplitOp{}
)

// RandomKey returns the key u32[2] of a seed, jax.random.key_data(jax.random.key(seed)).
// A seed of more than 53 bits is a mistake: take it, or the key itself, as an
// input.
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
func RandomSeed(seed *graph.Value) *graph.Value { return graph.Apply1(RandomSeedOp{}, seed) }

// RandomFoldIn returns a key u32[2] that key and data, an integer scalar, make
// together: another for every layer or step. Of data the low 32 bits count.
func RandomFoldIn(key, data *graph.Value) *graph.Value {
	return graph.Apply1(RandomFoldInOp{}, key, data)
}

// RandomSplit returns n new keys u32[n,2] made of one key, which is not used
// for anything else then. The first keys do not depend on n.
func RandomSplit(key *graph.Value, n int) *graph.Value {
	return graph.Apply1(RandomSplitOp{n}, key)
}

func (RandomSeedOp) Name() string   { return "random_seed" }
func (RandomFoldInOp) Name() string { return "random_fold_in" }
func (RandomSplitOp) Name() string  { return "random_split" }

func (RandomSeedOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	return []graph.Type{graph.T(graph.U32, 2)}, intScalar("seed", in[0])
}

func (RandomFoldInOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if err := isKey(in[0]); err != nil {
		return nil, err
	}
	return []graph.Type{graph.T(graph.U32, 2)}, intScalar("data", in[1])
}

func intScalar(what string, t graph.Type) error {
	if !t.DType.IsInt() || t.Rank() != 0 {
		return fmt.Errorf("%s %s, want an integer scalar such as i64[]", what, t)
	}
	return nil
}

func (r RandomSplitOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if r.Num < 0 {
		return nil, fmt.Errorf("num %d, want at least 0", r.Num)
	}
	return inferDraw(in, graph.Type{DType: graph.U32, Shape: []int{r.Num, 2}}, graph.DType.IsInt, "u32")
}

func (RandomSeedOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error)   { return nil, nil }
func (RandomFoldInOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }
func (RandomSplitOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error)  { return nil, nil }

func (RandomSeedOp) Shard(c *sharding.Context) (sharding.Decision, error)   { return c.Whole() }
func (RandomFoldInOp) Shard(c *sharding.Context) (sharding.Decision, error) { return c.Whole() }
func (RandomSplitOp) Shard(*sharding.Context) (sharding.Decision, error)    { return shardDraw() }

func (RandomSplitOp) ShardAs(c *sharding.Context, out sharding.Spec) (sharding.Decision, error) {
	return shardDrawAs(c, out)
}

func (RandomSeedOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Name: "random_seed", Out: out, In: in, Kernel: func(a *exec.Args) error {
		seed := uint64(data[int64](a.In[0].As(graph.I64))[0])
		if a.In[0].Type.DType != graph.I64 {
			seed = uint64(uint32(seed))
		}
		key := random.Seed(seed)
		copy(data[uint32](a.Out[0]), key[:])
		return nil
	}})
}

func (RandomFoldInOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Name: "random_fold_in", Out: out, In: in, Kernel: func(a *exec.Args) error {
		key := random.FoldIn(keyIn(a.In[0]), data[uint32](a.In[1].As(graph.U32))[0])
		copy(data[uint32](a.Out[0]), key[:])
		return nil
	}})
}

func (RandomSplitOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return lowerDraw(e, out, in, func(dst []uint32, key [2]uint32, offset uint64) {
		for i := range dst {
			at := offset + uint64(i) // the word at%2 of key at/2
			dst[i] = random.Threefry2x32(key, random.Seed(at/2))[at%2]
		}
	})
}

func keyIn(a array.Array) [2]uint32 { return [2]uint32(data[uint32](a)) }

func (RandomSeedOp) Doc() graph.Doc {
	return graph.Doc{Args: "seed int[]", Results: "u32[2]", Formula: "key = (seed >> 32, seed mod 2³²)",
		Notes: "The key of jax.random.key(seed). Seeds of 32 bits and fewer, also negative ones, have 0 as the first word."}
}

func (RandomFoldInOp) Doc() graph.Doc {
	return graph.Doc{Args: "key u32[2], data int[]", Results: "u32[2]", Formula: "threefry2x32(key, (0, data mod 2³²))",
		Notes: "jax.random.fold_in: a key of its own for every layer or step."}
}

func (RandomSplitOp) Doc() graph.Doc {
	return graph.Doc{Args: "key u32[2]", Results: "u32[num,2]", Formula: "keys[i] = threefry2x32(key, i)",
		Params: "num: number of keys", Notes: "jax.random.split. " + drawNotes}
}
