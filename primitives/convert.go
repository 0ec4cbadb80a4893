package primitives

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/random"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// convertElementTypeOp converts its argument to another element type. See
// array.Convert for how numbers are rounded.
type convertElementTypeOp struct{ DType graph.DType }

var _ pointwise = convertElementTypeOp{}

// ConvertElementType returns x in element type d. Converting to floats rounds once to nearest, and
// to 8-bit floats also clamps to the largest number in size. Converting floats to integers truncates
// towards 0. Converting between integers keeps the low bits, and to bool tests x ≠ 0. If d is x's own
// type, it returns x.
func ConvertElementType(x *graph.Value, d graph.DType) *graph.Value {
	if x != nil && x.Type.DType == d {
		return x
	}
	return graph.Apply1(convertElementTypeOp{d}, x)
}

func (convertElementTypeOp) Name() string { return "convert_element_type" }

// Blocks marks a primitive taking and returning weights in blocks.
func (convertElementTypeOp) Blocks() {}

func (c convertElementTypeOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if c.DType == graph.NoDType {
		return nil, errors.New("dtype is missing; write dtype=f32")
	}
	if d := in[0].DType; d != c.DType && (d.IsBlock() && !c.DType.IsFloat() || c.DType.IsBlock() && !d.IsFloat()) {
		return nil, fmt.Errorf("%s to %s: weights in blocks are made of floats and make floats; convert to f32 between", d, c.DType)
	}
	return []graph.Type{in[0].With(c.DType)}, nil
}

// VJP converts the cotangent back. The cotangent of an 8-bit float is f32, passing a
// conversion to 8 bits and back unrounded. VJP is nil for conversions to and from
// integers, bool and blocks.
func (c convertElementTypeOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	if d := e.In[0].Type.DType.Cotangent(); d != graph.NoDType && c.DType.Cotangent() != graph.NoDType {
		return []*graph.Value{ConvertElementType(ct[0], d)}, nil
	}
	return nil, nil
}

// Shard lets pending sums pass conversions without rounding, adding the terms in the
// wider type.
func (c convertElementTypeOp) Shard(x *sharding.Context) (sharding.Decision, error) {
	l := sharding.NotLinear
	if exact(x.Type(0).DType, c.DType) {
		l = sharding.LinearTogether
	}
	return x.Place(sharding.Elementwise(x.Type(0), 1, 1, l))
}

// exact reports whether every value of the float type from is a value of to.
func exact(from, to graph.DType) bool {
	return from.IsFloat() && (from == to || to == graph.F64 || to == graph.F32 && from != graph.F64)
}

func (convertElementTypeOp) Pointwise() {}

func (c convertElementTypeOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	if in[0].Type.DType == c.DType {
		e.Alias(out[0], in[0])
		return nil
	}
	return e.Emit(lowering.KernelSpec{Op: ops.ConvertElementType, Out: out, In: in, Elementwise: true, Kernel: func(a *exec.Args) error {
		return convert(a, a.Out[0], a.In[0])
	}})
}

func (convertElementTypeOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "dtype[..]", Formula: "y = x", Params: "dtype: the result's element type",
		Notes: "Floats are rounded once to nearest, ties to even; beyond the range of an 8-bit float the result is its largest number, also for an infinity. From float to integer: truncated towards 0, the nearest bound if out of range, 0 for NaN. Between integers: modulo. To bool: x ≠ 0. To and from weights in blocks, along the last dimension: as package quant does, f32 in between; the derivative is zero."}
}

// QuantizeF8 returns x f[..,K] as codes of type d, f8_e4m3 or f8_e5m2, and scales f32[..,K/block]:
// element k is about codes[..,k]·scales[..,k/block]. A scale is the largest size in its
// block divided by the largest number of d, 448 or 57344, or 1 if the quotient is 0. A block of
// 128 follows DeepSeek-V3's dispatch, and a block of K has one scale per row. For one scale per
// value, reshape the value to one row. K must be a multiple of block.
//
// With m the largest size in a block, an element of f8_e4m3 is off by at most |x|/16 +
// m/450000, and one of f8_e5m2 by at most |x|/8 + m/7000000000, if m is at least 2^-110. A
// block with a NaN or an infinity becomes NaN when it is dequantised.
//
// It computes in f32. The gradient passes straight through, treating scales as constants and
// ignoring rounding.
func QuantizeF8(x *graph.Value, d graph.DType, block int) (codes, scales *graph.Value) {
	graph.Helper()
	if !d.IsF8() {
		graph.Fail("quantize: element type %s, want f8_e4m3 or f8_e5m2", d)
	}
	parts := scaledParts(ConvertElementType(x, graph.F32), block)
	size := ReduceMax(Abs(parts), parts.Rank()-1)
	scales = Div(size, FullLike(size, float64(largestF8(d))))
	scales = StopGradient(Where(Eq(scales, ZerosLike(scales)), FullLike(scales, 1), scales))
	return Reshape(ConvertElementType(Div(parts, perPart(scales, block)), d), x.Type.Shape...), scales
}

// largestF8 returns the largest number of an 8-bit float type.
func largestF8(d graph.DType) float32 {
	if d == graph.F8_E5M2 {
		return array.E5M2(0x7b).Float32()
	}
	return array.E4M3(0x7e).Float32()
}

// DequantizeF8 returns codes f8[..,K] times their scales f32[..,K/block], rounded once to
// element type d. Each scale applies to a block of elements. It is the inverse of QuantizeF8 with a
// block of K divided by the last size of scales.
func DequantizeF8(codes, scales *graph.Value, d graph.DType) *graph.Value {
	graph.Helper()
	if codes.Rank() == 0 || scales.Rank() != codes.Rank() || !slices.Equal(codes.Type.Shape[:codes.Rank()-1], scales.Type.Shape[:codes.Rank()-1]) {
		graph.Fail("dequantize: scales are %s, want one for each block of the rows of %s", scales.Type, codes.Type)
	}
	k, n := codes.Dim(-1), scales.Dim(-1)
	if n == 0 || k%n != 0 {
		graph.Fail("dequantize: %d scales for the %d columns of %s, want equal blocks", n, k, codes.Type)
	}
	parts := scaledParts(ConvertElementType(codes, graph.F32), k/n)
	return ConvertElementType(Reshape(Mul(parts, perPart(scales, k/n)), codes.Type.Shape...), d)
}

// scaledParts returns x [..,K] as [..,K/block,block].
func scaledParts(x *graph.Value, block int) *graph.Value {
	graph.Helper()
	if x.Rank() == 0 || block < 1 || x.Dim(-1)%block != 0 {
		graph.Fail("blocks of %d elements in %s, want a last dimension that is a multiple of the block", block, x.Type)
	}
	last := x.Rank() - 1
	return Reshape(x, append(slices.Clone(x.Type.Shape[:last]), x.Dim(last)/block, block)...)
}

// perPart returns scales [..,N] for parts [..,N,block].
func perPart(scales *graph.Value, block int) *graph.Value {
	graph.Helper()
	dims := make([]int, scales.Rank())
	for i := range dims {
		dims[i] = i
	}
	return BroadcastInDim(scales, append(slices.Clone(scales.Type.Shape), block), dims...)
}

// stochasticRoundOp rounds f32 to bf16, choosing up or down at random.
type stochasticRoundOp struct{}

var _ primitive = stochasticRoundOp{}

// StochasticRound returns x f32 rounded to bf16 at random: up or down, with probabilities making x the mean. key u32[2] is a
// key such as RandomKey returns. The same elements are rounded up on every mesh. Infinities, NaNs and numbers of bf16 are
// unchanged. Numbers exceeding the largest one of bf16 are rounded to it or to an infinity. The derivative is 1, the
// derivative of the mean. x must not be in expert order.
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

// Shard allows splitting x in any way, except into ragged rows, because their indices are unknown.
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
