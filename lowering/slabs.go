package lowering

import "slices"

// Slabs reports, for each input of the plan, whether its array may be made by
// array.InSlabs: it is read by Array.Slab only, and no other buffer has its memory.
func (p *Plan) Slabs() []bool {
	read := make([]bool, len(p.Bufs)) // otherwise than by Slab
	for b := range p.Bufs {
		if p.Bufs[b].Storage == Alias {
			read[p.Root(b)] = true
		}
	}
	for _, out := range p.Out {
		read[p.Root(out.Buf)] = true
	}
	for i := range p.Instrs {
		in := &p.Instrs[i]
		by := in.Host.Slabs
		if in.Loop != nil {
			by = in.Loop.slabs()
		}
		for k, b := range in.In {
			if !slices.Contains(by, k) {
				read[b] = true
			}
		}
	}
	may := make([]bool, len(p.In))
	for i, in := range p.In {
		may[i] = !read[in.Buf] && p.Bufs[in.Buf].Type.Rank() > 0 && p.Target == "" // devices need one piece
	}
	for _, d := range p.Donated {
		may[d.In] = false
	}
	return may
}

// slabs returns the arguments that the loop reads by Array.Slab: constants that its body
// reads in this way.
func (l *Loop) slabs() (args []int) {
	for k, may := range l.Body.Slabs()[:l.Op.Consts] {
		if may {
			args = append(args, k)
		}
	}
	return args
}
