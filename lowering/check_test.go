package lowering

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// The buffers of checked.
const (
	bufW = iota
	bufX
	bufCopy   // a copy of x that is kept
	bufT      // the result of the product
	bufView   // a view of bufT
	bufLink   // inside the chain
	bufC      // the result of the chain
	bufG      // the sum of bufC over ranks
	bufY      // a result
	bufCounts // the numbers of rows in use
	bufNew    // w, updated in place
	bufAll    // the result of the last collective
	bufZ      // a result
)

// checked returns a plan with everything that Check looks at: a copy that is kept, a chain,
// collectives, one of which runs beside kernels, a view, rows in use and a donated input.
func checked(t *testing.T) *Plan {
	m, err := sharding.ParseMesh("a=2")
	require.NoError(t, err)
	x := graph.T(graph.F32, 16)
	pos := func(line int) graph.Pos { return graph.Pos{File: "m.go", Line: line} }
	kernel := Host{Kernel: func(*exec.Args) error { return nil }}
	keep, product, chain := kernel, kernel, kernel
	keep.Keeps, product.Kept = true, []int{1}
	chain.Chain = []Instr{
		{Op: named("square"), In: []int{bufT}, Out: []int{bufLink}, Zones: -1, Host: kernel},
		{Op: named("add"), In: []int{bufLink, bufX}, Out: []int{bufC}, Zones: -1, Host: kernel},
	}
	over := func(seq, wait int) Collective {
		return Collective{Axes: []string{"a"}, Seq: seq, Bytes: 64, DType: graph.F32, Wait: wait,
			Exchange: func(context.Context, collective.Group, collective.Call, *exec.Args) error { return nil }}
	}
	p := &Plan{Name: "p", Mesh: m, Arena: 320,
		Bufs: []Buffer{
			bufW: {Type: x, Storage: Input}, bufX: {Type: x, Storage: Input}, bufCopy: {Type: graph.T(graph.U8, 64), Storage: Kept},
			bufT: {Type: x}, bufView: {Type: graph.T(graph.F32, 4, 4), Storage: Alias, Of: bufT}, bufLink: {Type: x, Storage: Chunk},
			bufC: {Type: x, Offset: 64}, bufG: {Type: x, Offset: 128}, bufY: {Type: x, Storage: Output}, bufCounts: {Type: graph.T(graph.I32, 2), Offset: 192},
			bufNew: {Type: x, Storage: Alias, Of: bufW}, bufAll: {Type: x, Offset: 256}, bufZ: {Type: x, Storage: Output}},
		In:      []Port{{Name: "w", Type: x, Buf: bufW}, {Name: "x", Type: x, Buf: bufX}},
		Out:     []Port{{Name: "y", Type: x, Buf: bufY}, {Name: "w2", Type: x, Buf: bufNew}, {Name: "z", Type: x, Buf: bufZ}},
		Donated: []Donation{{In: 0, Out: 1, InPlace: true}},
		Instrs: []Instr{
			0: {Op: ops.Keep, In: []int{bufX}, Out: []int{bufCopy}, Zones: -1, Host: keep},
			1: {Op: named("product"), In: []int{bufW, bufX, bufCopy}, Out: []int{bufT}, Zones: -1, Host: product},
			2: {Op: named("count"), In: []int{bufX}, Out: []int{bufCounts}, Zones: -1, Host: kernel},
			3: {Op: ops.Fused, In: []int{bufT, bufX}, Out: []int{bufC}, Zones: -1, InPlace: true, Host: chain},
			4: {Op: ops.AllSum, In: []int{bufC}, Out: []int{bufG}, Zones: -1, Collective: over(0, 6)},
			5: {Op: named("mul"), In: []int{bufView, bufX}, Out: []int{bufY}, Zones: -1, Host: kernel},
			6: {Op: named("update"), In: []int{bufW, bufG}, Out: []int{bufNew}, Zones: -1, InPlace: true, Host: kernel},
			7: {Op: ops.AllGather, In: []int{bufC}, Out: []int{bufAll}, Zones: -1, Collective: over(1, 0)},
			8: {Op: named("pack"), In: []int{bufAll}, Out: []int{bufZ}, Zones: bufCounts, Host: kernel},
		}}
	for i := range p.Instrs {
		p.Instrs[i].Pos = pos(i + 1)
	}
	for b := range p.Bufs {
		p.Bufs[b].Pos = pos(50 + b)
	}
	return p
}

// Check finds what is wrong with a plan, and names the instruction, the line and the buffer.
func TestCheck(t *testing.T) {
	require.NoError(t, checked(t).Check())
	for _, c := range []struct {
		name, want string
		corrupt    func(p *Plan)
	}{
		{"an argument that is no buffer", "instruction 5, mul (m.go:6): b99: is no buffer, want one of 13", func(p *Plan) { p.Instrs[5].In[0] = 99 }},
		{"a result that is no buffer", "instruction 2, count (m.go:3): b-1", func(p *Plan) { p.Instrs[2].Out[0] = -1 }},
		{"counts that are no buffer", "instruction 8, pack (m.go:9): b40: counts rows and is no buffer", func(p *Plan) { p.Instrs[8].Zones = 40 }},
		{"counts of another type", "instruction 8, pack (m.go:9): b1 f32[16]: counts rows, want i32[experts]", func(p *Plan) { p.Instrs[8].Zones = bufX }},
		{"a port that is no buffer", "z has b77, want one of 13 buffers", func(p *Plan) { p.Out[2].Buf = 77 }},
		{"an input without memory", "b3 (m.go:53): input x has no memory of the caller's", func(p *Plan) { p.In[1].Buf = bufT }},
		{"a result in the arena", "b7 (m.go:57): result y has no memory of the caller's", func(p *Plan) { p.Out[0].Buf = bufG }},
		{"an alias of nothing", "b4 (m.go:54): is an alias of b-3", func(p *Plan) { p.Bufs[bufView].Of = -3 }},
		{"an alias of itself", "b4 (m.go:54): is an alias of itself", func(p *Plan) { p.Bufs[bufView].Of = bufView }},
		{"an alias that is too large", "b4 (m.go:54): has 64 bytes in the memory of b9, which has 8", func(p *Plan) { p.Bufs[bufView].Of = bufCounts }},
		{"a view of another buffer", "instruction 5, mul (m.go:6): b4 f32[4,4]: is read before it is written", func(p *Plan) { p.Bufs[bufView].Of = bufAll }},
		{"a read before the write", "instruction 1, fused(square, add) (m.go:4): b3 f32[16]: is read before it is written", func(p *Plan) { p.Instrs[1], p.Instrs[3] = p.Instrs[3], p.Instrs[1] }},
		{"two writers", "instruction 5, mul (m.go:6): b3 f32[16]: is written a second time, first by instruction 1", func(p *Plan) { p.Instrs[5].Out[0] = bufT }},
		{"an input that is written", "instruction 5, mul (m.go:6): b1 f32[16]: is input x, and is written", func(p *Plan) { p.Instrs[5].Out[0] = bufX }},
		{"a read after its memory was written over", "instruction 6, update (m.go:7): b0 f32[16]: is read where b7 has been written over it", func(p *Plan) {
			p.Bufs[bufG].Storage, p.Bufs[bufG].Of = Alias, bufW
			p.Instrs[4].Wait = 0
		}},
		{"a result over an argument that is still read", "instruction 6, update (m.go:7): b10 f32[16]: is written over an argument, which the instruction does not do", func(p *Plan) { p.Instrs[6].InPlace = false }},
		{"two results in one memory", "instruction 2, count (m.go:3): b5 i32[2]: has the memory of another result", func(p *Plan) {
			p.Bufs[bufLink].Storage, p.Bufs[bufLink].Of, p.Bufs[bufLink].Type = Alias, bufCounts, p.Bufs[bufCounts].Type
			p.Instrs[2].Out = append(p.Instrs[2].Out, bufLink)
			p.Instrs[3].Chain, p.Instrs[3].InPlace = nil, false
		}},
		{"a result that nobody writes", "b8 (m.go:58): result y is not in its memory at the end: b-1 is", func(p *Plan) { p.Instrs[5].Out = nil }},
		{"a donation of another type", "b8 (m.go:58): result y f32[16] takes over input x f32[8]", func(p *Plan) { p.In[1].Type = graph.T(graph.F32, 8); p.Donated[0] = Donation{In: 1, Out: 0} }},
		{"a donation that is not in place", "b8 (m.go:58): result y has the memory of input w: false, want true", func(p *Plan) { p.Donated[0].Out = 0 }},
		{"a donation of no input", "input 4 is donated to result 1, want of 2 and 3", func(p *Plan) { p.Donated[0].In = 4 }},
		{"a link that reads what is no argument", "b7 f32[16]: is read by add in the chain, and is no argument of it nor written before", func(p *Plan) { p.Instrs[3].Chain[1].In[1] = bufG }},
		{"a link that writes what is no result", "instruction 3, fused(square, add) (m.go:4): b6 f32[16]: is written by add in the chain, and is no result of it", func(p *Plan) { p.Instrs[3].Out = nil }},
		{"a result that no link writes", "b8 f32[16]: is written by none in the chain", func(p *Plan) { p.Instrs[3].Out = append(p.Instrs[3].Out, bufY); p.Instrs[5].Out = nil }},
		{"a value of a chain that others read", "instruction 5, mul (m.go:6): b5 f32[16]: lies inside a chain alone", func(p *Plan) { p.Instrs[5].In[1] = bufLink }},
		{"a chain of one", "instruction 3, fused(square) (m.go:4): is a chain of 1 instructions", func(p *Plan) { p.Instrs[3].Chain = p.Instrs[3].Chain[:1] }},
		{"a kernel that is missing", "instruction 5, mul (m.go:6): has 0 of a kernel, an exchange and a loop", func(p *Plan) { p.Instrs[5].Kernel = nil }},
		{"an exchange with a kernel", "instruction 4, all_sum (m.go:5): has 2 of a kernel, an exchange and a loop", func(p *Plan) { p.Instrs[4].Kernel = p.Instrs[5].Kernel }},
		{"a kernel on no device", "instruction 5, mul (m.go:6): runs on a device", func(p *Plan) { p.Instrs[5].On = true }},
		{"a number that is left out", "instruction 7, all_gather (m.go:8): is collective #2, want #1", func(p *Plan) { p.Instrs[7].Seq = 2 }},
		{"collectives out of order", "instruction 4, all_sum (m.go:5): is collective #1, want #0", func(p *Plan) { p.Instrs[4].Seq, p.Instrs[7].Seq = 1, 0 }},
		{"a collective over no axes", "instruction 7, all_gather (m.go:8): is a collective over no axes", func(p *Plan) { p.Instrs[7].Axes = nil }},
		{"a collective over a foreign axis", `is a collective over ep, which the mesh "a=2" does not split`, func(p *Plan) { p.Instrs[7].Axes = []string{"ep"} }},
		{"a wait before the start", "instruction 7, all_gather (m.go:8): is waited for before instruction 3, want one of 9 to 9", func(p *Plan) { p.Instrs[7].Wait = 3 }},
		{"a wait behind the end", "instruction 4, all_sum (m.go:5): is waited for before instruction 10, want one of 6 to 9", func(p *Plan) { p.Instrs[4].Wait = 10 }},
		{"a wait that comes too late", "instruction 6, update (m.go:7): b7 f32[16]: is touched while collective #0, instruction 4, is at work on it", func(p *Plan) { p.Instrs[4].Wait = 7 }},
		{"a kernel that is waited for", "instruction 5, mul (m.go:6): is no collective and is waited for", func(p *Plan) { p.Instrs[5].Wait = 7 }},
		{"a copy of no input", "instruction 0, keep (m.go:1): b9 i32[2]: is no input", func(p *Plan) { p.Instrs[0].In[0] = bufCounts }},
		{"a copy that is made elsewhere", "instruction 0, keep (m.go:1): b7 f32[16]: is made by an instruction that keeps a copy", func(p *Plan) { p.Instrs[0].Out[0] = bufG }},
		{"a copy of another argument", "instruction 1, product (m.go:2): b2 u8[64]: is a copy of b1, want of argument 0, b0", func(p *Plan) { p.Instrs[1].Kept = []int{0} }},
		{"an index of an argument that is not there", "instruction 1, product (m.go:2): reads argument 3 through an index, want one of 1", func(p *Plan) { p.Instrs[1].Indexed = []int{3} }},
		{"an index that is no list of rows", "instruction 1, product (m.go:2): b1 f32[16]: is the index of argument 0, want i32[rows]", func(p *Plan) { p.Instrs[1].Indexed = []int{0} }},
		{"a copy of an argument that is not there", "instruction 1, product (m.go:2): has a copy of argument 5, want one of 2", func(p *Plan) { p.Instrs[1].Kept = []int{5} }},
		{"a copy that is read like any argument", "instruction 1, product (m.go:2): b2 u8[64]: is a copy that is kept, and is read as another argument", func(p *Plan) { p.Instrs[1].Kept = nil }},
		{"memory that two have at once", "instruction 3, fused(square, add) (m.go:4): b6 f32[16]: lies in 0 to 64 of the arena, where b3 is until instruction 5", func(p *Plan) { p.Bufs[bufC].Offset = 0 }},
		{"memory that overlaps in part", "b9 i32[2]: lies in 0 to 8 of the arena, where b3 is", func(p *Plan) { p.Bufs[bufCounts].Offset = 0 }},
		{"memory outside of the arena", "instruction 7, all_gather (m.go:8): b11 f32[16]: lies at 320 of the arena", func(p *Plan) { p.Bufs[bufAll].Offset = 320 }},
		{"memory that is not aligned", "instruction 4, all_sum (m.go:5): b7 f32[16]: lies at 130 of the arena, want a multiple of 64", func(p *Plan) { p.Bufs[bufG].Offset = 130 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := checked(t)
			c.corrupt(p)
			err := p.Check()
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "lowering: plan p: ") {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

// Check does not look at memory that is not assigned yet.
func TestCheckUnplaced(t *testing.T) {
	p := checked(t)
	p.Bufs[bufC].Offset, p.unplaced = 0, true
	require.NoError(t, p.Check())
}
