package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
)

// joinWeights joins the multiplication of experts' rows by their weights with the
// instruction that reads the result to bring the rows home. Weighted rows are then not
// written.
func joinWeights(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	in := &p.Instrs[i]
	if _, ok := in.Prim.(CombineOp); !ok || len(in.In) != 3 || in.Op != ops.EPSum && in.Op != ops.EPPackRows && in.Op != ops.EPSpread {
		return none()
	}
	rows := in.In[0]
	mi := p.Maker(rows)
	if mi < 0 || !p.Last(rows, i) || in.Op != ops.EPSum && unevenColumns(p, rows) { // packed rows are longer than some ranks' then
		return none()
	}
	product := &p.Instrs[mi]
	if product.Op != ops.Mul || len(product.In) != 2 {
		return none()
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
			In: []int{product.In[1-at], spread.In[0], in.In[1], in.In[2]}}
		switch in.Op {
		case ops.EPSum:
			k := p.Bufs[in.In[1]].Type.Shape[1]
			join.Kernel = inFloat(sumWeighted[float32](k), sumWeighted[float64](k))
		case ops.EPSpread:
			join.Kernel = inFloat(spreadWeighted[float32], spreadWeighted[float64])
		default:
			join.Kernel = inFloat(packWeighted[float32], packWeighted[float64])
		}
		return []int{wi, mi}, join, true // a gradient may read the broadcast weights: then wi stays
	}
	return none()
}

// unevenColumns reports whether ranks have different numbers of columns of rows in a buffer.
func unevenColumns(p *lowering.Peephole, rows int) bool {
	b := &p.Bufs[rows]
	return b.Type.Shape[1]*p.Mesh.Parts(b.Spec.At(1)) != b.Global.Shape[1]
}

// sumWeighted computes each token's sum of y[i]·w[i] over its k rows, in order. The
// arguments are rows and weights, then the place of each pair and the row of each place.
func sumWeighted[T float](k int) exec.Kernel {
	return func(a *exec.Args) error {
		y, w, out := data[T](a.In[0]), data[T](a.In[1]), data[T](a.Out[0])
		place, recv := data[int32](a.In[2]), data[int32](a.In[3])
		n := a.Out[0].Type.Shape[1]
		exec.Share(a, a.Out[0].Type.Shape[0], 1+cheap/(1+k*n), weightedTokens[T]{y, w, out, place, recv, k, n})
		return nil
	}
}

type weightedTokens[T float] struct {
	y, w, out   []T
	place, recv []int32
	k, n        int
}

func (w *weightedTokens[T]) Piece(lo, hi int) {
	n := w.n
	for t := lo; t < hi; t++ {
		sum := w.out[t*n : (t+1)*n]
		clear(sum)
		for _, j := range w.place[t*w.k : (t+1)*w.k] {
			if j >= 0 {
				i := int(w.recv[j])
				vector.AddScaled(sum, sum, w.y[i*n:(i+1)*n], w.w[i])
			}
		}
	}
}

// packWeighted writes y[i]·w[i] for each row i of the experts to the place from which row
// i is sent.
func packWeighted[T float](a *exec.Args) error {
	y, w, recv := data[T](a.In[0]), data[T](a.In[1]), data[int32](a.In[2])
	n := a.In[0].Type.Shape[1]
	rows, size, over := total(a.In[3]), n*a.In[0].Type.DType.Size(), overZones(a)
	out := y
	if !over {
		out = view[T](a.Out[0].Bytes())
	}
	exec.Share(a, rows, movedGrain(size), weightedRows[T]{y, w, out, recv, n, over})
	if over {
		permuteRows(a, a.In[0].Bytes(), recv[:rows], size)
	}
	return nil
}

type weightedRows[T float] struct {
	y, w, out []T
	recv      []int32
	n         int
	over      bool // each row is written over itself
}

func (w *weightedRows[T]) Piece(lo, hi int) {
	n := w.n
	for j := lo; j < hi; j++ {
		i, to := int(w.recv[j]), j
		if w.over {
			to = i
		}
		scale(w.out[to*n:(to+1)*n], w.y[i*n:(i+1)*n], w.w[i])
	}
}

// spreadWeighted writes y[i]·w[i] for each pair whose row is y[i], and zeros for pairs whose
// rows other ranks have. The arguments are those of sumWeighted.
func spreadWeighted[T float](a *exec.Args) error {
	y, w := data[T](a.In[0]), data[T](a.In[1])
	place, recv := data[int32](a.In[2]), data[int32](a.In[3])
	n := a.In[0].Type.Shape[1]
	exec.Share(a, len(place), movedGrain(n*a.In[0].Type.DType.Size()), weightedSpread[T]{y, w, view[T](a.Out[0].Bytes()), place, recv, n})
	return nil
}

type weightedSpread[T float] struct {
	y, w, out   []T
	place, recv []int32
	n           int
}

func (w *weightedSpread[T]) Piece(lo, hi int) {
	n := w.n
	for pair := lo; pair < hi; pair++ {
		dst := w.out[pair*n : (pair+1)*n]
		if j := w.place[pair]; j >= 0 {
			i := int(w.recv[j])
			scale(dst, w.y[i*n:(i+1)*n], w.w[i])
		} else {
			clear(dst)
		}
	}
}

// scale sets y = x·w.
func scale[T float](y, x []T, w T) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] = v * w
	}
}
