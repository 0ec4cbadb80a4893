package lowering

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
)

// Part is some of a rank's experts, and their rows.
type Part struct {
	From, To int // local experts [From, To)
	// Types are those of the instruction's arguments that are cut to the part's
	// experts; the zero type for the others.
	Types []graph.Type
}

// Division says how an instruction works for a part of a rank's experts. One that
// has only ragged arguments and results, and others that are the same for every
// row, needs none.
type Division struct {
	// ByExpert are the arguments that have one entry per local expert, such as
	// matrices and the rows in use; a part is given its experts' entries.
	ByExpert []int
	// Cut, if not nil, returns what the part from local expert `from` to `to` is
	// done with, for what moves rows between ranks. Ragged arguments and results of
	// a kernel are cut to the part's rows as always.
	Cut func(from, to int) (Kernel, Exchange)
}

// travels reports whether the instruction is an exchange of rows that can be
// divided.
func (in *Instr) travels() bool {
	return in.Collective() && in.Divide != nil && in.Divide.Cut != nil
}

// halve cuts the rows that go to experts and come back in two parts, by local
// expert. Between the exchange of a dispatch and that of a combine every
// instruction works on rows alone, or on an expert's rows and what belongs to
// the expert, so a part needs only the part before it:
//
//	A, work, B    becomes    A₁, A₂, work₁, B₁, work₂, B₂
//
// Instructions in between that A is not needed for move behind A₂, and those
// that B does not need behind B₂, for others to hide behind.
func (p *Plan) halve() {
	for a := 0; a < len(p.Instrs); a++ {
		if r, ok := p.region(a); ok {
			copy := r.halves()
			p.Instrs = slices.Concat(p.Instrs[:a], copy, p.Instrs[r.b+1:])
			a += slices.IndexFunc(copy, func(in Instr) bool {
				return in.Part != nil && in.Part.From > 0 && in.Collective() && in.Out[0] == p.Instrs[r.b].Out[0]
			})
		}
	}
}

// region is what lies between the exchanges a and b.
type region struct {
	*Plan
	a, b    int
	experts int
	work    []int // needed by b, and needs a
	before  []int // needs neither
	after   []int // is not needed by b, and needs a or another collective in between
}

// region returns the region that begins with instruction a, if there is one
// that can be cut.
func (p *Plan) region(a int) (region, bool) {
	r := region{Plan: p, a: a}
	in := &p.Instrs[a]
	if !in.travels() || in.Part != nil || p.Mesh.Parts(in.Axes) < 2 {
		return r, false
	}
	f := p.flow()
	needsA := make([]bool, len(p.Instrs))
	needsA[a] = true
	for i := a + 1; i < len(p.Instrs) && r.b == 0; i++ {
		needsA[i] = slices.ContainsFunc(f.needs[i], func(n int) bool { return needsA[n] })
		if needsA[i] && p.Instrs[i].travels() {
			r.b = i
		}
	}
	if r.b == 0 {
		return r, false
	}
	needed := f.ancestors(r.b, a)
	zones := -1
	waits := make([]bool, r.b) // for another collective, which comes behind a
	for i := a + 1; i < r.b; i++ {
		waits[i] = !needed[i] && slices.ContainsFunc(f.needs[i], func(n int) bool {
			return n > a && (waits[n] || p.Instrs[n].Collective() && !needed[n])
		})
		switch {
		case waits[i] && !needsA[i]:
			r.after = append(r.after, i)
		case !needsA[i]:
			r.before = append(r.before, i)
		case !needed[i]:
			r.after = append(r.after, i)
		case !p.divisible(i) || zones >= 0 && p.Root(p.Instrs[i].Zones) != zones:
			return r, false
		default:
			zones = p.Root(p.Instrs[i].Zones)
			r.work = append(r.work, i)
		}
	}
	if zones < 0 {
		return r, false
	}
	r.experts = p.Bufs[zones].Type.Shape[0]
	return r, r.experts > 1
}

// divisible reports whether instruction i can work on the rows of some experts.
// A kernel that reads how many rows there are of each expert can if it says what
// else it has of each.
func (p *Plan) divisible(i int) bool {
	in := &p.Instrs[i]
	switch {
	case in.Collective() || in.Zones < 0:
		return false
	case in.Divide != nil && in.Divide.Cut != nil:
		return true
	case slices.ContainsFunc(in.Out, func(b int) bool { return p.Bufs[b].Spec.Ragged == nil }):
		return false
	}
	for k, b := range in.In {
		if p.Root(b) == p.Root(in.Zones) && (in.Divide == nil || !slices.Contains(in.Divide.ByExpert, k)) {
			return false
		}
	}
	return true
}

// halves returns the region's instructions with the work in halves.
func (r *region) halves() []Instr {
	var out []Instr
	mid := r.experts / 2
	whole := func(list []int) {
		for _, i := range list {
			out = append(out, r.Instrs[i])
		}
	}
	part := func(from, to int, list ...int) {
		for _, i := range list {
			out = append(out, r.part(i, from, to))
		}
	}
	part(0, mid, r.a)
	part(mid, r.experts, r.a)
	whole(r.before)
	part(0, mid, r.work...)
	part(0, mid, r.b)
	part(mid, r.experts, r.work...)
	part(mid, r.experts, r.b)
	whole(r.after)
	return out
}

// part returns instruction i for the local experts from to to. The parts of a
// collective share its bytes.
func (r *region) part(i, from, to int) Instr {
	in := r.Instrs[i]
	in.Part = &Part{From: from, To: to, Types: make([]graph.Type, len(in.In))}
	if d := in.Divide; d != nil {
		for _, k := range d.ByExpert {
			t := r.Bufs[in.In[k]].Type
			t.Shape = slices.Clone(t.Shape)
			t.Shape[0] = to - from
			in.Part.Types[k] = t
		}
		if d.Cut != nil {
			in.Kernel, in.Exchange = d.Cut(from, to)
		}
	}
	in.Parts = slices.Clone(in.Parts)
	for k := range in.Parts { // of a fused instruction, whose arguments are ragged or whole
		part := &in.Parts[k]
		part.Part = &Part{From: from, To: to, Types: make([]graph.Type, len(part.In))}
		if part.Divide != nil { // the product before others
			copy(part.Part.Types, in.Part.Types)
		}
	}
	in.Bytes = in.Bytes*int64(to)/int64(r.experts) - in.Bytes*int64(from)/int64(r.experts)
	return in
}
