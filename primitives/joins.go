package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
)

// Joins returns the rules by which plans of these primitives get fewer, larger
// instructions: what follows an expert's matrix product is done to pieces of its
// result while they are in the cache.
func Joins() []lowering.Join {
	return []lowering.Join{joinSwiGLU, joinSwiGLUBlocks, joinSwiGLUGrad, joinMatmulSum, joinWeights, joinGather}
}

// Beside kernels, a primitive's instructions may bring its arguments to where it wants
// them, so that a rule looks at names too.

// groupedProduct returns the instruction that makes b, if it is a grouped_matmul
// that a join can take in.
func groupedProduct(p *lowering.Peephole, b int) (i int, m GroupedMatMulOp, ok bool) {
	return productNamed(p, b, "grouped_matmul")
}

// roundedProduct is groupedProduct for weights in blocks that rounded rows are
// multiplied with. Rows of narrower types are not taken in: their products are rounded
// to that type before swiglu.
func roundedProduct(p *lowering.Peephole, b int) (i int, m GroupedMatMulOp, ok bool) {
	i, m, ok = productNamed(p, b, "grouped_matmul_blocks")
	return i, m, ok && m.Transpose && p.Bufs[b].Type.DType == graph.F32
}

func productNamed(p *lowering.Peephole, b int, name string) (i int, m GroupedMatMulOp, ok bool) {
	i = p.Maker(b)
	if i < 0 || p.Instrs[i].Name != name {
		return i, m, false
	}
	m, ok = p.Instrs[i].Prim.(GroupedMatMulOp)
	return i, m, ok
}

// sameRows reports whether two grouped_matmul are of the same experts' rows.
func sameRows(x, y *lowering.Instr) bool {
	return x.In[2] == y.In[2] && x.Zones == y.Zones && x.Align == y.Align
}

// joinSwiGLU joins the two products of rows with gate and up, and swiglu. Both
// products are written only if they are read again, as by the gradient.
func joinSwiGLU(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	others, join, ok := gatedProducts(p, i, groupedProduct)
	if ok {
		t := join.Prim.(GroupedMatMulOp).Transpose
		join.Workspace = rowsIn(p, join.In[0], join.In[1]).swigluSpace(p.Bufs[join.In[1]].Type, t, false, len(join.Out) == 3)
		join.Name, join.Packs = "grouped_swiglu", expertPacks(p.Bufs[join.In[1]].Type, t, 1, 2)
		join.Kernel = inNumber(groupedSwiGLU[array.Brain](t, join.Align), groupedSwiGLU[array.Half](t, join.Align), groupedSwiGLU[float32](t, join.Align), groupedSwiGLU[float64](t, join.Align))
	}
	return others, join, ok
}

// joinSwiGLUBlocks is joinSwiGLU for weights in blocks of one type: the rows are
// rounded once.
func joinSwiGLUBlocks(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	others, join, ok := gatedProducts(p, i, roundedProduct)
	if !ok || p.Bufs[join.In[1]].Type.DType != p.Bufs[join.In[2]].Type.DType {
		return nil, join, false
	}
	join.Name, join.Kernel = "grouped_swiglu_blocks", groupedSwiGLUBlocks(join.Align)
	if len(join.Out) == 1 { // products that are not results
		join.Workspace.Shared += 2 * p.Bufs[join.Out[0]].Type.Bytes()
	}
	return others, join, true
}

// gatedProducts returns the products, as `product` finds them, of which instruction i
// is the swiglu, and the instruction that all are, but for its name and kernel.
func gatedProducts(p *lowering.Peephole, i int, product func(*lowering.Peephole, int) (int, GroupedMatMulOp, bool)) ([]int, lowering.Instr, bool) {
	in := p.Instrs[i]
	if _, ok := in.Prim.(SwiGLUOp); !ok || in.Name != "swiglu" {
		return nil, in, false
	}
	g, u := in.In[0], in.In[1]
	gi, gm, ok := product(p, g)
	ui, um, ok2 := product(p, u)
	if !ok || !ok2 || gi == ui || gm != um {
		return nil, in, false
	}
	gate, up := &p.Instrs[gi], &p.Instrs[ui]
	if gate.In[0] != up.In[0] || !sameRows(gate, up) || !p.UnreadBefore(g, i) || !p.UnreadBefore(u, i) {
		return nil, in, false
	}
	join := *gate
	join.Pos = in.Pos
	join.In, join.Out = []int{gate.In[0], gate.In[1], up.In[1], gate.In[2]}, in.Out
	if !p.Last(g, i) || !p.Last(u, i) {
		join.Out = []int{in.Out[0], gate.Out[0], up.Out[0]}
	}
	return []int{gi, ui}, join, true
}

// joinSwiGLUGrad joins the product that is swiglu's cotangent with its gradient.
func joinSwiGLUGrad(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	in := p.Instrs[i]
	if _, ok := in.Prim.(SwiGLUGradOp); !ok || in.Name != "swiglu_grad" {
		return nil, in, false
	}
	ct := in.In[2]
	pi, m, ok := groupedProduct(p, ct)
	if !ok || !p.Last(ct, i) || ct == in.In[0] || ct == in.In[1] {
		return nil, in, false
	}
	product := &p.Instrs[pi]
	join := *product
	join.Name, join.Pos = "grouped_swiglu_grad", in.Pos
	join.In, join.Out = []int{product.In[0], product.In[1], in.In[0], in.In[1], product.In[2]}, in.Out
	join.Workspace = rowsIn(p, product.In[0], product.In[1]).sumSpace(p.Bufs[product.In[1]].Type, m.Transpose, 1)
	join.Packs = expertPacks(p.Bufs[product.In[1]].Type, m.Transpose, 1)
	join.Kernel = inNumber(groupedSwiGLUGrad[array.Brain](m.Transpose, product.Align), groupedSwiGLUGrad[array.Half](m.Transpose, product.Align), groupedSwiGLUGrad[float32](m.Transpose, product.Align), groupedSwiGLUGrad[float64](m.Transpose, product.Align))
	return []int{pi}, join, true
}

// joinMatmulSum joins two products whose results are added, as the cotangents that
// rows get from gate and up.
func joinMatmulSum(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	in := p.Instrs[i]
	if _, ok := in.Prim.(graph.AddAnyOp); !ok || in.Name != "add_any" || len(in.In) != 2 {
		return nil, in, false
	}
	a, b := in.In[0], in.In[1]
	ai, am, ok := groupedProduct(p, a)
	bi, bm, ok2 := groupedProduct(p, b)
	if !ok || !ok2 || ai == bi || am != bm || !p.Last(a, i) || !p.Last(b, i) {
		return nil, in, false
	}
	first, second := &p.Instrs[ai], &p.Instrs[bi]
	if !sameRows(first, second) || !p.Bufs[first.In[0]].Type.Equal(p.Bufs[second.In[0]].Type) {
		return nil, in, false
	}
	join := *first
	join.Name, join.Pos = "grouped_matmul_sum", in.Pos
	join.In, join.Out = []int{first.In[0], first.In[1], second.In[0], second.In[1], first.In[2]}, in.Out
	join.Workspace = rowsIn(p, first.In[0], first.In[1]).sumSpace(p.Bufs[first.In[1]].Type, am.Transpose, 2)
	join.Packs = expertPacks(p.Bufs[first.In[1]].Type, am.Transpose, 1, 3)
	join.Kernel = inNumber(groupedSum[array.Brain](am.Transpose, first.Align), groupedSum[array.Half](am.Transpose, first.Align), groupedSum[float32](am.Transpose, first.Align), groupedSum[float64](am.Transpose, first.Align))
	return []int{ai, bi}, join, true
}
