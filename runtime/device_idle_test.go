package runtime

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// idle is a device and its queue, which do nothing.
type idle struct {
	tickets uint64
	allocs  int
	waits   []uint64 // as many as there is capacity for
}

func (d *idle) Name() string                      { return "idle" }
func (d *idle) Serves(*lowering.Plan, int) string { return "" }
func (d *idle) Alloc(n int) ([]byte, func(), error) {
	d.allocs++
	return array.New(graph.T(graph.U8, n)).Bytes(), func() {}, nil
}
func (d *idle) Adopt([]byte) (func(), error) { return func() {}, nil }
func (d *idle) Open(context.Context, *lowering.Plan, int) (Queue, error) {
	return d, nil
}
func (d *idle) Encode(int, []array.Array) error { return nil }
func (d *idle) Commit() (uint64, error)         { d.tickets++; return d.tickets, nil }
func (d *idle) Wait(ctx context.Context, ticket uint64) error {
	if len(d.waits) < cap(d.waits) {
		d.waits = append(d.waits, ticket)
	}
	return ctx.Err()
}
func (d *idle) Spans() []Span { return nil }
func (d *idle) Close() error  { return nil }

// single is a communicator of one rank.
type single struct{ collective.Communicator }

func (single) Rank() int  { return 0 }
func (single) Size() int  { return 1 }
func (single) Fail(error) {}

func (single) Group([]int) (collective.Group, error) { return nil, nil }

// The host waits for the segment that it needs, and not for a later one that it has handed
// over in the meantime.
func TestWaitsForTheSegment(t *testing.T) {
	d := &idle{waits: make([]uint64, 0, 10)}
	b := func(s lowering.Storage, at int64) lowering.Buffer {
		return lowering.Buffer{Type: graph.T(graph.F32, 16), Storage: s, Offset: at}
	}
	type instr = lowering.Instr
	host := func(*exec.Args) error { return nil }
	sum := func(context.Context, collective.Group, collective.Call, *exec.Args) error { return nil }
	p := &lowering.Plan{Name: "p", Target: "idle", Arena: 192, Bufs: []lowering.Buffer{
		b(lowering.Input, 0), b(lowering.Temp, 0), b(lowering.Temp, 64), b(lowering.Temp, 128), b(lowering.Output, 0), b(lowering.Output, 0)},
		In:  []lowering.Port{{Name: "x", Type: graph.T(graph.F32, 16), Buf: 0}},
		Out: []lowering.Port{{Name: "y", Type: graph.T(graph.F32, 16), Buf: 4}, {Name: "z", Type: graph.T(graph.F32, 16), Buf: 5}},
		Instrs: []instr{
			{Op: named("d"), In: []int{0}, Out: []int{1}, Zones: -1, On: true},
			{Op: named("c"), In: []int{0}, Out: []int{3}, Zones: -1, Collective: lowering.Collective{Exchange: sum}},
			{Op: named("d"), In: []int{0}, Out: []int{2}, Zones: -1, On: true},
			{Op: named("c"), In: []int{0}, Out: []int{3}, Zones: -1, Collective: lowering.Collective{Exchange: sum}},
			{Op: named("h"), In: []int{1}, Out: []int{4}, Zones: -1, Host: lowering.Host{Kernel: host}},
			{Op: named("h"), In: []int{2}, Out: []int{5}, Zones: -1, Host: lowering.Host{Kernel: host}},
		}}
	s, err := Open(p, []single{{}}, Options{Device: d})
	require.NoError(t, err)
	defer s.Close()
	x, err := s.Put("x", array.New(p.In[0].Type))
	require.NoError(t, err)
	for range 2 {
		_, err := s.Run(t.Context(), map[string]*Array{"x": x})
		require.NoError(t, err)
	}
	require.Equal(t, []uint64{1, 2, 3, 4}, d.waits)
}

// After the first steps the runtime allocates nothing for a device: neither for
// instructions and waits, nor for results that are recycled.
func TestDeviceStepsAllocateNothing(t *testing.T) {
	d := &idle{}
	b := func(s lowering.Storage) lowering.Buffer {
		return lowering.Buffer{Type: graph.T(graph.F32, 16), Storage: s}
	}
	p := &lowering.Plan{Name: "p", Target: "idle", Arena: 64, Bufs: []lowering.Buffer{b(lowering.Input), b(lowering.Temp), b(lowering.Output), b(lowering.Temp)},
		In:  []lowering.Port{{Name: "x", Type: graph.T(graph.F32, 16), Buf: 0}},
		Out: []lowering.Port{{Name: "y", Type: graph.T(graph.F32, 16), Buf: 2}}}
	host := func(a *exec.Args) error { return nil }
	for range 10 {
		p.Instrs = append(p.Instrs,
			lowering.Instr{Op: named("d"), In: []int{0}, Out: []int{1}, Zones: -1, On: true},
			lowering.Instr{Op: named("h"), In: []int{1}, Out: []int{3}, Zones: -1, Host: lowering.Host{Kernel: host}},
			lowering.Instr{Op: named("d"), In: []int{3}, Out: []int{2}, Zones: -1, On: true})
	}
	require.Equal(t, 11, p.Schedule().Waits())
	s, err := Open(p, []single{{}}, Options{Device: d})
	require.NoError(t, err)
	defer s.Close()
	// One array is the session's, and the other is one that the device does not see.
	own, err := s.Put("x", array.New(p.In[0].Type))
	require.NoError(t, err)
	other, err := Put(array.New(p.In[0].Type), sharding.Mesh{}, p.In[0].Spec, []int{0})
	require.NoError(t, err)
	for _, x := range []*Array{own, other} {
		in, out := map[string]*Array{"x": x}, make([]*Array, 1)
		one := func() {
			if err := s.RunInto(context.Background(), in, out); err != nil {
				t.Fatal(err)
			}
		}
		one()
		before := d.allocs
		if n := testing.AllocsPerRun(50, one); n > 0 || d.allocs > before {
			t.Errorf("%v allocations per step, and %d of the device's memory in all", n, d.allocs-before)
		}
	}
}

type named string

func (n named) String() string { return string(n) }
