package lowering

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/exec"
)

// mostJoined is the most bytes of a joined sum. moe_lm's 44 sums, 7.6 MB, become 5 with it;
// 9 with half of it, and 4 with twice as much. Larger sums begin later in the backward
// pass, and all of their memory is taken from the first summand on.
const mostJoined = 2 << 20

// mostPacked is the size in bytes up to which a sum is copied to lie beside others.
const mostPacked = 64 << 10

// joinSums makes one all_sum of several over the same axes and of the same element type.
// It stands where the last of them stood, so a sum joins only where no instruction in
// between reads what the others make. Each element is summed in the order of ranks, so the
// bits are the same. The sums are made where the summands lie, which get adjacent places
// in the arena. A small summand that others read too, or that is no temporary, is copied
// there, and a small sum that is a result of the plan is copied out.
func (p *Plan) joinSums() {
	s := summer{Plan: p, flow: p.flow()}
	open := map[string]*bucket{}
	var all []*bucket
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if !s.joins(i) {
			continue
		}
		key := strings.Join(in.Axes, ".") + " " + in.DType.String()
		b := open[key]
		if b == nil || b.read <= i || b.bytes+in.Bytes > mostJoined {
			b = &bucket{read: len(p.Instrs)}
			open[key], all = b, append(all, b)
		}
		b.parts = append(b.parts, i)
		b.bytes += in.Bytes
		b.read = min(b.read, s.firstReader(i))
	}
	at := map[int]*bucket{} // by the last part
	gone := make([]bool, len(p.Instrs))
	for _, b := range all {
		if len(b.parts) < 2 {
			continue
		}
		for _, i := range b.parts {
			gone[i] = true
		}
		at[b.parts[len(b.parts)-1]] = b
	}
	var order []Instr
	for i, in := range p.Instrs {
		if b := at[i]; b != nil {
			order = append(order, s.joined(b)...)
		} else if !gone[i] {
			order = append(order, in)
		}
	}
	p.Instrs = order
	p.number()
}

// bucket are sums that become one.
type bucket struct {
	parts []int
	bytes int64
	read  int // the first instruction that reads one of them
}

type summer struct {
	*Plan
	*flow
	groups int
}

// firstReader returns the first instruction that reads the result of sum i.
func (s *summer) firstReader(i int) int {
	if r := s.readers[s.Root(s.Instrs[i].Out[0])]; len(r) > 0 {
		return r[0]
	}
	return len(s.Instrs)
}

// joins reports whether instruction i is a sum that may be joined with others.
func (s *summer) joins(i int) bool {
	in := &s.Instrs[i]
	if !in.Communicates() || in.Name != "all_sum" || len(in.In) != 1 || !s.Bufs[in.In[0]].Type.Equal(s.Bufs[in.Out[0]].Type) || in.Bytes == 0 {
		return false
	}
	if s.Bufs[in.In[0]].Uneven != "" { // ranks with smaller parts would have gaps between them
		return false
	}
	return in.Bytes <= mostPacked || in.Bytes < mostJoined && s.own(in.In[0]) && s.Bufs[in.Out[0]].Storage == Temp
}

// own reports whether b is a temporary that one instruction reads.
func (s *summer) own(b int) bool {
	root := s.Root(b)
	x := &s.Bufs[root]
	return x.Storage == Temp && x.Group == 0 && len(s.readers[root]) == 1 && x.Type.Bytes() == s.Bufs[b].Type.Bytes()
}

// joined returns the instructions that take the place of the bucket's.
func (s *summer) joined(b *bucket) []Instr {
	first := s.Instrs[b.parts[0]]
	sum := Instr{Name: first.Name, Prim: first.Prim, Pos: first.Pos, InPlace: true, Zones: -1,
		Collective: Collective{Axes: first.Axes, DType: first.DType, Exchange: sumAdjacent}}
	var before, after []Instr
	s.groups++
	for _, i := range b.parts {
		in := s.Instrs[i]
		from, to := in.In[0], in.Out[0]
		if !s.own(from) {
			from = s.copy(&before, in, -1, from)
		}
		if s.Bufs[to].Storage != Temp {
			sum.Out = append(sum.Out, s.copy(&after, in, to, -1))
		} else {
			sum.Out = append(sum.Out, to)
		}
		s.Bufs[s.Root(from)].Group = s.groups
		sum.In = append(sum.In, from)
		sum.Bytes += padded(in.Bytes)
	}
	sum.Bytes -= padded(s.Bufs[sum.In[len(sum.In)-1]].Type.Bytes()) - s.Bufs[sum.In[len(sum.In)-1]].Type.Bytes()
	return slices.Concat(before, []Instr{sum}, after)
}

// copy appends a copy to list: of from to a new temporary, or of a new temporary to the
// buffer to. It returns the temporary. The buffer that is not given is -1.
func (s *summer) copy(list *[]Instr, of Instr, to, from int) int {
	b := s.Bufs[max(to, from)]
	s.Bufs = append(s.Bufs, Buffer{Type: b.Type, Global: b.Global, Spec: b.Spec, Uneven: b.Uneven, Pos: of.Pos, Def: -1, Last: -1})
	made := len(s.Bufs) - 1
	if from < 0 {
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
