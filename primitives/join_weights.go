package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
)

// joinWeights joins the multiplication of experts' rows by their weights with the combine
// instruction reading the result. Weighted rows are then not written to memory.
func joinWeights(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	in := &p.Instrs[i]
	args, ok := map[lowering.Op]int{ops.EPSum: 2, ops.EPSpread: 2, ops.EPPackRows: 3}[in.Op]
	if !ok || len(in.In) != args { // the combine has weights of its own
		return noJoin()
	}
	rows := in.In[0]
	mi := p.Maker(rows)
	if mi < 0 || !p.Last(rows, i) || in.Op != ops.EPSum && unevenColumns(p, rows) { // packed rows are then longer than the rows of some ranks
		return noJoin()
	}
	product := &p.Instrs[mi]
	if product.Op != ops.Mul || len(product.In) != 2 {
		return noJoin()
	}
	for at, w := range product.In {
		wi := p.Maker(w)
		if wi < 0 {
			continue
		}
		spread := &p.Instrs[wi]
		b, ok := spread.Prim.(broadcastInDimOp)
		if !ok || spread.Op != ops.BroadcastInDim || !slices.Equal(b.Dims, []int{0}) || len(b.Shape) != 2 {
			continue
		}
		from := p.Bufs[spread.In[0]].Type
		if d := from.DType; d != graph.F32 && d != graph.F64 || from.Shape[0] != p.Bufs[rows].Type.Shape[0] {
			continue
		}
		join := lowering.Instr{Op: in.Op.(ops.Op) | ops.Weighted, Prim: in.Prim, Pos: in.Pos, Out: in.Out, Zones: in.Zones, Align: in.Align, Within: in.Within,
			In: append([]int{product.In[1-at], spread.In[0]}, in.In[1:]...)}
		switch in.Op {
		case ops.EPSum:
			k := p.Bufs[in.In[1]].Type.Shape[1]
			join.Kernel = inFloat(sumWeighted[float32](k), sumWeighted[float64](k))
		case ops.EPSpread:
			join.Kernel = inFloat(spreadWeighted[float32], spreadWeighted[float64])
		default:
			join.Kernel = inFloat(packWeighted[float32], packWeighted[float64])
		}
		return []int{wi, mi}, join, true // wi stays if a gradient reads the broadcast weights
	}
	return noJoin()
}

// unevenColumns reports whether ranks have different numbers of columns of rows in a buffer.
func unevenColumns(p *lowering.Peephole, rows int) bool {
	b := &p.Bufs[rows]
	return b.Type.Shape[1]*p.Mesh.Parts(b.Spec.At(1)) != b.Global.Shape[1]
}

// sumWeighted computes each token's sum of y[i]·w[i] over its k rows, in order. The
// arguments are rows, weights and the row of each pair.
func sumWeighted[T float](k int) exec.Kernel {
	return func(a *exec.Args) error {
		d, n := a.Out[0].Type.DType, a.Out[0].Type.Shape[1]
		sumPairsAs(a, a.Out[0].Type.Shape[0], rowSum[T]{to: arrayLayout(a.Out, k), from: arrayLayout(a.In[:1], 1), index: data[int32](a.In[2]), factors: data[T](a.In[1]), d: d, as: d, k: k, n: n})
		return nil
	}
}

// packWeighted writes y[i]·w[i], for each row i in expert order, to the packed row from which
// it is sent.
func packWeighted[T float](a *exec.Args) error {
	rows, recv, over := total(a.In[3]), data[int32](a.In[2]), aliasesRows(a)
	moveWeighted[T](a, rows, recv, over)
	if over {
		permuteRows(a, a.In[0].Bytes(), recv[:rows], rowSize(a.In[0].Type))
	}
	return nil
}

// spreadWeighted scatters y[i]·w[i] to the pair of row i, writing zeros for pairs with rows on
// other ranks. It has the arguments of sumWeighted.
func spreadWeighted[T float](a *exec.Args) error {
	home := data[int32](a.In[2])
	moveWeighted[T](a, len(home), home, false)
	return nil
}

// moveWeighted writes y[i]·w[i] for the first n indices i of at, to the result or, if over is set, in
// place.
func moveWeighted[T float](a *exec.Args, n int, at []int32, over bool) {
	y := arrayLayout(a.In[:1], 1)
	m := rowConversion[T]{rowMove: rowMove{to: y, from: y, at: at, clear: true}, d: a.In[0].Type.DType, as: a.In[0].Type.DType, factors: data[T](a.In[1]), over: over}
	if !over {
		m.to = packedLayout(a.Out[0], y.values.size, 0, 0)
	}
	convertRows(a, n, a.In[0].Type.Shape[1], m)
}

// scale sets y = x·w.
func scale[T float](y, x []T, w T) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] = v * w
	}
}
