package runtime

// poison fills the results of instruction i with 0xff, but for memory that
// they share with its arguments, which it must still read.
func (r *rank) poison(i int) {
	in := &r.plan.Instrs[i]
	read := map[int]bool{}
	for _, b := range in.In {
		read[r.plan.Root(b)] = true
	}
	for _, b := range in.Out {
		if read[r.plan.Root(b)] {
			continue
		}
		mem := r.bufs[b].Bytes()
		for j := range mem {
			mem[j] = 0xff
		}
	}
}
