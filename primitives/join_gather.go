package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/lowering"
)

// joinGather joins the instruction that puts rows in expert order with grouped_swiglu,
// which then reads the rows where they are. It does not apply if another instruction reads
// the rows in order, as the gradient of the weights does.
func joinGather(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	in := &p.Instrs[i]
	if in.Name != "grouped_swiglu" || len(in.Out) != 1 {
		return none()
	}
	rows, gate := in.In[0], in.In[1]
	di := p.Maker(rows)
	if di < 0 || !p.Last(rows, i) {
		return none()
	}
	d := &p.Instrs[di]
	if _, ok := d.Prim.(DispatchOp); !ok || d.Name != "ep_permute" && d.Name != "ep_place" || d.Out[0] != rows {
		return none()
	}
	if len(d.Out) == 2 && (!p.UnreadBefore(d.Out[1], i) || p.Bufs[d.Out[1]].Type.DType != p.Bufs[rows].Type.DType) {
		return none()
	}
	t, align := in.Prim.(GroupedMatMulOp).Transpose, in.Align
	args := slices.Concat(d.In, in.In[1:])
	h := lowering.Host{Packs: expertPacks(p.Bufs[gate].Type, t, len(args)-3, len(args)-2)}
	if k := p.Bufs[rows].Type.Shape[1]; d.Name == "ep_place" {
		h.Kernel = inNumber(placedSwiGLU[array.Brain](t, align, k), placedSwiGLU[array.Half](t, align, k), placedSwiGLU[float32](t, align, k), placedSwiGLU[float64](t, align, k))
	} else {
		h.Kernel = inNumber(permutedSwiGLU[array.Brain](t, align), permutedSwiGLU[array.Half](t, align), permutedSwiGLU[float32](t, align), permutedSwiGLU[float64](t, align))
	}
	h.Dry = counted(likelyRows(p, rows, gate), h.Kernel)
	return []int{di}, lowering.Instr{Name: in.Name + "_gathered", Prim: in.Prim, Pos: in.Pos, Out: slices.Concat(in.Out, d.Out[1:]), In: args, Zones: in.Zones, Align: align, Host: h}, true
}

// placedSwiGLU computes h, and the weights of rows, from rows that have arrived. The
// arguments are the packed rows, of k elements and then weights; for each row of the zones
// the row that has arrived; counts; and the choice of each row if weights travel along. Then
// come gate, up and counts.
func placedSwiGLU[E gemm.Number](transpose bool, align, k int) exec.Kernel {
	return func(a *exec.Args) error {
		buf, from := view[E](a.In[0].Bytes()), data[int32](a.In[1])
		row := a.In[0].Type.Shape[1] / a.Out[0].Type.DType.Size()
		if len(a.Out) == 2 {
			weights, choice := data[E](a.Out[1]), data[int32](a.In[3])
			for i, j := range from[:a.Dry().Times(min(len(from), len(weights)))] {
				if j >= 0 {
					weights[i] = buf[int(j)*row+k+int(choice[i])]
				}
			}
		}
		gatheredSwiGLU(a, gemm.Left[E]{X: buf, Row: row, At: from}, k, transpose, align)
		return nil
	}
}

// permutedSwiGLU computes h, and the weights of rows. The arguments are tokens, weights if
// they travel along, the place of each pair, the row of each place, gate, up and counts.
func permutedSwiGLU[E gemm.Number](transpose bool, align int) exec.Kernel {
	return func(a *exec.Args) error {
		n := len(a.Out) // the number of payload arrays
		x, place, recv := data[E](a.In[0]), data[int32](a.In[n]), data[int32](a.In[n+1])
		k := a.In[n].Type.Shape[1]
		at := exec.MakeDirty[int32](a, a.Out[0].Type.Shape[0])
		clear(at)
		for pair, j := range place {
			if j < 0 {
				continue
			}
			at[recv[j]] = int32(pair / k)
			if n == 2 {
				data[E](a.Out[1])[recv[j]] = data[E](a.In[1])[pair]
			}
		}
		width := a.In[0].Type.Shape[1]
		gatheredSwiGLU(a, gemm.Left[E]{X: x, Row: width, At: at}, width, transpose, align)
		return nil
	}
}

// gatheredSwiGLU multiplies the rows x, of k elements, by the last three arguments.
func gatheredSwiGLU[E gemm.Number](a *exec.Args, x gemm.Left[E], k int, transpose bool, align int) {
	w, rows, grain := fusedOf[E](a, transpose, align, k, 2*k*a.Out[0].Type.Shape[1])
	exec.Share(a, rows, grain, fusedGathered[E]{w, x})
}

type fusedGathered[E gemm.Number] struct {
	fused[E]
	x gemm.Left[E]
}

func (w *fusedGathered[E]) Piece(lo, hi int) {
	h, k, n := data[E](w.Out[0]), w.k, w.Out[0].Type.Shape[1]
	gate, up := len(w.In)-3, len(w.In)-2
	w.each(lo, hi, func(e, start, from, to int) {
		from, to = start+from, start+to
		piece := w.x
		piece.At = kernel.From(w.x.At, from)
		gemm.SwiGLU(w.Dry(), to-from, n, k, piece, w.matrix(gate, e), w.matrix(up, e), nil, nil, kernel.From(h, from*n))
	})
}
