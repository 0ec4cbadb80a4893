package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// affineMatMulOp multiplies rows by a matrix in MLX's affine quantisation. The matrix is
// decoded a tile at a time, never as a whole.
type affineMatMulOp struct {
	// Transpose multiplies by the transposed matrix.
	Transpose bool
	// Bits is 4 or 8, and GroupSize 32, 64 or 128.
	Bits, GroupSize int
}

var _ primitive = affineMatMulOp{}

// AffineMatMul returns x[..,K] · wᵀ as [..,N], with w u32[N,K·bits/32] and scales and biases
// f[N,K/groupSize]: element n,k of the matrix is q·scales[n,k/groupSize] +
// biases[n,k/groupSize], where q is number k of row n of w, the first in the lowest bits of a
// word. This is the layout of mlx.core.quantize, and of the files of mlx-lm. The product has
// the bits of a product of x with the decoded matrix in f32, of which every element is rounded
// after the product and after the sum.
func AffineMatMul(x, w, scales, biases *graph.Value, bits, groupSize int) *graph.Value {
	graph.Helper()
	return graph.Apply1(affineMatMulOp{true, bits, groupSize}, x, w, scales, biases)
}

func (affineMatMulOp) Name() string { return "affine_matmul" }

func (p affineMatMulOp) affine() affine { return affine{p.Bits, p.GroupSize} }

func (p affineMatMulOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 4); err != nil {
		return nil, err
	}
	x, w := in[0], in[1]
	if err := floating(x); err != nil {
		return nil, err
	}
	if err := atLeast(x, 1); err != nil {
		return nil, err
	}
	if err := p.affine().weights(w, in[2], in[3], x.DType, 2, "[out, words]"); err != nil {
		return nil, err
	}
	from, to := w.Shape[0], p.affine().columns(w)
	if p.Transpose {
		from, to = to, from
	}
	if n := x.Shape[x.Rank()-1]; n != from {
		return nil, fmt.Errorf("rows have %d columns, want %d as the weights %s of %d bits have", n, from, w, p.Bits)
	}
	return []graph.Type{{DType: x.DType, Shape: append(slices.Clone(x.Shape[:x.Rank()-1]), to)}}, nil
}

func (p affineMatMulOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, w, scales, biases := e.In[0], e.In[1], e.In[2], e.In[3]
	dx := graph.Apply1(affineMatMulOp{!p.Transpose, p.Bits, p.GroupSize}, ct[0], w, scales, biases)
	lead := make([]int, x.Rank()-1)
	for d := range lead {
		lead[d] = d
	}
	a, b := x, ct[0]
	if p.Transpose {
		a, b = b, a
	}
	ds, db := p.affine().cotangents(w, scales, biases, dot(graph.NoDType, "", a, b, lead, lead, nil, nil))
	return []*graph.Value{dx, nil, ds, db}, nil
}

// Shard splits the rows. The matrix is whole on every rank.
func (affineMatMulOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	x := splitWhere(c.Type(0).Rank(), func(d int) bool { return d < c.Type(0).Rank()-1 })
	return c.Place(sharding.Factors{In: [][]int{x, wholes(2), wholes(2), wholes(2)}, Out: [][]int{x}, RowWise: true, Linear: sharding.LinearFirst})
}

func (p affineMatMulOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.AffineMatMul, Out: out, In: in, Kernel: affineKernel(p.affine(), p.Transpose, nil)})
}

func (affineMatMulOp) Doc() graph.Doc {
	return graph.Doc{
		Args: "x f[..,N], w u32[N,K·bits/32], scales f[N,K/group_size], biases f[N,K/group_size]", Results: "f[..,K]",
		Formula: "y = x · m, m[n,k] = q(n,k)·scales[n,k/group_size] + biases[n,k/group_size], q(n,k) number k of row n of w",
		Params:  "transpose: multiply by the transposed matrix, x being f[..,K] and y f[..,N]; bits: 4 or 8, of a number; group_size: 32, 64 or 128, how many numbers of a row have one scale and one bias",
		Notes:   "With transpose, the layout of mlx.core.quantize. The first number of a row is in the lowest bits of its first word. Computes in f32 (f64 for f64) with the bits of a product with m in that type, and decodes a tile of w at a time. scales and biases have one type: f32, f16 or bf16, or f64 beside f64. w, scales and biases are whole on every rank.",
	}
}
