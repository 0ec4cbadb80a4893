package kernels

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// batchRows permutes rows of a batch between batch order and the order of the ranks exchanging
// them.
func batchRows() Kernel {
	return Kernel{
		Name: "batch_rows", Serves: []ops.Op{ops.RowsTogether, ops.RowsApart}, Primitives: []string{"reshape"},
		Doc:       "rows of a batch copied from the order in which ranks hold them, or to it",
		Functions: moveFunctions(),
		Build:     batchRowsProgram,
	}
}

// mostRuns is the largest number of launches copying rows. There are about three for each rank,
// unless dimensions before a split one are split, too.
const mostRuns = 64

func batchRowsProgram(in *Instr) (*Program, error) {
	p, ok := in.Prim.(interface {
		BatchRows(m sharding.Mesh, t graph.Type, s sharding.Spec, rank int, f func(row, n int))
	})
	if !ok {
		return nil, refuse("comes from %T, want reshape", in.Prim)
	}
	batch, ok := in.exchanged()
	if !ok {
		return nil, refuse("no exchange of the rows follows or precedes it")
	}
	width := rowLen(in.Results[0].Type)
	var bs []box
	at := 0
	p.BatchRows(in.Mesh, in.plan.Bufs[batch].Global, in.spec(batch), in.Rank(), func(row, n int) {
		ordered, exchanged := row*width, at*width
		at += n
		if len(bs) > 0 && bs[len(bs)-1].grow(ordered, exchanged, n*width) {
			return
		}
		bs = append(bs, box{shape: []int{1, n * width}, to: []int{0, 1}, from: []int{0, 1}, toBegin: ordered, fromBegin: exchanged})
	})
	if len(bs) > mostRuns {
		return nil, refuse("copies %d pieces of rows, want at most %d", len(bs), mostRuns)
	}
	if in.Op == ops.RowsApart {
		for i, b := range bs {
			bs[i] = box{shape: b.shape, to: b.from, from: b.to, toBegin: b.fromBegin, fromBegin: b.toBegin}
		}
	}
	return in.boxes(bs, make([]int, len(bs)))
}

// grow extends the box by one piece of n elements if the piece follows the last one at the distance
// between the pieces before, and reports whether it does. The box has two dimensions, pieces and
// elements of a piece.
func (b *box) grow(to, from, n int) bool {
	pieces := b.shape[0]
	if n != b.shape[1] {
		return false
	}
	if pieces == 1 {
		b.to[0], b.from[0] = to-b.toBegin, from-b.fromBegin
	}
	if to != b.toBegin+pieces*b.to[0] || from != b.fromBegin+pieces*b.from[0] {
		return false
	}
	b.shape[0]++
	return true
}

// exchanged returns the buffer of the batch being permuted: the buffer sent by the following
// exchange, or received by the preceding one.
func (in *Instr) exchanged() (buf int, ok bool) {
	p := in.plan
	for i := range p.Instrs {
		at := &p.Instrs[i]
		switch {
		case !at.Communicates():
		case in.Op == ops.RowsTogether && slices.Contains(at.Out, in.Args[0].Buf):
			return at.In[0], true
		case in.Op == ops.RowsApart && slices.Contains(at.In, in.Results[0].Buf):
			return at.Out[0], true
		}
	}
	return 0, false
}
