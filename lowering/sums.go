package lowering

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/exec"
)

// mostPacked is the size in bytes up to which a sum is copied to lie beside others.
const mostPacked = 64 << 10

// sumJoins reports whether an all_sum may be joined with others. The sums are made where
// the summands lie, which get adjacent places in the arena. A small summand that others
// read too, or that is no temporary, is copied there, and a small sum that is a result of
// the plan is copied out.
func (j *joiner) sumJoins(in *Instr) bool {
	return in.Bytes <= mostPacked || in.Bytes < mostJoined && j.own(in.In[0]) && j.Bufs[in.Out[0]].Storage == Temp
}

// own reports whether b is a temporary that one instruction reads.
func (j *joiner) own(b int) bool {
	root := j.Root(b)
	x := &j.Bufs[root]
	return x.Storage == Temp && x.Group == 0 && len(j.readers[root]) == 1 && x.Type.Bytes() == j.Bufs[b].Type.Bytes()
}

// sum returns the instructions that take the place of joined all_sums.
func (j *joiner) sum(b *joined) []Instr {
	first := j.Instrs[b.parts[0]]
	sum := Instr{Name: first.Name, Prim: first.Prim, Pos: first.Pos, InPlace: true, Zones: -1,
		Collective: Collective{Axes: first.Axes, DType: first.DType, Exchange: sumAdjacent, Pairs: first.Pairs}}
	var before, after []Instr
	j.groups++
	for _, i := range b.parts {
		in := j.Instrs[i]
		from, to := in.In[0], in.Out[0]
		if !j.own(from) {
			from = j.copy(&before, in, -1, from)
		}
		if j.Bufs[to].Storage != Temp {
			sum.Out = append(sum.Out, j.copy(&after, in, to, -1))
		} else {
			sum.Out = append(sum.Out, to)
		}
		j.Bufs[j.Root(from)].Group = j.groups
		sum.In = append(sum.In, from)
		sum.Bytes += padded(in.Bytes)
	}
	sum.Bytes -= padded(j.Bufs[sum.In[len(sum.In)-1]].Type.Bytes()) - j.Bufs[sum.In[len(sum.In)-1]].Type.Bytes()
	return slices.Concat(before, []Instr{sum}, after)
}

// copy appends a copy to list: of from to a new temporary, or of a new temporary to the
// buffer to. It returns the temporary. The buffer that is not given is -1.
func (j *joiner) copy(list *[]Instr, of Instr, to, from int) int {
	b := j.Bufs[max(to, from)]
	made := j.temp(Buffer{Type: b.Type, Global: b.Global, Spec: b.Spec, Uneven: b.Uneven, Pos: of.Pos})
	if from < 0 {
		j.Bufs[made].Name = b.Name
		from = made
	} else {
		to = made
	}
	*list = append(*list, Instr{Name: "copy", Prim: of.Prim, Pos: of.Pos, Out: []int{to}, In: []int{from}, Zones: -1, InPlace: true, Host: Host{Kernel: copyBytes}})
	return made
}

// adjoin lets joined sums write their results over what they sum.
func (p *Plan) adjoin() {
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if !in.Communicates() || in.Name != "all_sum" || len(in.In) < 2 {
			continue
		}
		for k, b := range in.Out {
			p.Bufs[p.Root(b)].Storage, p.Bufs[p.Root(b)].Of = Alias, p.Root(in.In[k])
		}
	}
}

// sumAdjacent sums arrays that lie one behind another, as one.
func sumAdjacent(ctx context.Context, g collective.Group, c collective.Call, a *exec.Args) error {
	begin, end := unsafe.SliceData(a.Out[0].Bytes()), int64(0)
	for _, x := range a.Out {
		if at := int64(uintptr(unsafe.Pointer(unsafe.SliceData(x.Bytes()))) - uintptr(unsafe.Pointer(begin))); at != padded(end) {
			return fmt.Errorf("lowering: joined sums lie %d bytes apart, want %d", at, padded(end))
		}
		end = padded(end) + int64(len(x.Bytes()))
	}
	all := unsafe.Slice(begin, end)
	return g.AllSum(ctx, c, all, all)
}
