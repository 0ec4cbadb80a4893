package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
)

// joinDequantized makes codes and scales of rows that have travelled in 8 bits to numbers where
// they lie, without copies of either in expert order: it joins the conversion of the codes, the
// repetition of the scales and their product, and then the conversion of that to bf16 or f16.
func joinDequantized(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	in := &p.Instrs[i]
	if _, ok := in.Prim.(convertElementTypeOp); ok && in.Op == ops.ConvertElementType && len(in.In) == 1 {
		m := p.Maker(p.Root(in.In[0]))
		if m < 0 || p.Instrs[m].Op != ops.Dequantize || !p.Last(in.In[0], i) || !isNarrow(p.Bufs[in.Out[0]].Type.DType) {
			return none()
		}
		join := p.Instrs[m]
		join.Prim, join.Pos, join.Out = in.Prim, in.Pos, in.Out
		return []int{m}, join, true
	}
	if in.Op != ops.Mul || len(in.In) != 2 {
		return none()
	}
	ci, si := p.Maker(p.Root(in.In[0])), p.Maker(p.Root(in.In[1]))
	if ci < 0 || si < 0 || !p.Last(in.In[0], i) || !p.Last(in.In[1], i) {
		return none()
	}
	codes, ok := rowsOf8Bits(p, ci, in.Zones, readsCodes)
	scales, too := rowsOf8Bits(p, si, in.Zones, readsScales)
	if !ok || !too {
		return none()
	}
	c, s := p.Bufs[codes.rows].Type, p.Bufs[scales.rows].Type
	repeated := p.Instrs[si].Prim.(broadcastInDimOp).Shape
	if !slices.Equal(repeated[1:2], s.Shape[1:]) || repeated[1]*repeated[2] != c.Shape[1] {
		return none()
	}
	return []int{codes.at, scales.at, ci, si}, lowering.Instr{Op: ops.Dequantize, Prim: in.Prim, Pos: in.Pos, Out: in.Out, In: []int{codes.array, scales.array, codes.index, scales.index}, Indexed: []int{0, 1}, Zones: in.Zones, Align: in.Align,
		Host: lowering.Host{Kernel: dequantizedRows(c.DType, s.Shape[1])}}, true
}

// rowsOf8Bits returns the source of the rows that instruction i, and nothing else, reads as `reads`
// says.
func rowsOf8Bits(p *lowering.Peephole, i, zones int, reads readers) (s rowSource, ok bool) {
	in := &p.Instrs[i]
	if len(in.In) != 1 || in.Zones != zones || !reads(p, in, in.In[0]) {
		return s, false
	}
	return rowsThrough(p, in.In[0], reads)
}

// readsCodes reports whether an instruction makes f32 of rows of 8-bit codes.
func readsCodes(p *lowering.Peephole, in *lowering.Instr, rows int) bool {
	_, ok := in.Prim.(convertElementTypeOp)
	return ok && in.Op == ops.ConvertElementType && in.In[0] == rows && p.Bufs[rows].Type.DType.IsF8() && p.Bufs[in.Out[0]].Type.DType == graph.F32
}

// readsScales reports whether an instruction repeats each scale of rows [S,blocks].
func readsScales(p *lowering.Peephole, in *lowering.Instr, rows int) bool {
	b, ok := in.Prim.(broadcastInDimOp)
	return ok && in.Op == ops.BroadcastInDim && in.In[0] == rows && p.Bufs[rows].Type.DType == graph.F32 && len(b.Shape) == 3 && slices.Equal(b.Dims, []int{0, 1})
}
