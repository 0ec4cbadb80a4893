package primitives

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/random"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// randomSeedOp derives a key from a seed.
type randomSeedOp struct{}

var _ primitive = randomSeedOp{}

// RandomKey returns the key u32[2] of a seed, jax.random.key_data(jax.random.key(seed)).
// A seed exceeding 53 bits is a mistake: pass such a seed, or the key, as an input
// of the program.
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

// randomFoldInOp derives a key from a key and a number.
type randomFoldInOp struct{}

var _ primitive = randomFoldInOp{}

// RandomFoldIn returns a new key u32[2] derived from key and data, an integer scalar
// such as the number of a layer or step, using only the low 32 bits of data.
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

// randomSplitOp derives Num keys from one.
type randomSplitOp struct{ Num int }

var _ flexible = randomSplitOp{}

// RandomSplit returns n new keys u32[n,2] derived from key. Do not use key for
// anything else afterwards. The first keys do not depend on n.
func RandomSplit(key *graph.Value, n int) *graph.Value {
	return graph.Apply1(randomSplitOp{n}, key)
}

func (randomSplitOp) Name() string { return "random_split" }

func (r randomSplitOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if r.Num < 0 {
		return nil, fmt.Errorf("num %d, want at least 0", r.Num)
	}
	return inferDraw(in, graph.Type{DType: graph.U32, Shape: []int{r.Num, 2}}, graph.DType.IsInt, "u32")
}

func (randomSplitOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (randomSplitOp) Shard(*sharding.Context) (sharding.Decision, error) { return shardDraw() }

func (randomSplitOp) ShardAs(c *sharding.Context, out sharding.Spec) (sharding.Decision, error) {
	return shardDrawAs(c, out)
}

func (randomSplitOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return lowerDraw(e, ops.RandomSplit, out, in, func(dst []uint32, key [2]uint32, offset uint64) {
		for i := range dst {
			at := offset + uint64(i) // the word at%2 of key at/2
			dst[i] = random.Threefry2x32(key, random.Seed(at/2))[at%2]
		}
	})
}

func (randomSplitOp) Doc() graph.Doc {
	return graph.Doc{Args: "key u32[2]", Results: "u32[num,2]", Formula: "keys[i] = threefry2x32(key, i)",
		Params: "num: number of keys", Notes: "jax.random.split. " + drawNotes}
}

// randomBitsOp draws integers, all bits being random.
type randomBitsOp struct {
	DType graph.DType
	Shape []int
}

var _ flexible = randomBitsOp{}

// RandomBits returns a value of the shape, of u32 or u8, with random bits, following
// jax.random.bits(key, shape, dtype).
func RandomBits(key *graph.Value, d graph.DType, shape ...int) *graph.Value {
	return graph.Apply1(randomBitsOp{d, slices.Clone(shape)}, key)
}

func (randomBitsOp) Name() string { return "random_bits" }

func (r randomBitsOp) Infer(in []graph.Type) ([]graph.Type, error) {
	unsigned := func(d graph.DType) bool { return d == graph.U32 || d == graph.U8 }
	return inferDraw(in, graph.Type{DType: r.DType, Shape: r.Shape}, unsigned, "u32 or u8")
}

func (randomBitsOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (randomBitsOp) Shard(*sharding.Context) (sharding.Decision, error) { return shardDraw() }

func (randomBitsOp) ShardAs(c *sharding.Context, out sharding.Spec) (sharding.Decision, error) {
	return shardDrawAs(c, out)
}

func (r randomBitsOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	if r.DType == graph.U8 {
		return lowerDraw(e, ops.RandomBits, out, in, random.Bits8)
	}
	return lowerDraw(e, ops.RandomBits, out, in, random.Bits32)
}

func (randomBitsOp) Doc() graph.Doc {
	return graph.Doc{Args: "key u32[2]", Results: "u32[shape] or u8[shape]", Formula: "y[i] = xor of the two words of threefry2x32(key, flat index of i)",
		Params: "dtype: u32, or u8 for the low bytes; shape: sizes", Notes: drawNotes}
}

// randomUniformOp draws floats that are uniform in [Lo, Hi).
type randomUniformOp struct {
	DType  graph.DType
	Shape  []int
	Lo, Hi float64
}

var _ flexible = randomUniformOp{}

// RandomUniform returns floats of the shape, uniform in [lo, hi):
// jax.random.uniform(key, shape, dtype, lo, hi), bit for bit. lo and hi are
// rounded to the element type first.
func RandomUniform(key *graph.Value, d graph.DType, lo, hi float64, shape ...int) *graph.Value {
	return graph.Apply1(randomUniformOp{d, slices.Clone(shape), lo, hi}, key)
}

func (randomUniformOp) Name() string { return "random_uniform" }

func (r randomUniformOp) Infer(in []graph.Type) ([]graph.Type, error) {
	out, err := inferDraw(in, graph.Type{DType: r.DType, Shape: r.Shape}, graph.DType.IsFloat, "f32, f64, bf16 or f16")
	if err != nil {
		return nil, err
	}
	lo, hi := rounded(r.DType, r.Lo), rounded(r.DType, r.Hi)
	if width := rounded(r.DType, hi-lo); !(width > 0) || math.IsInf(width, 0) || math.IsInf(lo, 0) {
		return nil, fmt.Errorf("lo %g and hi %g, want lo below hi, and hi-lo finite, in %s", r.Lo, r.Hi, r.DType)
	}
	return out, nil
}

// rounded returns x after rounding to the element type.
func rounded(d graph.DType, x float64) float64 { return array.Scalar(x).As(d).Float64s()[0] }

func (randomUniformOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (randomUniformOp) Shard(*sharding.Context) (sharding.Decision, error) { return shardDraw() }

func (randomUniformOp) ShardAs(c *sharding.Context, out sharding.Spec) (sharding.Decision, error) {
	return shardDrawAs(c, out)
}

func (r randomUniformOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	lo, hi := array.Scalar(r.Lo).As(r.DType), array.Scalar(r.Hi).As(r.DType)
	switch r.DType {
	case graph.F64:
		return lowerUniform(e, out, in, lo, hi, random.Uniform[float64])
	case graph.F32:
		return lowerUniform(e, out, in, lo, hi, random.Uniform[float32])
	case graph.BF16:
		return lowerUniform(e, out, in, lo, hi, random.UniformBrain)
	default:
		return lowerUniform(e, out, in, lo, hi, random.UniformHalf)
	}
}

func lowerUniform[E array.Elem](e *lowering.Emitter, out, in []lowering.Buf, lo, hi array.Array, fill func(dst []E, key [2]uint32, offset uint64, lo, hi E)) error {
	return lowerDraw(e, ops.RandomUniform, out, in, func(dst []E, key [2]uint32, offset uint64) {
		fill(dst, key, offset, data[E](lo)[0], data[E](hi)[0])
	})
}

func (randomUniformOp) Doc() graph.Doc {
	return graph.Doc{Args: "key u32[2]", Results: "f[shape]", Formula: "y[i] uniform in [lo, hi)",
		Params: "dtype: a float type; shape: sizes; lo, hi: the bounds, lo below hi",
		Notes:  "23 random bits in f32, 52 in f64, 10 in f16, 7 in bf16. In f16 and bf16 the product and the sum are each rounded, as XLA does on processors without arithmetic of f16; on those with AVX512-FP16, XLA rounds f16 once, and about one element in ten has another last bit there. " + drawNotes}
}

// randomNormalOp draws floats of mean 0 and variance 1.
type randomNormalOp struct {
	DType graph.DType
	Shape []int
}

var _ flexible = randomNormalOp{}

// RandomNormal returns floats of the shape, normally distributed with mean 0
// and variance 1, matching jax.random.normal(key, shape, dtype) except for the last bits
// of a few numbers (see random.Normal).
func RandomNormal(key *graph.Value, d graph.DType, shape ...int) *graph.Value {
	return graph.Apply1(randomNormalOp{d, slices.Clone(shape)}, key)
}

func (randomNormalOp) Name() string { return "random_normal" }

func (r randomNormalOp) Infer(in []graph.Type) ([]graph.Type, error) {
	return inferDraw(in, graph.Type{DType: r.DType, Shape: r.Shape}, graph.DType.IsFloat, "f32, f64, bf16 or f16")
}

func (randomNormalOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (randomNormalOp) Shard(*sharding.Context) (sharding.Decision, error) { return shardDraw() }

func (randomNormalOp) ShardAs(c *sharding.Context, out sharding.Spec) (sharding.Decision, error) {
	return shardDrawAs(c, out)
}

func (r randomNormalOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	switch r.DType {
	case graph.F64:
		return lowerDraw(e, ops.RandomNormal, out, in, random.Normal[float64])
	case graph.F32:
		return lowerDraw(e, ops.RandomNormal, out, in, random.Normal[float32])
	case graph.BF16:
		return lowerDraw(e, ops.RandomNormal, out, in, random.NormalBrain)
	default:
		return lowerDraw(e, ops.RandomNormal, out, in, random.NormalHalf)
	}
}

func (randomNormalOp) Doc() graph.Doc {
	return graph.Doc{Args: "key u32[2]", Results: "f[shape]", Formula: "y[i] = √2·erf⁻¹(u[i]), u uniform in (-1, 1)",
		Params: "dtype: a float type; shape: sizes",
		Notes:  "Of 2 million f32 against JAX on a CPU 99% have the same bits and all are within 3 units in the last place. " + drawNotes}
}

// A random element depends only on the key and on its flat index in the whole value.
// A rank therefore draws its shard without drawing the rest, and the numbers do not
// depend on the mesh.

// isKey returns an error unless t is the type of a key.
func isKey(t graph.Type) error {
	if t.DType != graph.U32 || len(t.Shape) != 1 || t.Shape[0] != 2 {
		return fmt.Errorf("key %s, want u32[2]; make one with random_seed, or take one row of random_split", t)
	}
	return nil
}

// inferDraw returns the type of a primitive drawing a value of type out from a key.
// ok reports whether the primitive can draw an element type.
func inferDraw(in []graph.Type, out graph.Type, ok func(graph.DType) bool, want string) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	switch {
	case out.DType == graph.NoDType:
		return nil, errors.New("dtype is missing; write dtype=" + want[:3])
	case !ok(out.DType):
		return nil, fmt.Errorf("dtype %s, want %s", out.DType, want)
	case !out.Fits():
		return nil, fmt.Errorf("shape %v, want sizes of at least 0 whose bytes fit in 63 bits", out.Shape)
	}
	return []graph.Type{out}, isKey(in[0])
}

// shardDraw places key and result whole. If the result is used in another placement,
// it is drawn there directly.
func shardDraw() (sharding.Decision, error) {
	return sharding.Decision{In: []sharding.Spec{{}}, Out: []sharding.Spec{{}}}, nil
}

// shardDrawAs allows every placement except ragged rows.
func shardDrawAs(c *sharding.Context, out sharding.Spec) (sharding.Decision, error) {
	if out.Ragged != nil {
		return sharding.Decision{}, fmt.Errorf("%s is wanted in expert order, where a row's index among all rows is known only to the run; draw per token before ep_dispatch", c.Eqn.Prim.Name())
	}
	return sharding.Decision{In: []sharding.Spec{{}}, Out: []sharding.Spec{out}}, nil
}

// lowerDraw emits the kernel drawing the elements of out from the key in[0]. fill
// writes elements offset, offset+1, ... of the whole value to dst.
func lowerDraw[E array.Elem](e *lowering.Emitter, op ops.Op, out, in []lowering.Buf, fill func(dst []E, key [2]uint32, offset uint64)) error {
	spec, global := out[0].Spec, e.Eqn.Out[0].Type.Shape
	return e.Emit(lowering.KernelSpec{Op: op, Out: out, In: in, Kernel: func(a *exec.Args) error {
		k, dst := data[uint32](a.In[0]), data[E](a.Out[0])
		r := runsOf(a, a.Out[0].Type.Shape, global, spec)
		a.Parallel(len(dst), 2*dear, func(lo, hi int) {
			for lo < hi {
				n := min(hi-lo, r.size-lo%r.size)
				fill(dst[lo:lo+n], [2]uint32{k[0], k[1]}, r.global(lo))
				lo += n
			}
		})
		return nil
	}})
}

// runs maps a rank's shard to the whole value, as runs of elements contiguous in both.
type runs struct {
	size  int    // elements of a run
	first uint64 // flat index, in the whole, of the shard's first element
	// Of the dimensions before the runs: the shard's sizes, and the strides of the whole.
	shape  []int
	stride []uint64
}

// runsOf returns the runs of a's rank. shape is the shape of the shard, and global the shape of the whole,
// split by spec.
func runsOf(a *exec.Args, shape, global []int, spec sharding.Spec) runs {
	r := runs{size: 1}
	stride := uint64(1)
	for d := len(shape) - 1; d >= 0; d-- {
		if stride == uint64(r.size) { // no dimension after d is split
			r.size *= shape[d]
		} else {
			r.shape = append(r.shape, shape[d])
			r.stride = append(r.stride, stride)
		}
		start, _ := a.Part(spec.At(d), global[d])
		r.first += uint64(start) * stride
		stride *= uint64(global[d])
	}
	slices.Reverse(r.shape)
	slices.Reverse(r.stride)
	return r
}

// global returns the flat index, in the whole, of element i of the part.
func (r runs) global(i int) uint64 {
	at := r.first + uint64(i%r.size)
	i /= r.size
	for d := len(r.shape) - 1; d >= 0; d-- {
		at += uint64(i%r.shape[d]) * r.stride[d]
		i /= r.shape[d]
	}
	return at
}

const drawNotes = "The bits that JAX draws from the same key with jax_threefry_partitionable, its default. " +
	"An element depends on the key and its index in the whole value: it is the same on every mesh, and each rank makes its own part."

// RandomBernoulli returns bools of the shape, true with probability p from 0 to 1,
// matching jax.random.bernoulli(key, p, shape) with p an f32.
func RandomBernoulli(key *graph.Value, p float64, shape ...int) *graph.Value {
	graph.Helper()
	if !(p >= 0 && p <= 1) {
		graph.Fail("bernoulli: probability %g, want 0 to 1", p)
	}
	u := RandomUniform(key, graph.F32, 0, 1, shape...)
	return Lt(u, FullLike(u, p))
}

// Dropout returns x, setting each element to 0 with probability rate, from 0 to below
// 1, and dividing it by 1-rate otherwise, preserving its expectation. The same elements
// are dropped on every mesh. x must not be in expert order: call Dropout before Dispatch
// or after Combine. Source: Srivastava and others, "Dropout" (2014).
func Dropout(x, key *graph.Value, rate float64) *graph.Value {
	graph.Helper()
	if !(rate >= 0 && rate < 1) {
		graph.Fail("dropout: rate %g, want 0 to below 1", rate)
	}
	if rate == 0 {
		return x
	}
	keep := RandomBernoulli(key, 1-rate, x.Type.Shape...)
	return Where(keep, Div(x, FullLike(x, 1-rate)), ZerosLike(x))
}
