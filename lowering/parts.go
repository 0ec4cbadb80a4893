package lowering

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// exchange returns the instructions replacing combined reduce_scatters or all_gathers: a
// copy packing each rank's parts of all arrays together, and the exchange with the copies
// unpacking it.
//
// The copies read and write the whole arrays, so large arrays would gain nothing; but the
// arrays of one exchange fit into a cache together (see mostJoined).
func (j *joiner) exchange(b *joined) (pack Instr, rest []Instr) {
	first := j.Instrs[b.parts[0]]
	members := j.Mesh.Parts(first.Axes)
	var in, out []int
	var sent, got int64
	for _, i := range b.parts {
		x := &j.Instrs[i]
		in, out = append(in, x.In[0]), append(out, x.Out[0])
		sent, got = sent+j.Bufs[x.In[0]].Type.Bytes(), got+j.Bufs[x.Out[0]].Type.Bytes()
	}
	from, to := j.together(first, sent), j.together(first, got)
	before, behind := members, 1 // number of parts of each array
	if first.Op == ops.AllGather {
		before, behind = 1, members
	}
	joined := first
	joined.In, joined.Out, joined.Bytes = []int{from}, []int{to}, sent
	return Instr{Op: ops.JoinParts, Prim: first.Prim, Pos: first.Pos, In: in, Out: []int{from}, Zones: -1, Host: Host{Kernel: joinParts(before)}},
		[]Instr{joined, {Op: ops.SeparateParts, Prim: first.Prim, Pos: first.Pos, In: []int{to}, Out: out, Zones: -1, Host: Host{Kernel: separateParts(behind)}}}
}

// together adds a temporary of n bytes for parts of the arrays of exchanges like in. It
// has their element type, so that a rank that looks for NaN finds the exchange that made
// it; types in blocks are stored as bytes.
func (j *joiner) together(in Instr, n int64) int {
	t := graph.T(graph.U8, int(n))
	if block, size := in.DType.Block(); block == 1 {
		t = graph.T(in.DType, int(n)/size)
	}
	return j.temp(Buffer{Type: t, Global: t, Pos: in.Pos})
}

// joinParts returns a kernel that cuts each argument into equal parts, and writes part 0 of
// every argument, then part 1 of every one, and so on.
func joinParts(parts int) exec.Kernel {
	return func(a *exec.Args) error {
		all, at := a.Out[0].Bytes(), 0
		for k := range parts {
			for _, x := range a.In {
				at += copy(all[at:], part(x.Bytes(), k, parts))
			}
		}
		return nil
	}
}

// separateParts returns a kernel that undoes joinParts.
func separateParts(parts int) exec.Kernel {
	return func(a *exec.Args) error {
		all, at := a.In[0].Bytes(), 0
		for k := range parts {
			for _, x := range a.Out {
				at += copy(part(x.Bytes(), k, parts), all[at:])
			}
		}
		return nil
	}
}

func part(b []byte, k, parts int) []byte { return b[len(b)*k/parts : len(b)*(k+1)/parts] }
