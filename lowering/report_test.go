package lowering

import (
	"context"
	"strings"
	"testing"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// reportedPlan is a plan made by hand: instruction 0 reads x and writes t0, 1 sums t0
// over ep to t1, and 2 makes the result of t1.
func reportedPlan() *Plan {
	big, small := graph.T(graph.F32, 64), graph.T(graph.F32, 16)
	pos := func(line int) graph.Pos { return graph.Pos{File: "moe.graph", Line: line} }
	kernel := func(*exec.Args) error { return nil }
	p := &Plan{Name: "f", Mesh: sharding.Mesh{Axes: []sharding.Axis{{Name: "dp", Size: 3}, {Name: "ep", Size: 2}}},
		Bufs: []Buffer{
			{Type: big, Global: graph.T(graph.F32, 128), Spec: sharding.Split("ep"), Storage: Input},
			{Type: big, Global: big, Spec: sharding.Spec{Pending: []string{"ep"}}, Pos: pos(2)},
			{Type: big, Global: big, Pos: pos(3)},
			{Type: small, Global: small, Storage: Output, Pos: pos(4)},
			{Type: big, Global: big, Storage: Alias, Of: 2, Pos: pos(3)},
			{Type: big, Global: big, Def: -1, Last: -1}, // not used
		},
		In:  []Port{{"x", graph.T(graph.F32, 128), sharding.Split("ep"), 0}},
		Out: []Port{{"y", small, sharding.Spec{}, 3}},
	}
	p.Instrs = []Instr{
		{Op: named("a"), In: []int{0}, Out: []int{1}, Host: Host{Kernel: kernel}, Pos: pos(2), Zones: -1},
		{Op: ops.AllSum, In: []int{1}, Out: []int{2}, Collective: Collective{Axes: []string{"ep"}, Exchange: func(context.Context, collective.Group, collective.Call, *exec.Args) error { return nil }, DType: graph.F32, Bytes: 256}, Prim: graph.AddAnyOp{}, Pos: pos(3), Zones: -1},
		{Op: named("b"), In: []int{4}, Out: []int{3}, Host: Host{Kernel: kernel}, Pos: pos(4), Zones: -1},
	}
	_ = p.assignMemory(context.Background()) // it fails only when the context ends
	return p
}

func TestReport(t *testing.T) {
	r := reportedPlan().Report(1)
	m := r.Mem
	if r.Ranks != 6 || m.Inputs != 256 || m.Results != 64 || m.Arena != 512 || m.Total != 832 {
		t.Errorf("ranks %d, inputs %d, results %d, arena %d, total %d; want 6, 256, 64, 512, 832", r.Ranks, m.Inputs, m.Results, m.Arena, m.Total)
	}
	if want := (Peak{Instr: 1, Name: "all_sum", Line: "moe.graph:3", Live: 832, Temps: 512}); m.Peak != want {
		t.Errorf("peak %+v, want %+v", m.Peak, want)
	}
	if len(m.Buffers) != 4 {
		t.Fatalf("%d buffers, want 4: aliases and unused ones have no memory\n%+v", len(m.Buffers), m.Buffers)
	}
	share := 0.0
	for i, u := range m.Buffers {
		share += u.Share
		if i > 0 && u.Bytes > m.Buffers[i-1].Bytes {
			t.Errorf("buffer %d of %d bytes stands behind one of %d", u.Buf, u.Bytes, m.Buffers[i-1].Bytes)
		}
	}
	if share < 0.999 || share > 1.001 {
		t.Errorf("shares at the peak sum to %g, want 1", share)
	}
	if u := m.Buffers[0]; u.Name != "x" || u.Storage != "input" || u.Type != "f32[128@ep]" {
		t.Errorf("first buffer is %+v, want the input x", u)
	}
	if len(r.Comm.Collectives) != 1 || len(r.Comm.Totals) != 1 {
		t.Fatalf("communication %+v, want one collective", r.Comm)
	}
	if c := r.Comm.Collectives[0]; c.Op != "all_sum" || c.Group != 2 || c.Bytes != 256 || c.Line != "moe.graph:3" || c.Prim != "add_any" {
		t.Errorf("collective %+v", c)
	}
	if want := (OpTotal{"all_sum", 1, 256}); r.Comm.Totals[0] != want {
		t.Errorf("total %+v, want %+v", r.Comm.Totals[0], want)
	}
}

func TestReportHuge(t *testing.T) {
	p := reportedPlan()
	for i := range p.Bufs {
		p.Bufs[i].Type = graph.T(graph.U8, 1<<62)
	}
	r := p.Report(1)
	if r.Mem.Total != 1<<63-1 || r.Mem.Peak.Live != 1<<63-1 {
		t.Errorf("total %d, live %d; want the largest number", r.Mem.Total, r.Mem.Peak.Live)
	}
}

func TestReportDonated(t *testing.T) {
	p := reportedPlan()
	p.Bufs[3].Storage, p.Bufs[3].Of = Alias, 0
	_ = p.assignMemory(context.Background()) // it fails only when the context ends
	if m := p.Report(1).Mem; m.Results != 0 || m.Total != 768 {
		t.Errorf("results %d, total %d; want 0 and 768: the result lies in the input's memory", m.Results, m.Total)
	}
}

func TestReportString(t *testing.T) {
	got := reportedPlan().Report(1).String()
	want := `memory per rank: 832 B (inputs 256 B, results 64 B, arena 512 B)
most in use: 832 B, 512 B of it temporaries, at instruction 1, all_sum (moe.graph:3)
largest buffers (share of what is in use at that instruction):
  buffer  bytes  share  what               type          line
  b0      256 B  30.8%  input x            f32[128@ep]   -
  b1      256 B  30.8%  temporary a        f32[64]{+ep}  moe.graph:2
  b2      256 B  30.8%  temporary all_sum  f32[64]       moe.graph:3
  b3      64 B   7.7%   result y           f32[16]       moe.graph:4
communication, bytes that one rank contributes:
  #  op       over  ranks  bytes  for      line
  0  all_sum  ep    2      256 B  add_any  moe.graph:3
total all_sum: 1, 256 B
`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if empty := (&Plan{Name: "f"}).Report(1).String(); !strings.Contains(empty, "communication: none") || strings.Contains(empty, "most in use") {
		t.Errorf("report of an empty plan:\n%s", empty)
	}
}
