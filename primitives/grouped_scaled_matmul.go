package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// groupedScaledMatMulOp multiplies every row by the matrix of the row's expert, as
// groupedMatMulOp does. The matrices are 8-bit floats, in which each block of 128×128 has a
// scale, as in scaledMatMulOp.
type groupedScaledMatMulOp struct {
	// Transpose multiplies by the transposed matrices.
	Transpose bool
}

var _ primitive = groupedScaledMatMulOp{}

// GroupedScaledMatMul returns rows[S,K] · w[e]ᵀ as [S,N], with w f8[E,N,K] and scales
// f32[E,⌈N/128⌉,⌈K/128⌉], e being the expert of the row. ScaledMatMul says what an element
// of a matrix is, and how far results are off. Rows past an expert's count stay zero.
func GroupedScaledMatMul(r Prepared, rows, w, scales *graph.Value) *graph.Value {
	graph.Helper()
	r.weights(w)
	return graph.Apply1(groupedScaledMatMulOp{Transpose: true}, rows, w, r.Value, scales)
}

func (groupedScaledMatMulOp) Name() string { return "grouped_scaled_matmul" }

// Moves says that the weights are 8-bit floats.
func (groupedScaledMatMulOp) Moves() {}

func (g groupedScaledMatMulOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 4); err != nil {
		return nil, err
	}
	x, w, r := in[0], in[1], in[2]
	if err := groupedTypes(x, r); err != nil {
		return nil, err
	}
	if err := scaledWeights(w, in[3], x.DType, 3, "[experts, out, in]"); err != nil {
		return nil, err
	}
	from, to := w.Shape[1], w.Shape[2]
	if g.Transpose {
		from, to = to, from
	}
	if x.Shape[1] != from {
		return nil, fmt.Errorf("rows have %d columns, want %d as the weights %s have", x.Shape[1], from, w)
	}
	return []graph.Type{graph.T(x.DType, x.Shape[0], to)}, nil
}

func (g groupedScaledMatMulOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, w, r, scales := e.In[0], e.In[1], e.In[2], e.In[3]
	dx := graph.Apply1(groupedScaledMatMulOp{!g.Transpose}, ct[0], w, r, scales)
	a, b := x, ct[0]
	if g.Transpose {
		a, b = b, a
	}
	dw, ds := scaledCotangents(w, scales, graph.Apply1(groupedOuterOp{Experts: w.Dim(0)}, a, b, r))
	return []*graph.Value{dx, dw, nil, ds}, nil
}

// Shard requires weights and scales to be split over the experts' axis like the rows, and
// over no other.
func (g groupedScaledMatMulOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return expertsOnly(c, 3)
}

// expertsOnly places rows, argument 0, and the matrices of experts, argument 1 and the
// arguments beside it, which are split by experts only. Argument 2 is the routing.
func expertsOnly(c *sharding.Context, beside ...int) (sharding.Decision, error) {
	c = constantRows(c, 0)
	l, err := expertRows(c.In[0], c.Eqn.In[2], "the rows", c.Type(1).Shape[0])
	if err != nil {
		return sharding.Decision{}, err
	}
	free := withoutExperts(c, 1)
	factors := sharding.Factors{
		In:      [][]int{{0, sharding.Whole}, {1, sharding.Whole, sharding.Whole}, {2, sharding.Whole, sharding.Whole}},
		Out:     [][]int{{0, sharding.Whole}},
		RowWise: true,
	}
	for _, i := range beside {
		free.In[i].Dims = slices.Clone(free.In[i].Dims)
		free.In[i].Dims[0] = nil
		factors.In = append(factors.In, []int{i, sharding.Whole, sharding.Whole})
	}
	d, err := free.Place(factors)
	if err != nil {
		return d, err
	}
	if err := l.expertsOver(c, &d.In[1], &d.In[2], d.In[0].Ragged.Tokens); err != nil {
		return d, err
	}
	for _, i := range beside {
		if err := l.expertsOver(c, &d.In[i], nil, nil); err != nil {
			return d, err
		}
	}
	return d, nil
}

func (g groupedScaledMatMulOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	counts, align, err := e.RowCounts(in[0].Spec)
	if err != nil {
		return err
	}
	product := inFloat(groupedScaledMatMul[float32](g.Transpose, align), groupedScaledMatMul[float64](g.Transpose, align))
	return e.Emit(lowering.KernelSpec{Op: ops.GroupedScaledMatMul, Out: out, In: []lowering.Buf{in[0], in[1], in[3], counts}, Slabs: []int{1},
		Dry: counted(oneExpert(in[0].Type, in[1].Type), product), Kernel: product})
}

func (groupedScaledMatMulOp) Doc() graph.Doc {
	return graph.Doc{
		Args: "rows f[S,N], w f8[E,N,K], routing i32[T,C,2], scales f32[E,⌈N/128⌉,⌈K/128⌉]", Results: "f[S,K]",
		Formula: "y[i] = rows[i] · (w[e(i)] ∘ s[e(i)]), s[e,n,k] = scales[e,n/128,k/128], e(i) the expert whose row i is; 0 past the counts",
		Params:  "transpose: multiply by the transposed matrices, rows being f[S,K] and y f[S,N]",
		Notes:   "As scaled_matmul, whose notes say what is exact, with a matrix for each expert. Experts are split over their axis; the matrices are not split otherwise.",
	}
}
