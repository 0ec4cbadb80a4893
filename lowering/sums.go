package lowering

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/lowering/ops"
)

// mostPacked is the largest size in bytes of a sum that is copied next to others.
const mostPacked = 64 << 10

// sumJoins reports whether an all_sum may be combined with others. The sums are computed
// in place of the summands, which get adjacent places in the arena. A small summand that
// others read as well, or that is no temporary, is copied there, and a small sum that is
// a result of the plan is copied out.
func (j *joiner) sumJoins(in *Instr) bool {
	return in.Bytes <= mostPacked || in.Bytes < mostJoined && j.own(in.In[0]) && j.Bufs[in.Out[0]].Storage == Temp
}

// own reports whether b is a temporary read by one instruction.
func (j *joiner) own(b int) bool {
	root := j.Root(b)
	x := &j.Bufs[root]
	return x.Storage == Temp && x.Group == 0 && len(j.readers[root]) == 1 && x.Type.Bytes() == j.Bufs[b].Type.Bytes()
}

// sum returns the instructions replacing combined all_sums.
func (j *joiner) sum(b *joined) []Instr {
	first := j.Instrs[b.parts[0]]
	sum := Instr{Op: first.Op, Prim: first.Prim, Pos: first.Pos, InPlace: true, Zones: -1,
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

// copy appends a copy to list: from `from` to a new temporary, or from a new temporary to
// `to`. It returns the temporary. The buffer not given is -1.
func (j *joiner) copy(list *[]Instr, of Instr, to, from int) int {
	b := j.Bufs[max(to, from)]
	made := j.temp(Buffer{Type: b.Type, Global: b.Global, Spec: b.Spec, Uneven: b.Uneven, Pos: of.Pos})
	if from < 0 {
		j.Bufs[made].Name = b.Name
		from = made
	} else {
		to = made
	}
	*list = append(*list, Instr{Op: ops.Copy, Prim: of.Prim, Pos: of.Pos, Out: []int{to}, In: []int{from}, Zones: -1, InPlace: true, Host: Host{Kernel: copyBytes}})
	return made
}

// adjoin lets combined sums overwrite their summands.
func (p *Plan) adjoin() {
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if !in.Communicates() || in.Op != ops.AllSum || len(in.In) < 2 {
			continue
		}
		for k, b := range in.Out {
			p.Bufs[p.Root(b)].Storage, p.Bufs[p.Root(b)].Of = Alias, p.Root(in.In[k])
		}
	}
}

// sumAdjacent sums consecutive arrays as one.
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
