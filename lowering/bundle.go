package lowering

import (
	"fmt"
	"slices"
)

// mostJoined is the most bytes that one exchange takes after several have become it: of a
// sum, or of the whole arrays of which an exchange leaves parts or brings parts together.
// moe_lm's 44 sums, 7.6 MB, become 5 with it; 9 with half of it, and 4 with twice as much.
// Larger exchanges begin later in the backward pass, and all of their memory is taken from
// the first array on.
const mostJoined = 2 << 20

// bundle makes one exchange of several of the same kind, over the same axes and of the
// same element type: all_sums, reduce_scatters, or all_gathers. It stands where the last
// of them stood, so an exchange joins only where no instruction in between reads what the
// others make, or comes behind it. Every element of a sum is added in the order of ranks,
// so the bits are the same.
func (p *Plan) bundle() {
	p.sink()
	j := joiner{Plan: p, flow: p.flow()}
	j.collect()
	at := map[int]*joined{} // by the last part
	gone := make([]bool, len(p.Instrs))
	behind := map[int][]Instr{} // what comes behind each instruction
	for _, b := range j.all {
		if len(b.parts) < 2 {
			continue
		}
		for _, i := range b.parts {
			gone[i] = true
			j.place[i] = b.last()
		}
		at[b.last()] = b
	}
	instrs := map[*joined][]Instr{}
	for i := range p.Instrs {
		b := at[i]
		if b == nil {
			continue
		}
		if p.Instrs[i].Name == "all_sum" {
			instrs[b] = j.sum(b)
			continue
		}
		pack, rest := j.exchange(b)
		if to := j.made(b); to >= 0 {
			behind[to] = append(behind[to], pack)
		} else {
			rest = append([]Instr{pack}, rest...)
		}
		instrs[b] = rest
	}
	var order []Instr
	for i, in := range p.Instrs {
		if b := at[i]; b != nil {
			order = append(order, instrs[b]...)
		} else if !gone[i] {
			order = append(order, in)
		}
		order = append(order, behind[i]...)
	}
	p.Instrs = order
	p.number()
}

// joined are the exchanges that become one.
type joined struct {
	parts []int // instructions
	bytes int64
	read  int // the first instruction that reads a result of theirs, or comes behind one
}

func (b *joined) last() int { return b.parts[len(b.parts)-1] }

type joiner struct {
	*Plan
	*flow
	all    []*joined
	place  []int // of each instruction: the one where it stands in the end
	groups int   // of adjacent buffers, so far; see Buffer.Group
}

// collect decides which exchanges become one.
func (j *joiner) collect() {
	first := slices.Repeat([]int{len(j.Instrs)}, len(j.Instrs)) // of each instruction: the first that needs it
	for i, needs := range j.needs {
		for _, n := range needs {
			first[n] = min(first[n], i)
		}
	}
	j.place = make([]int, len(j.Instrs))
	open := map[string]*joined{}
	for i := range j.Instrs {
		in := &j.Instrs[i]
		j.place[i] = i
		if !j.joins(in) {
			continue
		}
		key := fmt.Sprint(in.Name, in.Axes, in.DType, in.Pairs)
		size := j.whole(in)
		b := open[key]
		if b == nil || b.read <= i || b.bytes+size > mostJoined {
			b = &joined{read: len(j.Instrs)}
			open[key], j.all = b, append(j.all, b)
		}
		b.parts = append(b.parts, i)
		b.bytes += size
		b.read = min(b.read, first[i])
	}
}

// whole returns the bytes of the larger one of an exchange's argument and result.
func (j *joiner) whole(in *Instr) int64 {
	return max(j.Bufs[in.In[0]].Type.Bytes(), j.Bufs[in.Out[0]].Type.Bytes())
}

// joins reports whether an instruction is an exchange that may be joined with others.
func (j *joiner) joins(in *Instr) bool {
	if !in.Communicates() || len(in.In) != 1 || in.Zones >= 0 || in.Bytes == 0 {
		return false
	}
	from, to := &j.Bufs[in.In[0]], &j.Bufs[in.Out[0]]
	if from.Uneven != "" || to.Uneven != "" { // ranks with smaller parts would have gaps between them
		return false
	}
	switch in.Name {
	case "all_sum":
		return from.Type.Equal(to.Type) && j.sumJoins(in)
	case "reduce_scatter", "all_gather":
		return j.whole(in) < mostJoined
	}
	return false
}

// made returns the last of the instructions that make what the exchanges read, -1 if none
// does.
func (j *joiner) made(b *joined) int {
	to := -1
	for _, i := range b.parts {
		for _, n := range j.needs[i] {
			to = max(to, j.place[n])
		}
	}
	return to
}

// temp adds a temporary like b.
func (j *joiner) temp(b Buffer) int {
	b.Storage, b.Of, b.After, b.Def, b.Last = Temp, 0, nil, -1, -1
	j.Bufs = append(j.Bufs, b)
	return len(j.Bufs) - 1
}
