package primitives

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/blocks"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// affineMatMulOp multiplies rows by a matrix in MLX's affine quantisation, decoding one
// tile at a time and never the whole matrix.
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
// word. mlx.core.quantize and the files of mlx-lm have this layout. The product has the same bits
// as multiplying x by the decoded matrix in f32. When decoding, each element is rounded after the
// product and after the sum.
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
// and biases f[E,N,K/groupSize], where e is the expert of the row. Elements of a matrix are as in
// AffineMatMul. Rows past an expert's count stay zero.
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
	if err := groupedTypes(x, w, r); err != nil {
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
	return e.Emit(lowering.KernelSpec{Op: ops.GroupedAffineMatMul, Out: out, In: []lowering.Buf{in[0], in[1], in[3], in[4], counts}, Through: []int{0},
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

// affine is the layout of weights quantised by MLX: numbers of Bits bits in words of 32 bits,
// starting at the lowest bits, and a scale and a bias for each GroupSize numbers of a row.
type affine struct {
	// Bits is 4 or 8.
	Bits int
	// GroupSize is 32, 64 or 128.
	GroupSize int
}

// AffineWeights returns the types of the packed weights of w, and of their scales and biases, both of the same
// type. The last dimension of w is the row. w has the element type of the scales.
func AffineWeights(w graph.Type, bits, groupSize int) (packed, scales graph.Type, err error) {
	a := affine{bits, groupSize}
	if err := a.check(); err != nil {
		return packed, scales, err
	}
	if w.Rank() == 0 || w.Shape[w.Rank()-1]%groupSize != 0 {
		return packed, scales, fmt.Errorf("weights are %s, want rows of a multiple of %d, the group size", w, groupSize)
	}
	packed, scales = graph.Type{DType: graph.U32, Shape: slices.Clone(w.Shape)}, graph.Type{DType: w.DType, Shape: slices.Clone(w.Shape)}
	last := w.Rank() - 1
	packed.Shape[last], scales.Shape[last] = w.Shape[last]*bits/32, w.Shape[last]/groupSize
	return packed, scales, nil
}

func (a affine) check() error {
	if a.Bits != 4 && a.Bits != 8 {
		return fmt.Errorf("bits is %d, want 4 or 8", a.Bits)
	}
	if a.GroupSize != 32 && a.GroupSize != 64 && a.GroupSize != 128 {
		return fmt.Errorf("group_size is %d, want 32, 64 or 128", a.GroupSize)
	}
	return nil
}

// columns returns the length of a row of w in numbers.
func (a affine) columns(w graph.Type) int { return w.Shape[w.Rank()-1] * 32 / a.Bits }

// weights checks weights, scales and biases for rows of element type d.
func (a affine) weights(w, scales, biases graph.Type, d graph.DType, rank int, shape string) error {
	if err := a.check(); err != nil {
		return err
	}
	if w.DType != graph.U32 || w.Rank() != rank {
		return fmt.Errorf("weights are %s, want u32%s, of %d numbers of %d bits each", w, shape, 32/a.Bits, a.Bits)
	}
	t := scales.DType
	if !t.IsFloat() || t == graph.F64 && d != graph.F64 {
		t = graph.F32
	}
	dense := w.With(t)
	dense.Shape = slices.Clone(w.Shape)
	dense.Shape[rank-1] = a.columns(w)
	_, want, err := AffineWeights(dense, a.Bits, a.GroupSize)
	switch {
	case err != nil:
		return err
	case !scales.Equal(want):
		return fmt.Errorf("scales are %s, want %s: one for each %d weights of a row", scales, want, a.GroupSize)
	case !biases.Equal(want):
		return fmt.Errorf("biases are %s, want %s as the scales", biases, want)
	}
	return nil
}

// cotangents returns the cotangents of scales and of biases, given dense, the cotangent of
// the decoded weights.
func (a affine) cotangents(w, scales, biases, dense *graph.Value) (ds, db *graph.Value) {
	t := dense.Type.DType
	parts := make([]*graph.Value, 32/a.Bits) // the numbers in each word's lowest bits, in its next bits, and so on
	shape := append(slices.Clone(w.Type.Shape), 1)
	for i := range parts {
		low := And(Div(w, FullLike(w, float64(uint32(1)<<(i*a.Bits)))), FullLike(w, float64(uint32(1)<<a.Bits-1)))
		parts[i] = Reshape(ConvertElementType(low, t), shape...)
	}
	rank := w.Rank()
	grouped := append(slices.Clone(scales.Type.Shape), a.GroupSize)
	q, g := Reshape(Concatenate(rank, parts...), grouped...), Reshape(dense, grouped...)
	sum := func(x *graph.Value, like *graph.Value) *graph.Value {
		return ConvertElementType(ReduceSumUnordered(x, rank), like.Type.DType)
	}
	return sum(Mul(g, q), scales), sum(g, biases)
}

// affineKernel is scaledKernel for affineMatMulOp and groupedAffineMatMulOp. Scales and biases are widened when
// decoding, because experts without rows need none.
func affineKernel(q affine, transpose bool, align *int) exec.Kernel {
	return decodedKernel(affineTilesOf[float32](q), affineTilesOf[float64](q), transpose, align)
}

// affineTilesOf returns the decoder of the weights, argument 1, and the rows and columns of a matrix.
// Scales and biases are the next two arguments.
func affineTilesOf[T float](q affine) decoderOf[T] {
	return func(a *exec.Args) (_ decoder[T], n, k int) {
		w := a.In[1]
		t := exec.New[affineTiles[T]](a)
		*t = affineTiles[T]{affine: q, w: data[uint32](w), scales: a.In[2], biases: a.In[3], n: w.Type.Shape[w.Type.Rank()-2], k: q.columns(w.Type)}
		return t, t.n, t.k
	}
}

// affineTiles are matrices of n times k numbers with scales and biases.
type affineTiles[T float] struct {
	affine
	w              []uint32
	scales, biases array.Array
	n, k           int
}

func (t *affineTiles[T]) decode(tile []T, e, r0, r1, c0, c1 int) {
	if dst, ok := any(tile).([]float32); ok && c0%t.GroupSize == 0 && c1%t.GroupSize == 0 {
		t.wholeGroups(dst, e*t.n+r0, r1-r0, c0, c1)
		return
	}
	var scales, biases [decodedDeep/32 + 2]T // of the groups overlapping a row of the tile
	groups, per := t.k/t.GroupSize, 32/t.Bits
	g0, g1 := c0/t.GroupSize, (c1+t.GroupSize-1)/t.GroupSize
	for r := r0; r < r1; r++ {
		row := e*t.n + r
		numbersAt(scales[:g1-g0], t.scales, row*groups+g0)
		numbersAt(biases[:g1-g0], t.biases, row*groups+g0)
		w := t.w[row*t.k/per:][:t.k/per]
		for g := g0; g < g1; g++ {
			lo, hi := max(c0, g*t.GroupSize), min(c1, (g+1)*t.GroupSize)
			t.group(tile[(r-r0)*(c1-c0)+lo-c0:][:hi-lo], w, lo, scales[g-g0], biases[g-g0])
		}
	}
}

// wholeGroups sets tile to columns [c0, c1), covering whole groups, of n rows of all matrices.
func (t *affineTiles[T]) wholeGroups(tile []float32, row, n, c0, c1 int) {
	const most = decodedDeep * decodedWide / 32
	scratch := tile[decodedDeep*decodedWide:]
	scales, biases := scratch[:most], scratch[most:]
	some := (c1 - c0) / t.GroupSize
	for r := range n {
		at := (row+r)*t.k/t.GroupSize + c0/t.GroupSize
		numbersAt(scales[r*some:][:some], t.scales, at)
		numbersAt(biases[r*some:][:some], t.biases, at)
	}
	words := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(t.w))), 4*len(t.w))
	blocks.DecodeAffine(tile, words[(row*t.k+c0)*t.Bits/8:], t.k*t.Bits/8, n, scales[:n*some], biases[:n*some], t.Bits, t.GroupSize)
}

// group sets dst to the elements of a row from element `from` on, sharing one scale and one
// bias.
func (t *affineTiles[T]) group(dst []T, w []uint32, from int, scale, bias T) {
	if t.Bits == 8 {
		for i := range dst {
			at := from + i
			dst[i] = T(T(w[at/4]>>(at%4*8)&255)*scale) + bias
		}
		return
	}
	var values [16]T
	for q := range values {
		values[q] = T(T(q)*scale) + bias
	}
	for ; len(dst) > 0 && from%8 != 0; from, dst = from+1, dst[1:] {
		dst[0] = values[w[from/8]>>(from%8*4)&15]
	}
	w = w[from/8:]
	for ; len(dst) >= 8; w, dst = w[1:], dst[8:] {
		v, d := w[0], dst[:8]
		d[0], d[1], d[2], d[3] = values[v&15], values[v>>4&15], values[v>>8&15], values[v>>12&15]
		d[4], d[5], d[6], d[7] = values[v>>16&15], values[v>>20&15], values[v>>24&15], values[v>>28]
	}
	for i := range dst {
		dst[i] = values[w[0]>>(i*4)&15]
	}
}

// numbersAt sets dst to the elements of x, of any float type, from element `from` on.
func numbersAt[T float](dst []T, x array.Array, from int) {
	switch x.Type.DType {
	case graph.F16:
		for i, v := range data[array.Half](x)[from:][:len(dst)] {
			dst[i] = T(v.Float32())
		}
	case graph.BF16:
		for i, v := range data[array.Brain](x)[from:][:len(dst)] {
			dst[i] = T(v.Float32())
		}
	case graph.F32:
		for i, v := range data[float32](x)[from:][:len(dst)] {
			dst[i] = T(v)
		}
	default:
		for i, v := range data[float64](x)[from:][:len(dst)] {
			dst[i] = T(v)
		}
	}
}
