package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// dotGeneralOp multiplies two arrays and sums over the contracted dimensions, following
// jax.lax.dot_general. The result's dimensions are the batch dimensions, followed by
// the free dimensions of the first argument and of the second.
//
// Products are summed over the contracted dimensions in row-major order of the
// lists, by internal/kernel/gemm.Multiply: in f64 for f64 and in f32 for the other
// floats, in blocks of 256, and rounded once to the result's type. Integers
// wrap. The bits of a row of the result do not depend on the number of other rows.
//
// One argument may be weights in blocks and the other of float type. If only the
// last dimension of the weights is contracted and their batch dimensions come
// first, in order, as in x·yᵀ with y[N,K], the numbers of an f32, bf16 or f16
// argument are rounded to int8, following blocks.Multiply. Otherwise the weights are
// converted to numbers.
type dotGeneralOp struct {
	LHSContract, RHSContract []int
	LHSBatch, RHSBatch       []int
	// DType is the element type of the result (JAX's preferred_element_type).
	// Zero means the element type of the arguments, which then must be the same.
	DType graph.DType
	// Tree, if not 0, is the number of blocks of the first contracted dimension. Products are summed
	// over each block and over the other contracted dimensions, and these sums are added in pairs,
	// making the result independent of the number of ranks. It is f32 or f64.
	Tree int
	// Precision is "" for the highest, HighPrecision or DefaultPrecision. Cotangents are computed
	// with the same precision. Sums in a tree have the highest.
	Precision string
}

var _ sharding.Blocked = dotGeneralOp{}
var _ primitive = dotGeneralOp{}

// DotGeneral contracts dimension lhsContract[i] of x with rhsContract[i] of y,
// for every pair lhsBatch[i], rhsBatch[i] of equal indices. The result has the
// arguments' element type and the dimensions batch, free of x, free of y.
func DotGeneral(x, y *graph.Value, lhsContract, rhsContract, lhsBatch, rhsBatch []int) *graph.Value {
	graph.Helper()
	return dot(0, "", x, y, lhsContract, rhsContract, lhsBatch, rhsBatch)
}

// MatMul returns x[..,K] · y[K,N], which is [..,N], in their element type.
func MatMul(x, y *graph.Value) *graph.Value {
	graph.Helper()
	return MatMulAs(0, x, y)
}

// MatMulTransposed returns x[..,K] · y[N,K]ᵀ, which is [..,N]. Checkpoints store the weights of
// linear layers in the layout of y.
func MatMulTransposed(x, y *graph.Value) *graph.Value {
	graph.Helper()
	return MatMulTransposedAs(0, x, y)
}

// MatMulTransposedAs is MatMulTransposed with a result of element type d; see MatMulAs.
func MatMulTransposedAs(d graph.DType, x, y *graph.Value) *graph.Value {
	graph.Helper()
	if x.Rank() == 0 || y.Rank() != 2 {
		graph.Fail("matmul of %s and %s transposed, want x[..,K] and y[N,K]; use DotGeneral for batches", x.Type, y.Type)
	}
	return dot(d, "", x, y, []int{x.Rank() - 1}, []int{1}, nil, nil)
}

// MatMulAs is MatMul with a result of element type d. Sums are rounded to d once: d
// is f32 for products of bf16 arguments that are not rounded to bf16. The types of
// the arguments may differ.
func MatMulAs(d graph.DType, x, y *graph.Value) *graph.Value {
	graph.Helper()
	if x.Rank() == 0 || y.Rank() != 2 {
		graph.Fail("matmul of %s and %s, want x[..,K] and y[K,N]; use DotGeneral for batches", x.Type, y.Type)
	}
	return dot(d, "", x, y, []int{x.Rank() - 1}, []int{0}, nil, nil)
}

func dot(d graph.DType, precision string, x, y *graph.Value, lc, rc, lb, rb []int) *graph.Value {
	return graph.Apply1(dotGeneralOp{slices.Clone(lc), slices.Clone(rc), slices.Clone(lb), slices.Clone(rb), d, 0, precision}, x, y)
}

func (dotGeneralOp) Name() string { return "dot_general" }

// Blocks marks a primitive with an argument that may be weights in blocks.
func (dotGeneralOp) Blocks() {}

func (p dotGeneralOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if err := precisionOf(p.Precision); err != nil {
		return nil, err
	}
	d, err := p.result(in[0].DType, in[1].DType)
	if err != nil {
		return nil, err
	}
	for i, lists := range [2][2][]int{{p.LHSContract, p.LHSBatch}, {p.RHSContract, p.RHSBatch}} {
		if err := distinctAxes(in[i], slices.Concat(lists[0], lists[1])); err != nil {
			return nil, fmt.Errorf("contracted %v and batch %v dimensions of argument %d: %w", lists[0], lists[1], i, err)
		}
	}
	for _, pairs := range [2]struct {
		what string
		l, r []int
	}{{"contract", p.LHSContract, p.RHSContract}, {"batch", p.LHSBatch, p.RHSBatch}} {
		if len(pairs.l) != len(pairs.r) {
			return nil, fmt.Errorf("lhs_%s %v and rhs_%s %v, want as many of one as of the other", pairs.what, pairs.l, pairs.what, pairs.r)
		}
		for i, l := range pairs.l {
			if a, b := in[0].Shape[l], in[1].Shape[pairs.r[i]]; a != b {
				return nil, fmt.Errorf("dimension %d of %s has size %d and dimension %d of %s has size %d, want one size for the two of a %s pair", l, in[0], a, pairs.r[i], in[1], b, pairs.what)
			}
		}
	}
	out := graph.Type{DType: d}
	for _, i := range p.LHSBatch {
		out.Shape = append(out.Shape, in[0].Shape[i])
	}
	lf, rf := p.free(in[0].Rank(), in[1].Rank())
	for _, i := range lf {
		out.Shape = append(out.Shape, in[0].Shape[i])
	}
	for _, i := range rf {
		out.Shape = append(out.Shape, in[1].Shape[i])
	}
	if p.Tree != 0 && (len(p.LHSContract) == 0 || in[0].DType.IsBlock() || in[1].DType.IsBlock()) {
		return nil, fmt.Errorf("tree=%d for %s and %s, want numbers and at least one contracted dimension", p.Tree, in[0], in[1])
	}
	if p.Tree != 0 && p.Precision != "" {
		return nil, treePrecision(p.Tree, p.Precision)
	}
	if p.Tree != 0 {
		return []graph.Type{out}, treeOf(p.Tree, in[0].Shape[p.LHSContract[0]], out)
	}
	return []graph.Type{out}, nil
}

// result returns the element type of the result.
func (p dotGeneralOp) result(x, y graph.DType) (graph.DType, error) {
	if x.IsBlock() || y.IsBlock() || p.DType.IsBlock() {
		return p.blockResult(x, y)
	}
	switch {
	case x == graph.Bool || y == graph.Bool || p.DType == graph.Bool:
		return 0, fmt.Errorf("element type bool has no products; convert with convert_element_type")
	case p.DType == graph.NoDType && x != y:
		return 0, fmt.Errorf("element types %s and %s differ; convert one with convert_element_type, or give the result's type as dtype", x, y)
	case p.DType == graph.NoDType:
		return x, nil
	case x.IsFloat() != p.DType.IsFloat() || y.IsFloat() != p.DType.IsFloat():
		return 0, fmt.Errorf("element types %s and %s with dtype=%s, want floats or integers for all; convert with convert_element_type", x, y, p.DType)
	}
	return p.DType, nil
}

// blockResult is result with weights in blocks.
func (p dotGeneralOp) blockResult(x, y graph.DType) (graph.DType, error) {
	other := x
	if x.IsBlock() {
		other = y
	}
	switch {
	case p.DType.IsBlock():
		return 0, fmt.Errorf("dtype=%s is for weights; want a float type, and convert the result with convert_element_type", p.DType)
	case !other.IsFloat():
		return 0, fmt.Errorf("element types %s and %s, want a float type beside weights in blocks; convert one with convert_element_type", x, y)
	case p.DType == graph.NoDType:
		return other, nil
	case !p.DType.IsFloat():
		return 0, fmt.Errorf("element types %s and %s with dtype=%s, want a float type; convert with convert_element_type", x, y, p.DType)
	}
	return p.DType, nil
}

// rounds reports whether a product of types x and y rounds one argument to int8,
// the other one being weights in blocks. weights is the index of the weights.
func (p dotGeneralOp) rounds(x, y graph.Type) (weights int, ok bool) {
	lists := [2][2][]int{{p.LHSContract, p.LHSBatch}, {p.RHSContract, p.RHSBatch}}
	for i, t := range [2]graph.Type{x, y} {
		if !t.DType.IsBlock() {
			continue
		}
		other := [2]graph.DType{y.DType, x.DType}[i]
		contract, batch := lists[i][0], lists[i][1]
		first := true
		for j, b := range batch {
			first = first && b == j
		}
		return i, first && len(contract) == 1 && contract[0] == t.Rank()-1 && max(other, p.DType) != graph.F64
	}
	return 0, false
}

// distinctAxes checks axes in any order.
func distinctAxes(t graph.Type, axes []int) error {
	return axesOf(t, slices.Sorted(slices.Values(axes)))
}

// free returns the dimensions of either argument that are neither contracted
// nor batch.
func (p dotGeneralOp) free(lhs, rhs int) (l, r []int) {
	return kept(lhs, slices.Concat(p.LHSContract, p.LHSBatch)), kept(rhs, slices.Concat(p.RHSContract, p.RHSBatch))
}

// VJP contracts the cotangent with the other argument over the other argument's free
// dimensions, ordering the operands so that transposing is seldom needed.
func (p dotGeneralOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, y, g := e.In[0], e.In[1], ct[0]
	if !e.Out[0].Type.DType.IsFloat() {
		return nil, nil
	}
	nb := len(p.LHSBatch)
	lf, rf := p.free(x.Rank(), y.Rank())
	var dx, dy *graph.Value // nil for weights in blocks, which have no cotangent
	if !x.Type.DType.IsBlock() {
		dx = adjoint(p.Precision, x, g, y, p.LHSContract, p.LHSBatch, lf, p.RHSContract, p.RHSBatch, rf, nb+len(lf), false)
	}
	if !y.Type.DType.IsBlock() {
		dy = adjoint(p.Precision, y, g, x, p.RHSContract, p.RHSBatch, rf, p.LHSContract, p.LHSBatch, lf, nb, true)
	}
	return []*graph.Value{dx, dy}, nil
}

// adjoint returns the cotangent of v, an argument of a product with the other argument o and
// the result's cotangent g. vc, vb and vf are the contracted, batch and free dimensions of
// v; oc, ob and `of` are the same for o. The dimensions `of` are the dimensions of g from
// `at` on. adjoint prefers an order of the operands without transposing, trying swapped
// first.
func adjoint(precision string, v, g, o *graph.Value, vc, vb, vf, oc, ob, of []int, at int, swapped bool) *graph.Value {
	gc, gb := make([]int, len(of)), make([]int, len(ob))
	for i := range gc {
		gc[i] = at + i
	}
	for i := range gb {
		gb[i] = i
	}
	// The free dimensions of o in this product are its contracted dimensions,
	// ascending. vco are the corresponding dimensions of v:
	var vco []int
	for _, d := range slices.Sorted(slices.Values(oc)) {
		vco = append(vco, vc[slices.Index(oc, d)])
	}
	first, second := slices.Concat(vb, vf, vco), slices.Concat(vb, vco, vf)
	if !slices.IsSorted(first) && slices.IsSorted(second) || swapped && !slices.IsSorted(first) {
		return arrange(dot(as(v, g, o), precision, o, g, of, gc, ob, gb), second)
	}
	return arrange(dot(as(v, g, o), precision, g, o, gc, of, gb, ob), first)
}

// as returns the dtype parameter making a product of g and o of v's type.
func as(v, g, o *graph.Value) graph.DType {
	if d := v.Type.DType; d != g.Type.DType || d != o.Type.DType {
		return d
	}
	return graph.NoDType
}

// arrange returns x transposed: dimension i of x becomes dimension to[i].
func arrange(x *graph.Value, to []int) *graph.Value {
	if slices.IsSorted(to) {
		return x
	}
	perm := make([]int, len(to))
	for i, d := range to {
		perm[d] = i
	}
	return Transpose(x, perm...)
}

func (p dotGeneralOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	nb, nc := len(p.LHSBatch), len(p.LHSContract)
	lf, rf := p.free(c.Type(0).Rank(), c.Type(1).Rank())
	l, r := make([]int, c.Type(0).Rank()), make([]int, c.Type(1).Rank())
	var out, sum []int
	for i := range nb {
		l[p.LHSBatch[i]], r[p.RHSBatch[i]] = i, i
		out = append(out, i)
	}
	for i := range nc {
		l[p.LHSContract[i]], r[p.RHSContract[i]] = nb+i, nb+i
		sum = append(sum, nb+i)
	}
	n := nb + nc
	for _, free := range [2]struct{ dims, of []int }{{lf, l}, {rf, r}} {
		for _, d := range free.dims {
			free.of[d] = n
			out = append(out, n)
			n++
		}
	}
	linear := sharding.LinearEach
	if _, ok := p.rounds(c.Type(0), c.Type(1)); ok {
		linear = sharding.NotLinear // the sum is rounded, and not each of its terms
	}
	if p.Tree > 0 {
		linear = sharding.NotLinear // pending sums are completed first, in their own order
	}
	dec, err := c.Place(sharding.Factors{In: [][]int{l, r}, Out: [][]int{out}, Sum: sum, RowWise: true, Linear: linear})
	if err == nil && p.Tree > 0 {
		err = placeTree(c, &dec, p.Tree, 0, p.LHSContract[0])
	}
	return dec, err
}

// InBlocks implements sharding.Blocked.
func (p dotGeneralOp) InBlocks(e *graph.Eqn, in []sharding.Spec, blocks int) (graph.Primitive, error) {
	d, err := onlySplit(in[0], p.LHSContract)
	if err != nil || d < 0 {
		return nil, err
	}
	if in[0].Ragged != nil && d == 0 {
		return nil, fmt.Errorf("rows in expert order are summed over, and where they lie depends on the mesh; combine first")
	}
	// The blocks are of the first contracted dimension.
	q := p
	at := slices.Index(p.LHSContract, d)
	first := func(list []int) []int { return slices.Insert(slices.Delete(slices.Clone(list), at, at+1), 0, list[at]) }
	q.LHSContract, q.RHSContract, q.Tree = first(p.LHSContract), first(p.RHSContract), blocks
	q.Precision = ""
	if q.DType == graph.BF16 || q.DType == graph.F16 {
		q.DType = graph.F32 // rounded after completing the sum
	}
	return q, divides(blocks, e.In[0].Type.Shape[d])
}

func (p dotGeneralOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	lf, rf := p.free(in[0].Type.Rank(), in[1].Type.Rank())
	if weights, ok := p.rounds(in[0].Type, in[1].Type); ok {
		dims := operandDims{p.LHSBatch, lf, p.LHSContract}
		if weights == 0 {
			dims = operandDims{p.RHSBatch, rf, p.RHSContract}
		}
		k := dotBlocks(weights, len(p.LHSBatch), dims)
		return e.Emit(lowering.KernelSpec{Op: ops.DotGeneral | ops.Blocks, Out: out, In: in, Dry: k, Kernel: k})
	}
	l, r := operandDims{p.LHSBatch, lf, p.LHSContract}, operandDims{p.RHSBatch, rf, p.RHSContract}
	if p.Tree > 0 {
		return emitTree(e, lowering.KernelSpec{Op: ops.DotGeneral | ops.Tree, Out: out, In: in}, p.Tree, 0, p.LHSContract[0], func(run blockRun) exec.Kernel {
			return treeDot(l, r, run)
		})
	}
	if inParts(p.Precision, in[0].Type.DType, in[1].Type.DType, out[0].Type.DType) {
		k := dotParts(l, r, p.Precision)
		return e.Emit(lowering.KernelSpec{Op: ops.DotGeneral | ops.Parts, Out: out, In: in, Dry: k, Kernel: k})
	}
	k := dotKernel(l, r)
	return e.Emit(lowering.KernelSpec{Op: ops.DotGeneral, Out: out, In: in, Packs: dotPacks(in[0].Type, in[1].Type, out[0].Type, r), Dry: k, Kernel: k})
}

func (dotGeneralOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..], y t[..]", Results: "t[batch.., free of x.., free of y..]", Formula: "z[b, i, j] = Σₖ x[b, i, k] · y[b, k, j]",
		Params: "lhs_contract, rhs_contract: pairs of dimensions summed over; lhs_batch, rhs_batch: pairs that go together; dtype: element type of the result, the arguments' if missing; tree: blocks of the first contracted dimension whose sums are added in pairs, for an f32 or f64 result; " + precisionDoc,
		Notes:  "Sums in f64 for f64 and f32 for other floats, in blocks of 256, rounded once; integers wrap. One argument may be weights in blocks (" + blockTypes() + ") beside a float one: contracted over its last dimension, the float one is rounded to int8 blocks (but f64) and multiplied in integers; otherwise the weights are taken as numbers."}
}
