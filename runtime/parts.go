package runtime

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
)

// zone are the rows that an instruction works on.
type zone struct {
	from, to int     // of its ragged arrays
	counts   []int32 // rows in use, of each expert whose rows these are
}

// zone returns the rows in use of the instruction's experts.
func (r *rank) zone(in *lowering.Instr) zone {
	counts := array.Data[int32](r.bufs[in.Zones])
	p := lowering.Part{To: len(counts)}
	if in.Part != nil {
		p = *in.Part
	}
	z := zone{counts: counts[p.From:p.To]}
	for i, n := range counts[:p.To] {
		if i == p.From {
			z.from = z.to
		}
		z.to += up(int(n), in.Align)
	}
	return z
}

// part returns what an instruction for a part of the experts sees of its k-th
// argument or, with k < 0, of a result: its rows, until it is called again for b, or
// the experts' entries.
func (r *rank) part(in *lowering.Instr, k, b int) array.Array {
	a := r.bufs[b]
	switch {
	case a.Type.Shape == nil && r.plan.Bufs[b].Storage == lowering.Kept: // not made yet
	case r.plan.Bufs[b].Spec.Ragged != nil:
		z := r.zone(in)
		r.cut[b][0] = z.to - z.from
		return slice(a, z.from, graph.Type{DType: a.Type.DType, Shape: r.cut[b]})
	case k >= 0 && in.Part.Types[k].Shape != nil:
		return slice(a, in.Part.From, in.Part.Types[k])
	}
	return a
}

// slice returns entries of a from `from` on, as many as t has.
func slice(a array.Array, from int, t graph.Type) array.Array {
	size := 0
	if n := a.Type.Shape[0]; n > 0 {
		size = len(a.Bytes()) / n
	}
	return array.Over(t, a.Bytes()[from*size:])
}

// runPart is ragged for some of the rank's experts.
func (r *rank) runPart(in *lowering.Instr, a *lowering.Args) error {
	for k, b := range in.In {
		a.In[k] = r.part(in, k, b)
	}
	for k, b := range in.Out {
		a.Out[k] = r.part(in, -1, b)
	}
	a.Separate(in)
	if err := in.Kernel(a); err != nil {
		return err
	}
	z := r.zone(in)
	for _, b := range in.Out {
		if r.plan.Bufs[b].Spec.Ragged != nil {
			zeroGaps(r.part(in, -1, b), z.counts, in.Align)
		}
	}
	return nil
}

// store copies what in has written of buffer b from made to kept.
func (r *rank) store(in *lowering.Instr, b int, kept, made array.Array) {
	if in.Part == nil || r.plan.Bufs[b].Spec.Ragged == nil {
		copy(kept.Bytes(), made.Bytes())
		return
	}
	z, n := r.zone(in), made.Type.Shape[0]
	size := len(made.Bytes()) / max(n, 1)
	copy(kept.Bytes()[z.from*size:z.to*size], made.Bytes()[z.from*size:])
}
