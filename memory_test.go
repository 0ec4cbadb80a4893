package gomoe_test

import (
	"context"
	goruntime "runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/vjp"
)

// allocated returns the bytes that f allocates on the heap. What is allocated
// and not freed is the heap's peak, since nothing is collected meanwhile.
func allocated(f func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	f()
	goruntime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// A session of the layer allocates what its plan's report says, within 10%, and
// a step after the first next to nothing if its results are recycled.
func TestMemoryOfLayer(t *testing.T) {
	p, err := moeLayer()
	require.NoError(t, err)
	p, err = vjp.Grad(p)
	require.NoError(t, err)
	plan, err := gomoe.Compile(p, gomoe.Config{})
	require.NoError(t, err)
	want := plan.Report().Mem.Total
	comms, err := jaccl.Local(1, jaccl.Options{})
	require.NoError(t, err)
	host := map[string]array.Array{}
	for _, v := range p.In {
		a := array.New(v.Type)
		for i := range array.Data[float32](a) {
			array.Data[float32](a)[i] = float32(i%31-15) / 64
		}
		host[v.Name] = a
	}
	var s *runtime.Session
	in := map[string]*runtime.Array{}
	step := func() {
		out, err := s.Run(context.Background(), in)
		require.NoError(t, err)
		s.Recycle(out...)
	}
	got := allocated(func() {
		s, err = runtime.Open(plan, comms, runtime.Options{})
		require.NoError(t, err)
		for name, a := range host {
			in[name], err = s.Put(name, a)
			require.NoError(t, err)
		}
		step()
	})
	defer s.Close()
	t.Logf("%d bytes allocated, %d planned", got, want)
	if got < want*9/10 || got > want*11/10 {
		t.Errorf("%d bytes allocated by a session and its first step, want %d within 10%%", got, want)
	}
	step() // scratch grows to what was asked for
	more := want
	for range 6 { // the least, since now and then a thread makes itself a workspace for products
		more = min(more, allocated(step))
	}
	t.Logf("%d bytes allocated by a later step", more)
	if more > want/1000 {
		t.Errorf("%d bytes allocated by a step, want at most a thousandth of %d", more, want)
	}
}

// Arrays that are recycled are spent, give their memory to later results, and
// are not given away twice.
func TestRecycle(t *testing.T) {
	p, err := scalarProgram()
	require.NoError(t, err)
	j, err := gomoe.Open(p, gomoe.Config{})
	require.NoError(t, err)
	defer j.Close()
	in := map[string]*runtime.Array{}
	for _, v := range p.In {
		a := array.New(v.Type)
		in[v.Name], err = j.Put(v.Name, a)
		require.NoError(t, err)
	}
	run := func() *runtime.Array {
		out, err := j.Run(context.Background(), in)
		require.NoError(t, err)
		return out[0]
	}
	first := run()
	at := &first.Part(0).Bytes()[0]
	j.Recycle(first, first)
	_, err = first.Get()
	require.ErrorContains(t, err, "recycled")
	second, third := run(), run()
	if &second.Part(0).Bytes()[0] != at {
		t.Error("the next result has other memory than the recycled one")
	}
	if &third.Part(0).Bytes()[0] == at {
		t.Error("two results have one memory")
	}
}

// Passes over the layer's plan leave fewer instructions and a smaller arena.
func TestPlanPasses(t *testing.T) {
	p, err := moeLayer()
	require.NoError(t, err)
	p, err = vjp.Grad(p)
	require.NoError(t, err)
	with, err := gomoe.Compile(p, gomoe.Config{})
	require.NoError(t, err)
	without, err := gomoe.Compile(p, gomoe.Config{NoOptimize: true})
	require.NoError(t, err)
	t.Logf("%d instructions become %d, %d bytes of arena %d", len(without.Instrs), len(with.Instrs), without.Arena, with.Arena)
	if len(with.Instrs) >= len(without.Instrs)*9/10 || with.Arena >= without.Arena {
		t.Errorf("%d instructions become %d, %d bytes of arena %d; want fewer and less", len(without.Instrs), len(with.Instrs), without.Arena, with.Arena)
	}
}
