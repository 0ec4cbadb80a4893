package lowering

import (
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// Pack is a copy of an argument in another order, such as the order of a matrix product's
// panels, that makes a kernel faster. A plan keeps the copy of an input for all steps
// with the same array; see Options.Keep. If ranks' parts of the argument differ in size,
// every rank has memory for the copy of the largest.
type Pack struct {
	Arg int // of Instr.In
	// Layout identifies the order of the copy: a comparable value of a type defined by
	// the primitive. Instructions with equal layouts share a copy.
	Layout any
	Type   graph.Type // of the copy
	// Kernel makes the copy, its only result, from the argument.
	Kernel exec.Kernel
}

// keepLeast is the smallest size in bytes of a copy that is kept. A smaller copy is made
// in microseconds and stays in a cache.
const keepLeast = 64 << 10

// keep gives instructions with Packs of inputs, or of views of inputs, copies that
// outlast the step. It inserts the instruction making a copy before its first reader.
// Donated inputs change with every step, so copies of them cannot be kept, and a copy
// that is only shared by many instructions of one step does not pay (see gemm.Panels).
func (p *Plan) keep(donated map[string]int) {
	type copyOf struct {
		root   int
		view   string // the type of the view
		layout any
	}
	inputs := map[int]bool{}
	for _, in := range p.In {
		_, gone := donated[in.Name]
		inputs[in.Buf] = !gone
	}
	made := map[copyOf]int{}
	var list []Instr
	for _, in := range p.Instrs {
		in.In = slices.Clone(in.In)
		for _, k := range in.Packs {
			arg := in.In[k.Arg]
			root := p.Root(arg)
			if !inputs[root] || k.Type.Bytes() < keepLeast {
				continue
			}
			c := copyOf{root, p.Bufs[arg].Type.String() + p.Bufs[arg].Uneven, k.Layout}
			b, ok := made[c]
			if !ok {
				b = len(p.Bufs)
				p.Bufs = append(p.Bufs, Buffer{Type: k.Type, Global: k.Type, Storage: Kept, Pos: in.Pos, Def: -1, Last: -1})
				made[c] = b
				var slabs []int
				if slices.Contains(in.Slabs, k.Arg) {
					slabs = []int{0}
				}
				list = append(list, Instr{Op: ops.Keep, Out: []int{b}, In: []int{arg}, Pos: in.Pos, Zones: -1, Host: Host{Kernel: k.Kernel, Keeps: true, Slabs: slabs}})
			}
			in.In = append(in.In, b)
			in.Kept = append(slices.Clone(in.Kept), k.Arg)
		}
		list = append(list, in)
	}
	p.Instrs = list
}
