package lowering

// Target is a device for which plans are compiled. It runs the instructions for which it
// has kernels; the host runs all others. Both use the same memory.
//
// A plan for a target is made without optimisations for the host's kernels: products
// joined with the following instructions (unless the target is a Joiner), copies of
// weights, and exchanges overlapping kernels, because a device has its own order of work.
// Results of a target's kernels differ from the host's in their last bits.
type Target interface {
	// Name returns the name of the target in plans and their listings.
	Name() string
	// Serves returns "" if the target runs instruction i of the plan, on each of the mesh's
	// ranks, and otherwise the reason why the host has to run it. The plan is complete
	// except for this.
	Serves(p *Plan, i int) (why string)
}

// Joiner is a target with joins of its own, in rounds, which are tried on optimised
// plans.
type Joiner interface {
	Target
	Joins() [][]Join
}

// Binder is a target with a limit on the number of a kernel's buffers. A fused
// instruction reads and writes no more buffers than that.
type Binder interface {
	Target
	MostBuffers() int
}

// Chainer is a target running only some of the elementwise instructions. It is asked
// before fusing them. Instructions for the target and instructions for the host are never
// fused with each other, so an instruction that the target cannot run does not move a
// whole chain to the host.
type Chainer interface {
	Target
	// Fusible reports whether the target can run instruction i, which is elementwise, as
	// part of a chain, on each of the mesh's ranks. Buffers have no places in memory yet.
	Fusible(p *Plan, i int) bool
}

// foreignTo returns, for each instruction, whether it is elementwise and the target
// cannot run it in a chain.
func (p *Plan) foreignTo(t Target) []bool {
	list := make([]bool, len(p.Instrs))
	if c, ok := t.(Chainer); ok {
		for i := range p.Instrs {
			list[i] = p.classOf(&p.Instrs[i]).n != unfused && !c.Fusible(p, i)
		}
	}
	return list
}

// mostBuffers returns the largest number of buffers that a fused instruction may read and
// write. 0 means any number.
func mostBuffers(t Target) int {
	if b, ok := t.(Binder); ok {
		return b.MostBuffers()
	}
	return 0
}

// on returns the options for a plan for t, without the optimisations that plans for
// targets lack.
func (o Options) on(t Target) Options {
	optimised := len(o.Joins) > 0
	o.Joins, o.Keep, o.Overlap = nil, false, OverlapOff
	if j, ok := t.(Joiner); ok && optimised {
		o.Joins = j.Joins()
	}
	return o
}

// target asks t about every kernel of the plan, and marks the kernels that t runs.
func (p *Plan) target(t Target) {
	p.Target = t.Name()
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if in.Communicates() {
			continue
		}
		if in.Loop != nil {
			in.Why = "the host runs the loop, and its body says what the target runs"
			continue
		}
		in.Why = t.Serves(p, i)
		in.On = in.Why == ""
	}
}
