package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// groupedAffineMatMulOp multiplies every row by the matrix of the row's expert, as
// groupedMatMulOp does. The matrices are in MLX's affine quantisation, as in
// affineMatMulOp.
type groupedAffineMatMulOp struct {
	// Transpose multiplies by the transposed matrices.
	Transpose bool
	// Bits is 4 or 8, and GroupSize 32, 64 or 128.
	Bits, GroupSize int
}

var _ primitive = groupedAffineMatMulOp{}

// GroupedAffineMatMul returns rows[S,K] · w[e]ᵀ as [S,N], with w u32[E,N,K·bits/32] and scales
// and biases f[E,N,K/groupSize], e being the expert of the row. AffineMatMul says what an
// element of a matrix is. Rows past an expert's count stay zero.
func GroupedAffineMatMul(r Prepared, rows, w, scales, biases *graph.Value, bits, groupSize int) *graph.Value {
	graph.Helper()
	r.weights(w)
	return graph.Apply1(groupedAffineMatMulOp{true, bits, groupSize}, rows, w, r.Value, scales, biases)
}

func (groupedAffineMatMulOp) Name() string { return "grouped_affine_matmul" }

func (g groupedAffineMatMulOp) affine() affine { return affine{g.Bits, g.GroupSize} }

func (g groupedAffineMatMulOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 5); err != nil {
		return nil, err
	}
	x, w, r := in[0], in[1], in[2]
	if err := groupedTypes(x, r); err != nil {
		return nil, err
	}
	if err := g.affine().weights(w, in[3], in[4], x.DType, 3, "[experts, out, words]"); err != nil {
		return nil, err
	}
	from, to := w.Shape[1], g.affine().columns(w)
	if g.Transpose {
		from, to = to, from
	}
	if x.Shape[1] != from {
		return nil, fmt.Errorf("rows have %d columns, want %d as the weights %s of %d bits have", x.Shape[1], from, w, g.Bits)
	}
	return []graph.Type{graph.T(x.DType, x.Shape[0], to)}, nil
}

func (g groupedAffineMatMulOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, w, r, scales, biases := e.In[0], e.In[1], e.In[2], e.In[3], e.In[4]
	dx := graph.Apply1(groupedAffineMatMulOp{!g.Transpose, g.Bits, g.GroupSize}, ct[0], w, r, scales, biases)
	a, b := x, ct[0]
	if g.Transpose {
		a, b = b, a
	}
	ds, db := g.affine().cotangents(w, scales, biases, graph.Apply1(groupedOuterOp{Experts: w.Dim(0)}, a, b, r))
	return []*graph.Value{dx, nil, nil, ds, db}, nil
}

// Shard requires weights, scales and biases to be split over the experts' axis like the
// rows, and over no other.
func (g groupedAffineMatMulOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return expertsOnly(c, 3, 4)
}

func (g groupedAffineMatMulOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	counts, align, err := e.RowCounts(in[0].Spec)
	if err != nil {
		return err
	}
	product := affineKernel(g.affine(), g.Transpose, &align)
	return e.Emit(lowering.KernelSpec{Op: ops.GroupedAffineMatMul, Out: out, In: []lowering.Buf{in[0], in[1], in[3], in[4], counts},
		Dry: counted(oneExpert(in[0].Type, in[1].Type), product), Kernel: product})
}

func (groupedAffineMatMulOp) Doc() graph.Doc {
	return graph.Doc{
		Args: "rows f[S,N], w u32[E,N,K·bits/32], routing i32[T,C,2], scales f[E,N,K/group_size], biases f[E,N,K/group_size]", Results: "f[S,K]",
		Formula: "y[i] = rows[i] · m[e(i)], m[e,n,k] = q(e,n,k)·scales[e,n,k/group_size] + biases[e,n,k/group_size], e(i) the expert whose row i is; 0 past the counts",
		Params:  "transpose: multiply by the transposed matrices, rows being f[S,K] and y f[S,N]; bits: 4 or 8, of a number; group_size: 32, 64 or 128, how many numbers of a row have one scale and one bias",
		Notes:   "As affine_matmul, whose notes say what is exact, with a matrix for each expert. Experts are split over their axis; the matrices are not split otherwise.",
	}
}
