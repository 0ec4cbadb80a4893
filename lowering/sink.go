package lowering

import "slices"

// sink moves small instructions that read nothing but results of exchanges down to what first reads
// what they make, if fewer exchanges are left then: so the losses of many layers, each of which
// is added up where the layer is, become one exchange.
func (p *Plan) sink() {
	was, before := p.Instrs, p.joined()
	flow := p.flow()
	j := joiner{Plan: p, flow: flow}
	sinks := make([]bool, len(was))
	for i := range was {
		sinks[i] = p.small(i) && len(flow.needs[i]) > 0 && !slices.ContainsFunc(flow.needs[i], func(n int) bool { return !sinks[n] && !j.joins(&was[n]) })
	}
	at, order := make([]int, len(was)), make([]int, len(was))
	read := slices.Repeat([]int{len(was)}, len(was)) // of each instruction: where the first one is that needs it
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

// joined returns how many exchanges bundle takes away.
func (p *Plan) joined() int {
	j, n := joiner{Plan: p, flow: p.flow()}, 0
	j.collect()
	for _, b := range j.all {
		n += len(b.parts) - 1
	}
	return n
}

// small reports whether instruction i is a kernel that reads a few bytes, of which nothing is an
// argument of the plan, whose memory a result may take.
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
