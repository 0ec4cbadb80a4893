package engine_test

import (
	"context"
	goruntime "runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/vjp"
)

// allocated returns the bytes that f allocates on the heap. What is allocated
// and not freed is the heap's peak, since nothing is collected meanwhile.
func allocated(f func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var before, after goruntime.MemStats
	goruntime.GC() // and again, so that there are no workspaces of other tests
	goruntime.GC()
	goruntime.ReadMemStats(&before)
	f()
	goruntime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// retained returns the bytes on the heap that f leaves behind, with the workspaces of
// products, and without what they grew out of.
func retained(f func() (alive any)) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	// A thread that moves to another processor may not find the workspace that it left.
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
	var before, after goruntime.MemStats
	goruntime.GC()
	goruntime.GC()
	goruntime.ReadMemStats(&before)
	alive := f()
	goruntime.GC()
	goruntime.ReadMemStats(&after)
	goruntime.KeepAlive(alive)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// steady is allocated with the workspaces that are there.
func steady(f func()) int64 {
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
	plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{})
	require.NoError(t, err)
	want := plan.Report(goruntime.GOMAXPROCS(0)).Mem.Total
	comms, err := engine.Local(1, jaccl.Options{})
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
		more = min(more, steady(step))
	}
	t.Logf("%d bytes allocated by a later step", more)
	if more > want/1000 {
		t.Errorf("%d bytes allocated by a step, want at most a thousandth of %d", more, want)
	}
}

// Sessions of programs whose kernels take much memory beside their arguments and
// results have what their reports say, within 10%.
func TestMemoryOfWorkspaces(t *testing.T) {
	half := func(t *graph.Tracer, name string, shape ...int) *graph.Value {
		return t.Input(name, graph.BF16, shape...)
	}
	single := func(t *graph.Tracer, name string, shape ...int) *graph.Value {
		return t.Input(name, graph.F32, shape...)
	}
	attention := func(in func(t *graph.Tracer, name string, shape ...int) *graph.Value) func(t *graph.Tracer) []*graph.Value {
		return func(t *graph.Tracer) []*graph.Value {
			out, _ := primitives.Attention(in(t, "q", 1, 1536, 2, 64), in(t, "k", 1, 1536, 2, 64), in(t, "v", 1, 1536, 2, 64), primitives.AttentionParams{})
			return []*graph.Value{primitives.ReduceSum(primitives.ConvertElementType(out, graph.F32))}
		}
	}
	var all, workspaces int64
	for _, c := range []struct {
		name string
		grad bool
		fn   func(t *graph.Tracer) []*graph.Value
	}{
		{"attention", false, attention(single)},
		{"attention and gradient", true, attention(single)},
		{"attention of bf16", false, attention(half)},
		{"attention of bf16 and gradient", true, attention(half)},
		{"product of bf16", false, func(t *graph.Tracer) []*graph.Value {
			return []*graph.Value{primitives.MatMul(half(t, "x", 300, 1100), half(t, "w", 1100, 700))}
		}},
		{"product of f32, transposed", false, func(t *graph.Tracer) []*graph.Value {
			return []*graph.Value{primitives.DotGeneral(single(t, "x", 300, 600), single(t, "w", 400, 600), []int{1}, []int{1}, nil, nil)}
		}},
		{"product of two types", false, func(t *graph.Tracer) []*graph.Value {
			return []*graph.Value{primitives.MatMulAs(graph.F32, single(t, "x", 300, 600), half(t, "w", 600, 400))}
		}},
		{"softmax of bf16", false, func(t *graph.Tracer) []*graph.Value {
			return []*graph.Value{primitives.Softmax(half(t, "x", 500, 500), 1)}
		}},
		{"sum of bf16", false, func(t *graph.Tracer) []*graph.Value {
			return []*graph.Value{primitives.ReduceSum(half(t, "x", 500, 500))}
		}},
		{"layer of experts of bf16", true, func(t *graph.Tracer) []*graph.Value {
			x := half(t, "x", 256, 256)
			weights, experts, _ := primitives.Route(primitives.RouteOp{TopK: 2}, primitives.MatMulAs(graph.F32, x, half(t, "router", 256, 2)), nil)
			r := primitives.Prepare(primitives.PrepareOp{Experts: 2}, experts)
			rows, rw := primitives.DispatchWeighted(r, x, weights)
			y := primitives.GroupedMatMul(r, primitives.SwiGLU(primitives.GroupedMatMul(r, rows, half(t, "gate", 2, 256, 512)), primitives.GroupedMatMul(r, rows, half(t, "up", 2, 256, 512))), half(t, "down", 2, 512, 256))
			y = primitives.Combine(r, primitives.ConvertElementType(primitives.Mul(primitives.ConvertElementType(y, graph.F32), primitives.ConvertElementType(primitives.BroadcastInDim(rw, y.Type.Shape, 0), graph.F32)), graph.BF16))
			return []*graph.Value{primitives.ReduceSum(primitives.Square(primitives.ConvertElementType(y, graph.F32)))}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := graph.Trace("f", c.fn)
			require.NoError(t, err)
			if c.grad {
				p, err = vjp.Grad(p)
				require.NoError(t, err)
			}
			cfg := gomoe.Config{}
			plan, err := gomoe.Compile(t.Context(), p, cfg)
			require.NoError(t, err)
			mem := plan.Report(1).Mem
			comms, err := engine.Local(1, jaccl.Options{})
			require.NoError(t, err)
			host := keptHost(p, 3)
			got := retained(func() any {
				s, err := runtime.Open(plan, comms, runtime.Options{Threads: 1})
				require.NoError(t, err)
				in := map[string]*runtime.Array{}
				for name, a := range host {
					in[name], err = s.Put(name, a)
					require.NoError(t, err)
				}
				out, err := s.Run(context.Background(), in)
				require.NoError(t, err)
				s.Close()
				return []any{s, in, out, host} // host was there before
			})
			t.Logf("%d bytes on the heap, %d planned, %d of them workspace", got, mem.Total, mem.Workspace)
			all, workspaces = all+mem.Total, workspaces+mem.Workspace
			if got < mem.Total*9/10 || got > mem.Total*11/10 {
				t.Errorf("%d bytes on the heap after a session's first step, want %d within 10%%", got, mem.Total)
			}
		})
	}
	if workspaces < all/4 {
		t.Errorf("%d bytes of workspaces of %d, want a quarter or more: what is not counted must show", workspaces, all)
	}
}

// Arrays that are recycled are spent, give their memory to later results, and
// are not given away twice.
func TestRecycle(t *testing.T) {
	p, err := scalarProgram()
	require.NoError(t, err)
	j, err := gomoe.Open(t.Context(), p, gomoe.Config{})
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
	at := &toy.Part(t, first, 0).Bytes()[0]
	j.Recycle(first, first)
	_, err = first.Get()
	require.ErrorContains(t, err, "recycled")
	second, third := run(), run()
	if &toy.Part(t, second, 0).Bytes()[0] != at {
		t.Error("the next result has other memory than the recycled one")
	}
	if &toy.Part(t, third, 0).Bytes()[0] == at {
		t.Error("two results have one memory")
	}
}

// Passes over the layer's plan leave fewer instructions and a smaller arena.
func TestPlanPasses(t *testing.T) {
	p, err := moeLayer()
	require.NoError(t, err)
	p, err = vjp.Grad(p)
	require.NoError(t, err)
	with, err := gomoe.Compile(t.Context(), p, gomoe.Config{})
	require.NoError(t, err)
	without, err := gomoe.Compile(t.Context(), p, gomoe.Config{Optimize: gomoe.Off})
	require.NoError(t, err)
	t.Logf("%d instructions become %d, %d bytes of arena %d", len(without.Instrs), len(with.Instrs), without.Arena, with.Arena)
	if len(with.Instrs) >= len(without.Instrs)*9/10 || with.Arena >= without.Arena {
		t.Errorf("%d instructions become %d, %d bytes of arena %d; want fewer and less", len(without.Instrs), len(with.Instrs), without.Arena, with.Arena)
	}
}
