package lowering

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/lowering/ops"
)

// mostJoined is the largest size in bytes of a combined exchange: of a sum, or of the
// whole arrays that an exchange scatters or gathers. With it moe_lm's 44 sums, 7.6 MB,
// become 5; 9 with half of it, and 4 with twice as much. Larger exchanges start later in
// the backward pass, and all of their memory is in use from the first array on.
const mostJoined = 2 << 20

// bundle combines several exchanges of the same kind, with the same axes and element
// type: all_sums, reduce_scatters, or all_gathers. The combined exchange takes the place
// of the last one, so an exchange is added only if no instruction in between depends on
// the results of the others. Every element of a sum is added in the order of ranks, so
// the bits are the same.
func (p *Plan) bundle() {
	p.sink()
	j := joiner{Plan: p, flow: p.flow()}
	j.collect()
	at := map[int]*joined{} // by the last part
	gone := make([]bool, len(p.Instrs))
	behind := map[int][]Instr{} // the instructions after each instruction
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
		if p.Instrs[i].Op == ops.AllSum {
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

// joined are exchanges to be combined.
type joined struct {
	parts []int // instructions
	bytes int64
	read  int // the first instruction reading one of their results, or must follow one
}

func (b *joined) last() int { return b.parts[len(b.parts)-1] }

type joiner struct {
	*Plan
	*flow
	all    []*joined
	place  []int // per instruction: the one at its final place
	groups int   // number of groups of adjacent buffers so far; see Buffer.Group
}

// collect decides on the exchanges to combine.
func (j *joiner) collect() {
	first := slices.Repeat([]int{len(j.Instrs)}, len(j.Instrs)) // per instruction: the first depending on it
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
		key := fmt.Sprint(in.Op, in.Axes, in.DType, in.Pairs)
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

// whole returns the size in bytes of the larger one of an exchange's argument and result.
func (j *joiner) whole(in *Instr) int64 {
	return max(j.Bufs[in.In[0]].Type.Bytes(), j.Bufs[in.Out[0]].Type.Bytes())
}

// joins reports whether an instruction is an exchange that may be combined with others.
func (j *joiner) joins(in *Instr) bool {
	if !in.Communicates() || len(in.In) != 1 || in.Zones >= 0 || in.Bytes == 0 {
		return false
	}
	from, to := &j.Bufs[in.In[0]], &j.Bufs[in.Out[0]]
	if from.Uneven != "" || to.Uneven != "" { // smaller shards would leave gaps
		return false
	}
	switch in.Op {
	case ops.AllSum:
		return from.Type.Equal(to.Type) && j.sumJoins(in)
	case ops.ReduceScatter, ops.AllGather:
		return j.whole(in) < mostJoined
	}
	return false
}

// made returns the last of the instructions making the arguments of the exchanges, -1 if
// there is none.
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
