package lowering

import "slices"

// sink moves small instructions reading only results of exchanges down to their first
// reader, if fewer exchanges are left then: so the losses of many layers, each added up
// in its layer, become one exchange.
func (p *Plan) sink() {
	was, before := p.Instrs, p.joined()
	flow := p.flow()
	j := joiner{Plan: p, flow: flow}
	sinks := make([]bool, len(was))
	for i := range was {
		sinks[i] = p.small(i) && len(flow.needs[i]) > 0 && !slices.ContainsFunc(flow.needs[i], func(n int) bool { return !sinks[n] && !j.joins(&was[n]) })
	}
	at, order := make([]int, len(was)), make([]int, len(was))
	read := slices.Repeat([]int{len(was)}, len(was)) // per instruction: the place of the first depending on it
	for i := len(was) - 1; i >= 0; i-- {
		order[i], at[i] = i, i
		if sinks[i] {
			at[i] = read[i]
		}
		for _, n := range flow.needs[i] {
			read[n] = min(read[n], at[i])
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return at[a] - at[b] })
	p.Instrs = make([]Instr, len(was))
	for k, i := range order {
		p.Instrs[k] = was[i]
	}
	if p.joined() <= before {
		p.Instrs = was
	}
}

// joined returns the number of exchanges that bundle removes.
func (p *Plan) joined() int {
	j, n := joiner{Plan: p, flow: p.flow()}, 0
	j.collect()
	for _, b := range j.all {
		n += len(b.parts) - 1
	}
	return n
}

// small reports whether instruction i is a kernel reading a few bytes and no argument of
// the plan, because a result may reuse an argument's memory.
func (p *Plan) small(i int) bool {
	in, bytes := &p.Instrs[i], int64(0)
	if in.Collectives() > 0 || in.Loop != nil || in.Zones >= 0 {
		return false
	}
	for _, b := range in.In {
		if s := p.Bufs[p.Root(b)].Storage; s != Temp && s != Output {
			return false
		}
		bytes += p.Bufs[b].Type.Bytes()
	}
	return bytes <= mostPacked
}
