package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// scaledMatMulOp multiplies rows by a matrix of 8-bit floats, in which each block of
// 128×128 has a scale. The matrix is decoded a tile at a time, never as a whole.
type scaledMatMulOp struct {
	// Transpose multiplies by the transposed matrix.
	Transpose bool
}

var _ primitive = scaledMatMulOp{}

// ScaledMatMul returns x[..,K] · wᵀ as [..,N], with w f8[N,K] and scales f32[⌈N/128⌉,⌈K/128⌉]:
// element n,k of the matrix is w[n,k]·scales[n/128,k/128]. This is the layout of
// DeepSeek-V3's files, which call w weight and scales weight_scale_inv. It has the bits of a
// product of x with the decoded matrix in f32: a decoded element is off by at most 2^-24 of
// itself, and a sum of K products by K·2^-24 of the sum of their sizes.
func ScaledMatMul(x, w, scales *graph.Value) *graph.Value {
	graph.Helper()
	return graph.Apply1(scaledMatMulOp{Transpose: true}, x, w, scales)
}

func (scaledMatMulOp) Name() string { return "scaled_matmul" }

// Moves says that the weights are 8-bit floats.
func (scaledMatMulOp) Moves() {}

func (p scaledMatMulOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 3); err != nil {
		return nil, err
	}
	x, w := in[0], in[1]
	if err := floating(x); err != nil {
		return nil, err
	}
	if err := atLeast(x, 1); err != nil {
		return nil, err
	}
	if err := scaledWeights(w, in[2], x.DType, 2, "[out, in]"); err != nil {
		return nil, err
	}
	from, to := w.Shape[0], w.Shape[1]
	if p.Transpose {
		from, to = to, from
	}
	if n := x.Shape[x.Rank()-1]; n != from {
		return nil, fmt.Errorf("rows have %d columns, want %d as the weights %s have", n, from, w)
	}
	return []graph.Type{{DType: x.DType, Shape: append(slices.Clone(x.Shape[:x.Rank()-1]), to)}}, nil
}

func (p scaledMatMulOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, w, scales := e.In[0], e.In[1], e.In[2]
	dx := graph.Apply1(scaledMatMulOp{!p.Transpose}, ct[0], w, scales)
	lead := make([]int, x.Rank()-1)
	for d := range lead {
		lead[d] = d
	}
	a, b := x, ct[0]
	if p.Transpose {
		a, b = b, a
	}
	dw, ds := scaledCotangents(w, scales, dot(graph.NoDType, "", a, b, lead, lead, nil, nil))
	return []*graph.Value{dx, dw, ds}, nil
}

// Shard splits the rows. The matrix is whole on every rank.
func (scaledMatMulOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	x := splitWhere(c.Type(0).Rank(), func(d int) bool { return d < c.Type(0).Rank()-1 })
	return c.Place(sharding.Factors{In: [][]int{x, wholes(2), wholes(2)}, Out: [][]int{x}, RowWise: true, Linear: sharding.LinearFirst})
}

func (p scaledMatMulOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.ScaledMatMul, Out: out, In: in,
		Kernel: inFloat(scaledMatMul[float32](p.Transpose), scaledMatMul[float64](p.Transpose))})
}

func (scaledMatMulOp) Doc() graph.Doc {
	return graph.Doc{
		Args: "x f[..,N], w f8[N,K], scales f32[⌈N/128⌉,⌈K/128⌉]", Results: "f[..,K]",
		Formula: "y = x · (w ∘ s), s[n,k] = scales[n/128,k/128]",
		Params:  "transpose: multiply by the transposed matrix, x being f[..,K] and y f[..,N]",
		Notes:   "With transpose, the layout of DeepSeek-V3's weight and weight_scale_inv. Computes in f32 (f64 for f64) with the bits of a product with w ∘ s in that type, and decodes a tile of w at a time. scales may be f16 or bf16 too, and f64 beside f64. w and scales are whole on every rank. Weights that the program makes by a conversion have a cotangent, in f32.",
	}
}
