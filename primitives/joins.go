package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
)

// Joins returns the rules joining instructions of these primitives into fewer, larger ones.
// Operations following an expert's matrix product are applied to pieces of its result while
// these are in the cache. Afterwards readers of rows in expert order read them through an
// index, saving the copies.
func Joins() [][]lowering.Join {
	return [][]lowering.Join{
		{joinSwiGLU, joinSwiGLUBlocks, joinSwiGLUGrad, joinMatmulSum, joinWeights},
		{joinIndexed, joinRowDots, joinDequantized},
		{joinOnlyWeights},
	}
}

// The instructions of a primitive are its kernel and the instructions placing its arguments. A
// rule therefore checks the operation of an instruction, not only its primitive.

// rowProduct is an instruction multiplying experts' rows and matrices.
type rowProduct struct {
	*lowering.Instr
	at                    int // the number of the instruction
	op                    groupedMatMulOp
	rows, weights, counts int // buffers
}

// groupedProduct returns the product computing b, if it is a grouped_matmul that can be
// joined.
func groupedProduct(p *lowering.Peephole, b int) (rowProduct, bool) {
	return productOf(p, b, ops.GroupedMatMul)
}

// roundedProduct is groupedProduct for rounded rows and weights in blocks. If rows are
// narrower than f32, products are not joined, because they are rounded before swiglu.
func roundedProduct(p *lowering.Peephole, b int) (rowProduct, bool) {
	m, ok := productOf(p, b, ops.GroupedMatMul|ops.Blocks)
	return m, ok && m.op.Transpose && p.Bufs[b].Type.DType == graph.F32
}

func productOf(p *lowering.Peephole, b int, op ops.Op) (m rowProduct, ok bool) {
	i := p.Maker(b)
	if i < 0 || p.Instrs[i].Op != op {
		return m, false
	}
	in := &p.Instrs[i]
	prim, ok := in.Prim.(groupedMatMulOp)
	if !ok {
		return m, false
	}
	return rowProduct{in, i, prim, in.In[0], in.In[1], in.In[2]}, true
}

// joined returns the instruction replacing the product and other instructions, with the given
// results and arguments. It keeps the primitive and the rows of the product.
func (m *rowProduct) joined(op ops.Op, pos graph.Pos, out, in []int, h lowering.Host) lowering.Instr {
	return lowering.Instr{Op: op, Prim: m.Prim, Pos: pos, Out: out, In: in, Zones: m.Zones, Align: m.Align, Host: h}
}

// sameRows reports whether two products have the rows of the same experts.
func sameRows(x, y rowProduct) bool {
	return x.counts == y.counts && x.Zones == y.Zones && x.Align == y.Align
}

// noJoin returns the results of a join that does not apply.
func noJoin() ([]int, lowering.Instr, bool) { return nil, lowering.Instr{}, false }

// joinSwiGLU joins the two products of rows with gate and up, and swiglu. The products are
// written only if they have other readers, such as the gradient.
func joinSwiGLU(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	j, ok := gatedProducts(p, i, groupedProduct)
	if !ok {
		return noJoin()
	}
	w, t, align := p.Bufs[j.gate.weights].Type, j.gate.op.Transpose, j.gate.Align
	k := expertSwiGLU(t, align)
	return j.others(), j.joined(ops.GroupedSwiGLU, lowering.Host{Dry: counted(likelyRows(p, j.gate.rows, j.gate.weights), k), Packs: expertPacks(w, t, 1, 2), Slabs: []int{1, 2}, Through: []int{0}, Kernel: k}), true
}

// joinSwiGLUBlocks is joinSwiGLU for weights in blocks, both of the same type. The rows are
// rounded once.
func joinSwiGLUBlocks(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	j, ok := gatedProducts(p, i, roundedProduct)
	if !ok || p.Bufs[j.gate.weights].Type.DType != p.Bufs[j.up.weights].Type.DType {
		return noJoin()
	}
	k := groupedSwiGLUBlocks(j.gate.Align)
	rows := oneExpert(p.Bufs[j.gate.rows].Type, p.Bufs[j.gate.weights].Type)
	return j.others(), j.joined(ops.GroupedSwiGLU|ops.Blocks, lowering.Host{Dry: counted(rows, k), Slabs: []int{1, 2}, Through: []int{0}, Kernel: k}), true
}

// gatedProductPair is a swiglu and its arguments, the products of rows with gate and up.
type gatedProductPair struct {
	gate, up rowProduct
	pos      graph.Pos
	out      []int // the results of the joined instruction
}

func (j *gatedProductPair) others() []int { return []int{j.gate.at, j.up.at} }

func (j *gatedProductPair) joined(op ops.Op, h lowering.Host) lowering.Instr {
	return j.gate.joined(op, j.pos, j.out, []int{j.gate.rows, j.gate.weights, j.up.weights, j.gate.counts}, h)
}

// gatedProducts returns instruction i and the products it reads, if it is a swiglu and they can
// be joined. `of` returns the product computing a buffer.
func gatedProducts(p *lowering.Peephole, i int, of func(*lowering.Peephole, int) (rowProduct, bool)) (j gatedProductPair, ok bool) {
	in := &p.Instrs[i]
	if in.Op != ops.SwiGLU {
		return j, false
	}
	g, u := in.In[0], in.In[1]
	gate, ok := of(p, g)
	up, ok2 := of(p, u)
	if !ok || !ok2 || gate.at == up.at || gate.op != up.op {
		return j, false
	}
	if gate.rows != up.rows || !sameRows(gate, up) || !p.UnreadBefore(g, i) || !p.UnreadBefore(u, i) {
		return j, false
	}
	j = gatedProductPair{gate, up, in.Pos, in.Out}
	if !p.Last(g, i) || !p.Last(u, i) {
		j.out = []int{in.Out[0], gate.Out[0], up.Out[0]}
	}
	return j, true
}

// joinSwiGLUGrad joins swiglu's gradient with the product computing its cotangent.
func joinSwiGLUGrad(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	in := &p.Instrs[i]
	if in.Op != ops.SwiGLUGrad {
		return noJoin()
	}
	g, u, ct := in.In[0], in.In[1], in.In[2]
	m, ok := groupedProduct(p, ct)
	if !ok || !p.Last(ct, i) || ct == g || ct == u {
		return noJoin()
	}
	w, t := p.Bufs[m.weights].Type, m.op.Transpose
	k := inNumber(groupedSwiGLUGrad[array.Brain](t, m.Align), groupedSwiGLUGrad[array.Half](t, m.Align), groupedSwiGLUGrad[float32](t, m.Align), groupedSwiGLUGrad[float64](t, m.Align))
	return []int{m.at}, m.joined(ops.GroupedSwiGLUGrad, in.Pos, in.Out, []int{m.rows, m.weights, g, u, m.counts},
		lowering.Host{Dry: counted(likelyRows(p, m.rows, m.weights), k), Packs: expertPacks(w, t, 1), Slabs: []int{1}, Kernel: k}), true
}

// joinMatmulSum joins two products and their sum, such as the cotangents of rows from gate and
// from up.
func joinMatmulSum(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	in := &p.Instrs[i]
	if in.Op != ops.AddAny || len(in.In) != 2 {
		return noJoin()
	}
	x, ok := groupedProduct(p, in.In[0])
	y, ok2 := groupedProduct(p, in.In[1])
	if !ok || !ok2 || x.at == y.at || x.op != y.op || !p.Last(in.In[0], i) || !p.Last(in.In[1], i) {
		return noJoin()
	}
	if !sameRows(x, y) || !p.Bufs[x.rows].Type.Equal(p.Bufs[y.rows].Type) {
		return noJoin()
	}
	w, t := p.Bufs[x.weights].Type, x.op.Transpose
	k := inNumber(groupedSum[array.Brain](t, x.Align), groupedSum[array.Half](t, x.Align), groupedSum[float32](t, x.Align), groupedSum[float64](t, x.Align))
	return []int{x.at, y.at}, x.joined(ops.GroupedMatMulSum, in.Pos, in.Out, []int{x.rows, x.weights, y.rows, y.weights, x.counts},
		lowering.Host{Dry: counted(likelyRows(p, x.rows, x.weights), k), Packs: expertPacks(w, t, 1, 3), Slabs: []int{1, 3}, Kernel: k}), true
}
