package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// scaledMatMulOp multiplies rows by a matrix of 8-bit floats with a scale for each block of
// 128×128, decoding one tile at a time and never the whole matrix.
type scaledMatMulOp struct {
	// Transpose multiplies by the transposed matrix.
	Transpose bool
}

var _ primitive = scaledMatMulOp{}

// ScaledMatMul returns x[..,K] · wᵀ as [..,N], with w f8[N,K] and scales f32[⌈N/128⌉,⌈K/128⌉]:
// element n,k of the matrix is w[n,k]·scales[n/128,k/128]. DeepSeek-V3's files have this layout,
// calling w weight and scales weight_scale_inv. The product has the same bits as multiplying x by
// the decoded matrix in f32. The relative error of a decoded element is at most 2^-24. The error
// of a sum of K products is at most K·2^-24 times the sum of their sizes.
func ScaledMatMul(x, w, scales *graph.Value) *graph.Value {
	graph.Helper()
	return graph.Apply1(scaledMatMulOp{Transpose: true}, x, w, scales)
}

func (scaledMatMulOp) Name() string { return "scaled_matmul" }

// Moves marks a primitive taking 8-bit floats.
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
		Kernel: scaledKernel(p.Transpose, nil)})
}

func (scaledMatMulOp) Doc() graph.Doc {
	return graph.Doc{
		Args: "x f[..,N], w f8[N,K], scales f32[⌈N/128⌉,⌈K/128⌉]", Results: "f[..,K]",
		Formula: "y = x · (w ∘ s), s[n,k] = scales[n/128,k/128]",
		Params:  "transpose: multiply by the transposed matrix, x being f[..,K] and y f[..,N]",
		Notes:   "With transpose, the layout of DeepSeek-V3's weight and weight_scale_inv. Computes in f32 (f64 for f64) with the bits of a product with w ∘ s in that type, and decodes a tile of w at a time. scales may be f16 or bf16 too, and f64 beside f64. w and scales are whole on every rank. Weights that the program makes by a conversion have a cotangent, in f32.",
	}
}

// groupedScaledMatMulOp multiplies every row by the matrix of the row's expert, as
// groupedMatMulOp does. The matrices are 8-bit floats with a scale for each block of 128×128, as in
// scaledMatMulOp.
type groupedScaledMatMulOp struct {
	// Transpose multiplies by the transposed matrices.
	Transpose bool
}

var _ primitive = groupedScaledMatMulOp{}

// GroupedScaledMatMul returns rows[S,K] · w[e]ᵀ as [S,N], with w f8[E,N,K] and scales
// f32[E,⌈N/128⌉,⌈K/128⌉], where e is the expert of the row. Elements of a matrix and errors are as in
// ScaledMatMul. Rows past an expert's count stay zero.
func GroupedScaledMatMul(r Prepared, rows, w, scales *graph.Value) *graph.Value {
	graph.Helper()
	r.weights(w)
	return graph.Apply1(groupedScaledMatMulOp{Transpose: true}, rows, w, r.Value, scales)
}

func (groupedScaledMatMulOp) Name() string { return "grouped_scaled_matmul" }

// Moves marks a primitive taking 8-bit floats.
func (groupedScaledMatMulOp) Moves() {}

func (g groupedScaledMatMulOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 4); err != nil {
		return nil, err
	}
	x, w, r := in[0], in[1], in[2]
	if err := groupedTypes(x, w, r); err != nil {
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

// expertsOnly places rows, argument 0, and arrays split by experts only, argument 1 and the given
// others. Argument 2 is the routing.
func expertsOnly(c *sharding.Context, others ...int) (sharding.Decision, error) {
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
	for _, i := range others {
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
	for _, i := range others {
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
	product := scaledKernel(g.Transpose, &align)
	return e.Emit(lowering.KernelSpec{Op: ops.GroupedScaledMatMul, Out: out, In: []lowering.Buf{in[0], in[1], in[3], counts}, Slabs: []int{1}, Through: []int{0},
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

// scaledBlock is the number of rows and of columns of a block of weights sharing a scale,
// following DeepSeek-V3 (weight and weight_scale_inv).
const scaledBlock = 128

// ScaledBlocks returns the type of the scales of weights of type w: f32, one for each block of 128×128 of
// the last two dimensions. The last blocks may be smaller.
func ScaledBlocks(w graph.Type) graph.Type {
	s := graph.Type{DType: graph.F32, Shape: append([]int(nil), w.Shape...)}
	for d := max(w.Rank()-2, 0); d < w.Rank(); d++ {
		s.Shape[d] = (w.Shape[d] + scaledBlock - 1) / scaledBlock
	}
	return s
}

// scaledWeights checks weights and their scales for rows of element type d.
func scaledWeights(w, scales graph.Type, d graph.DType, rank int, shape string) error {
	if !w.DType.IsF8() || w.Rank() != rank {
		return fmt.Errorf("weights are %s, want f8_e4m3%s or f8_e5m2%s", w, shape, shape)
	}
	want := ScaledBlocks(w)
	if d == graph.F64 && scales.DType == graph.F64 {
		want.DType = graph.F64
	}
	if scales.DType.IsFloat() && scales.DType < graph.F32 {
		want.DType = scales.DType
	}
	if !scales.Equal(want) {
		return fmt.Errorf("scales are %s, want %s: one for each block of %d×%d weights", scales, want, scaledBlock, scaledBlock)
	}
	return nil
}

// scaledCotangents returns the cotangents of weights and of their scales, given dense, the
// cotangent of the decoded weights.
func scaledCotangents(w, scales, dense *graph.Value) (dw, ds *graph.Value) {
	t := dense.Type.DType
	lead, n, k := w.Type.Shape[:w.Rank()-2], w.Dim(-2), w.Dim(-1)
	nb, kb := scales.Dim(-2), scales.Dim(-1)
	shape := func(sizes ...int) []int { return append(append([]int(nil), lead...), sizes...) }
	// A scale for each element: broadcast over the block, and sliced to the matrix.
	dims := make([]int, 0, w.Rank())
	for d := range lead {
		dims = append(dims, d)
	}
	dims = append(dims, len(lead), len(lead)+2)
	wide := BroadcastInDim(ConvertElementType(scales, t), shape(nb, scaledBlock, kb, scaledBlock), dims...)
	whole := Reshape(wide, shape(nb*scaledBlock, kb*scaledBlock)...)
	each := Slice(whole, make([]int, w.Rank()), w.Type.Shape)
	dw = ConvertElementType(Mul(dense, each), w.Type.DType.Cotangent())
	// The sum over each block of cotangents times weights.
	low, high := make([]int, w.Rank()), make([]int, w.Rank())
	high[len(lead)], high[len(lead)+1] = nb*scaledBlock-n, kb*scaledBlock-k
	product := Mul(dense, ConvertElementType(w, t))
	parts := Reshape(Pad(product, zeroOf(product), low, high), shape(nb, scaledBlock, kb, scaledBlock)...)
	sums := ReduceSumUnordered(parts, len(lead)+1, len(lead)+3)
	return dw, ConvertElementType(sums, scales.Type.DType)
}

// scaledTiles are matrices of n times k 8-bit floats in blocks with scales. Decoding a weight
// multiplies it by its scale, rounding once.
type scaledTiles[T float] struct {
	w      array.Array
	scales []T
	values [256]T
	n, k   int
}

// scaledTilesOf returns the decoder of the weights, argument 1, and the rows and columns of a matrix. The
// scales are the next argument.
func scaledTilesOf[T float](a *exec.Args) (_ decoder[T], n, k int) {
	w, rank := a.In[1], a.In[1].Type.Rank()
	t := exec.New[scaledTiles[T]](a)
	t.w, t.n, t.k = w, w.Type.Shape[rank-2], w.Type.Shape[rank-1]
	t.scales = data[T](inType(a, a.In[2], array.DTypeOf[T]()))
	for i := range t.values {
		v := array.E4M3(i).Float32()
		if w.Type.DType == graph.F8_E5M2 {
			v = array.E5M2(i).Float32()
		}
		t.values[i] = T(v)
	}
	return t, t.n, t.k
}

// decode sets tile to rows [r0, r1) and columns [c0, c1) of matrix e, row by row.
func (p *scaledTiles[T]) decode(tile []T, e, r0, r1, c0, c1 int) {
	width, blocks := c1-c0, (p.k+scaledBlock-1)/scaledBlock
	scales := p.scales[e*((p.n+scaledBlock-1)/scaledBlock)*blocks:]
	w := matrixBytes(p.w, e)
	var scaled [256]T // the values of the codes in one block
	for rb := r0 / scaledBlock; rb*scaledBlock < r1; rb++ {
		for cb := c0 / scaledBlock; cb*scaledBlock < c1; cb++ {
			s := scales[rb*blocks+cb]
			for i, v := range p.values {
				scaled[i] = v * s
			}
			from, to := max(c0, cb*scaledBlock), min(c1, (cb+1)*scaledBlock)
			for r := max(r0, rb*scaledBlock); r < min(r1, (rb+1)*scaledBlock); r++ {
				dst := tile[(r-r0)*width+from-c0:][:to-from]
				for i, code := range w[r*p.k+from : r*p.k+to] {
					dst[i] = scaled[code]
				}
			}
		}
	}
}

// scaledKernel is the kernel of scaledMatMulOp and, with align, of groupedScaledMatMulOp. The counts are the
// last argument of the latter. It computes in f32 for rows of f16 and bf16.
func scaledKernel(transpose bool, align *int) exec.Kernel {
	return decodedKernel(scaledTilesOf[float32], scaledTilesOf[float64], transpose, align)
}
