package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
)

// joinDequantized dequantises rows received in 8 bits while gathering them, without copying codes or
// scales into expert order. It joins the conversion of the codes, the broadcast of the scales and
// their product, and then the product's conversion to bf16 or f16.
func joinDequantized(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	in := &p.Instrs[i]
	if _, ok := in.Prim.(convertElementTypeOp); ok && in.Op == ops.ConvertElementType && len(in.In) == 1 {
		m := p.Maker(p.Root(in.In[0]))
		if m < 0 || p.Instrs[m].Op != ops.Dequantize || !p.Last(in.In[0], i) || !isNarrow(p.Bufs[in.Out[0]].Type.DType) {
			return noJoin()
		}
		join := p.Instrs[m]
		join.Prim, join.Pos, join.Out = in.Prim, in.Pos, in.Out
		return []int{m}, join, true
	}
	if in.Op != ops.Mul || len(in.In) != 2 {
		return noJoin()
	}
	ci, si := p.Maker(p.Root(in.In[0])), p.Maker(p.Root(in.In[1]))
	if ci < 0 || si < 0 || !p.Last(in.In[0], i) || !p.Last(in.In[1], i) {
		return noJoin()
	}
	codes, ok := rowsOf8Bits(p, ci, in.Zones, readsCodes)
	scales, too := rowsOf8Bits(p, si, in.Zones, readsScales)
	if !ok || !too {
		return noJoin()
	}
	c, s := p.Bufs[codes.rows].Type, p.Bufs[scales.rows].Type
	repeated := p.Instrs[si].Prim.(broadcastInDimOp).Shape
	if !slices.Equal(repeated[1:2], s.Shape[1:]) || repeated[1]*repeated[2] != c.Shape[1] {
		return noJoin()
	}
	return []int{codes.at, scales.at, ci, si}, lowering.Instr{Op: ops.Dequantize, Prim: in.Prim, Pos: in.Pos, Out: in.Out, In: []int{codes.array, scales.array, codes.index, scales.index}, Indexed: []int{0, 1}, Zones: in.Zones, Align: in.Align,
		Host: lowering.Host{Kernel: dequantizedRows(c.DType, s.Shape[1])}}, true
}

// rowsOf8Bits returns the source of the rows read by instruction i, if i is their only reader and
// passes `reads`.
func rowsOf8Bits(p *lowering.Peephole, i, zones int, reads readTest) (s rowSource, ok bool) {
	in := &p.Instrs[i]
	if len(in.In) != 1 || in.Zones != zones || !reads(p, in, in.In[0]) {
		return s, false
	}
	return rowsThrough(p, in.In[0], reads)
}

// readsCodes reports whether an instruction converts rows of 8-bit codes to f32.
func readsCodes(p *lowering.Peephole, in *lowering.Instr, rows int) bool {
	_, ok := in.Prim.(convertElementTypeOp)
	return ok && in.Op == ops.ConvertElementType && in.In[0] == rows && p.Bufs[rows].Type.DType.IsF8() && p.Bufs[in.Out[0]].Type.DType == graph.F32
}

// readsScales reports whether an instruction broadcasts each scale of rows [S,blocks].
func readsScales(p *lowering.Peephole, in *lowering.Instr, rows int) bool {
	b, ok := in.Prim.(broadcastInDimOp)
	return ok && in.Op == ops.BroadcastInDim && in.In[0] == rows && p.Bufs[rows].Type.DType == graph.F32 && len(b.Shape) == 3 && slices.Equal(b.Dims, []int{0, 1})
}
