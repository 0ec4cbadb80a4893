package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
)

// Rows in expert order are copies of tokens or of received rows. If all their readers can read
// rows through an index instead, no copies are made. The rules joinIndexed, joinRowDots and
// joinDequantized rewrite one reader after another. Rewriting the last one removes the instruction
// making the copies. If it also permutes weights, joinOnlyWeights leaves it with the weights.

// rowSource is an instruction copying rows into expert order.
type rowSource struct {
	*lowering.Instr
	at           int // the number of the instruction
	rows         int // the buffer of rows
	array, index int // the source array, and the index of each row in it, -1 for none
}

// rowsThrough returns the source of a buffer of rows, if all its readers pass `reads`: they can
// read rows through an index.
func rowsThrough(p *lowering.Peephole, rows int, reads readTest) (s rowSource, ok bool) {
	s.at, s.rows = p.Maker(rows), rows
	if s.at < 0 || p.Bufs[p.Root(rows)].Storage != lowering.Temp {
		return s, false
	}
	s.Instr = &p.Instrs[s.at]
	if _, ok := s.Prim.(DispatchOp); !ok || s.Out[0] != rows {
		return s, false
	}
	if s.Op != ops.EPPlace || rowSize(p.Bufs[s.In[0]].Type)%p.Bufs[rows].Type.DType.Size() != 0 { // the stride is no multiple of an element
		return s, false
	}
	s.array, s.index = s.In[0], s.In[1]
	all := p.Readers(rows)
	return s, len(all) > 0 && !slices.ContainsFunc(all, func(r int) bool { return !reads(p, &p.Instrs[r], rows) })
}

// readTest reports whether an instruction reading rows can read them through an index.
type readTest func(p *lowering.Peephole, in *lowering.Instr, rows int) bool

// productsThrough is the test for devices: grouped products pass.
func productsThrough(p *lowering.Peephole, in *lowering.Instr, rows int) bool {
	switch in.Op {
	case ops.GroupedMatMul, ops.GroupedSwiGLU, ops.GroupedOuter:
		return kernelReads(p, in, rows)
	}
	return false
}

// kernelReads reports whether the kernel of an instruction can read rows through an index.
func kernelReads(p *lowering.Peephole, in *lowering.Instr, rows int) bool {
	return slices.Contains(in.Through, slices.Index(in.In, rows)) && readsOnce(p, in, rows)
}

// readsOnce reports whether exactly one argument of an instruction has the memory of rows.
func readsOnce(p *lowering.Peephole, in *lowering.Instr, rows int) bool {
	times := 0
	for _, b := range in.In {
		if p.Root(b) == p.Root(rows) {
			times++
		}
	}
	return times == 1
}

// readsThrough is the test for the host.
func readsThrough(p *lowering.Peephole, in *lowering.Instr, rows int) bool {
	if in.Op != ops.Mul || len(in.In) != 2 || !readsOnce(p, in, rows) {
		return kernelReads(p, in, rows)
	}
	if _, _, ok := spreadWeights(p, in, rows); ok {
		return true
	}
	readers := p.Readers(in.Out[0])
	return len(readers) == 1 && p.Last(in.Out[0], readers[0]) && sumsRows(&p.Instrs[readers[0]])
}

// sumsRows reports whether an instruction sums each of its rows.
func sumsRows(in *lowering.Instr) bool {
	r, ok := in.Prim.(reduceSumOp)
	return ok && in.Op == ops.ReduceSum && len(in.In) == 1 && slices.Equal(r.Axes, []int{1})
}

// otherOperand returns the operand of an elementwise product other than rows.
func otherOperand(in *lowering.Instr, rows int) int {
	if in.In[0] == rows {
		return in.In[1]
	}
	return in.In[0]
}

// spreadWeights returns the weights by which an instruction multiplies rows, one per row, and the
// instruction broadcasting them along the rows.
func spreadWeights(p *lowering.Peephole, in *lowering.Instr, rows int) (weights, spread int, ok bool) {
	spread = p.Maker(otherOperand(in, rows))
	if spread < 0 {
		return 0, 0, false
	}
	s := &p.Instrs[spread]
	b, ok := s.Prim.(broadcastInDimOp)
	if !ok || s.Op != ops.BroadcastInDim || !slices.Equal(b.Dims, []int{0}) || len(b.Shape) != 2 || s.Zones != in.Zones {
		return 0, 0, false
	}
	return s.In[0], spread, true
}

// joinIndexed makes a reader of rows in expert order read them through an index instead.
func joinIndexed(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	return indexed(p, i, readsThrough)
}

// joinDeviceIndexed is joinIndexed for devices.
func joinDeviceIndexed(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	return indexed(p, i, productsThrough)
}

func indexed(p *lowering.Peephole, i int, reads readTest) ([]int, lowering.Instr, bool) {
	in := &p.Instrs[i]
	for at, b := range in.In {
		s, ok := rowsThrough(p, b, reads)
		if !ok {
			continue
		}
		if in.Op != ops.Mul {
			joined := *in
			joined.In, joined.Indexed = append(slices.Clone(in.In), s.index), append(slices.Clone(in.Indexed), at)
			joined.In[at] = s.array
			return []int{s.at}, joined, true
		}
		weights, spread, ok := spreadWeights(p, in, b)
		if !ok {
			return noJoin() // joinRowDots applies
		}
		d := p.Bufs[b].Type.DType
		k := weightedRows[float32](d)
		if d == graph.F64 {
			k = weightedRows[float64](d)
		}
		return []int{s.at, spread}, s.read(in, ops.Mul|ops.Weighted, weights, k), true
	}
	return noJoin()
}

// read returns an instruction with kernel k, replacing `in`, with the rows and another argument.
func (s *rowSource) read(in *lowering.Instr, op ops.Op, other int, k exec.Kernel) lowering.Instr {
	return lowering.Instr{Op: op, Prim: in.Prim, Pos: in.Pos, Out: in.Out, In: []int{s.array, other, s.index}, Indexed: []int{0}, Zones: in.Zones, Align: in.Align, Host: lowering.Host{Kernel: k}}
}

// joinRowDots joins the elementwise product of rows in expert order with other rows and the
// product's sum along each row. The product is then not written to memory.
func joinRowDots(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	in := &p.Instrs[i]
	if !sumsRows(in) || !p.Last(in.In[0], i) {
		return noJoin()
	}
	mi := p.Maker(in.In[0])
	if mi < 0 || p.Instrs[mi].Op != ops.Mul || p.Instrs[mi].Zones != in.Zones {
		return noJoin()
	}
	m := &p.Instrs[mi]
	for _, b := range m.In {
		s, ok := rowsThrough(p, b, readsThrough)
		if !ok {
			continue
		}
		k := exec.Kernel(rowDots[float32])
		if d := p.Bufs[b].Type.DType; isNarrow(d) {
			k = narrowDots(d)
		} else if d == graph.F64 {
			k = rowDots[float64]
		}
		return []int{s.at, mi}, s.read(in, ops.RowDots, otherOperand(m, b), k), true
	}
	return noJoin()
}

// joinOnlyWeights reduces an instruction copying rows and weights into expert order to the weights,
// if the rows have no readers.
func joinOnlyWeights(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	in := &p.Instrs[i]
	if in.Op != ops.EPPlace || len(in.Out) != 2 {
		return noJoin()
	}
	if rows := in.Out[0]; p.Bufs[p.Root(rows)].Storage != lowering.Temp || len(p.Readers(rows)) > 0 {
		return noJoin()
	}
	if unevenColumns(p, in.Out[0]) { // the offset of the weights differs between ranks
		return noJoin()
	}
	weights, values := in.In[0], rowSize(p.Bufs[in.Out[0]].Type) // packed after the values
	if len(in.In) == 5 {
		weights, values = in.In[4], 0 // the tokens' own array
	}
	return nil, lowering.Instr{Op: ops.EPPlace | ops.OnlyWeights, Prim: in.Prim, Pos: in.Pos, Out: in.Out[1:], In: []int{weights, in.In[1], in.In[3]}, Zones: in.Zones, Align: in.Align,
		Host: lowering.Host{Kernel: func(a *exec.Args) error {
			from, w := a.In[0], a.Out[0]
			m := rowMove{at: data[int32](a.In[1]), choice: data[int32](a.In[2])}
			m.to.weights = arrayLayout(a.Out, 1).values
			m.from.weights = rowField{from.Bytes(), values, rowSize(from.Type), w.Type.DType.Size()}
			exec.Share(a, min(len(m.at), w.Type.Len()), movedGrain(m.to.weights.size), m)
			return nil
		}}}, true
}
