package lowering

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
)

// dry counts, in dry runs, the memory that the kernels of a rank use in addition to their
// arguments and results with the given number of threads.
func (p *Plan) dry(threads int) *exec.Dry {
	var d exec.Dry
	p.dryOn(&d, threads)
	return &d
}

// dryOn does the dry runs of the plan's kernels, loop bodies included, on d.
func (p *Plan) dryOn(d *exec.Dry, threads int) {
	a := exec.Args{Mesh: p.Mesh, Threads: max(threads, 1)}
	outlines := func(list []array.Array, bufs []int) []array.Array {
		list = list[:0]
		for _, b := range bufs {
			list = append(list, array.Outline(p.Bufs[b].Type))
		}
		return list
	}
	for i := range p.Instrs {
		if l := p.Instrs[i].Loop; l != nil {
			l.Body.dryOn(d, threads)
		}
		if in := &p.Instrs[i]; in.Dry != nil {
			a.In, a.Out = outlines(a.In, in.In[:len(in.In)-len(in.Kept)]), outlines(a.Out, in.Out)
			a.Separate(in.Indexed, nil)
			d.Run(in.Dry, a)
		}
	}
}

// workspace returns the bytes that the kernels of a rank use in addition to their
// arguments and results.
func (p *Plan) workspace(threads int) int64 {
	d := p.dry(threads)
	return plus(padded(d.Shared()), d.OnThreads())
}

// NewScratch returns scratch memory that is large enough for the plan's kernels, as far
// as their needs are known.
func (p *Plan) NewScratch() *exec.Scratch { return exec.NewScratch(padded(p.dry(1).Shared())) }
