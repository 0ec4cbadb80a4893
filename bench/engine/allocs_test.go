package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// trainingStep is a step of a small language model with one block: embedding,
// norms, attention with rotary positions, a dense network with bias and GELU, the
// mixture of experts with its losses, cross-entropy, their gradients, clipping and
// AdamW. It computes in element type d and keeps weights in f32. The weights and
// their moments are w0, m0, v0, w1, ...; the new ones are the results behind the
// loss.
func trainingStep(d graph.DType) (*graph.Program, error) {
	const b, s, width, heads, ffn, experts, k, vocab = 4, 128, 128, 4, 256, 4, 2, 128
	return graph.Trace("training_step", func(t *graph.Tracer) []*graph.Value {
		ids, targets := t.Input("ids", graph.I32, b, s), t.Input("targets", graph.I32, b, s)
		rate, number := t.Input("rate", graph.F32), t.Input("step", graph.I32)
		var ws []*graph.Value
		master := func(shape ...int) *graph.Value {
			w := t.Input(fmt.Sprintf("w%d", len(ws)), graph.F32, shape...)
			ws = append(ws, w)
			return w
		}
		weight := func(shape ...int) *graph.Value { return primitives.ConvertElementType(master(shape...), d) }
		x := primitives.Embedding(weight(vocab, width), ids)
		h := primitives.RMSNorm(x, weight(width), 1e-5)
		head := func() *graph.Value {
			return primitives.Reshape(primitives.MatMul(h, weight(width, width)), b, s, heads, width/heads)
		}
		q, key, v := primitives.RoPE(head(), nil, primitives.RoPEOp{}), primitives.RoPE(head(), nil, primitives.RoPEOp{}), head()
		y, _ := primitives.Attention(q, key, v, primitives.AttentionParams{})
		x = primitives.Add(x, primitives.MatMul(primitives.Reshape(y, b, s, width), weight(width, width)))
		dense := primitives.Add(primitives.MatMul(x, weight(width, ffn)), primitives.BroadcastInDim(weight(ffn), []int{b, s, ffn}, 2))
		x = primitives.Add(x, primitives.MatMul(primitives.GELUTanh(dense), weight(ffn, width)))
		x = primitives.LayerNorm(x, weight(width), weight(width), 1e-5)
		logits := primitives.MatMul(primitives.ConvertElementType(x, graph.F32), master(width, experts))
		weights, chosen, scores := primitives.Route(primitives.RouteOp{TopK: k, Renormalize: true}, logits, nil)
		r := primitives.Prepare(primitives.PrepareOp{Experts: experts}, chosen)
		rows, rw := primitives.DispatchWeighted(r, x, weights)
		y = primitives.GroupedMatMul(r, primitives.SwiGLU(primitives.GroupedMatMul(r, rows, weight(experts, width, ffn)), primitives.GroupedMatMul(r, rows, weight(experts, width, ffn))), weight(experts, ffn, width))
		y = primitives.ConvertElementType(primitives.Mul(primitives.ConvertElementType(y, graph.F32), primitives.BroadcastInDim(rw, y.Type.Shape, 0)), d)
		x = primitives.Add(x, primitives.Combine(r, y))
		out := primitives.MatMulAs(graph.F32, primitives.RMSNorm(x, weight(width), 1e-5), weight(width, vocab))
		loss := primitives.MulScalar(primitives.ReduceSum(primitives.CrossEntropy(out, targets)), 1.0/(b*s))
		loss = primitives.Add(loss, primitives.Add(primitives.MulScalar(primitives.LoadBalanceLoss(scores, r.Demand, k), 0.01), primitives.MulScalar(primitives.RouterZLoss(logits), 0.001)))
		gs := vjp.Gradients(loss, ws...)
		square := map[int]*graph.Value{} // by dimensions: those of experts lie elsewhere
		for _, g := range gs {
			n := primitives.ReduceSumUnordered(primitives.Square(g))
			if old := square[g.Rank()]; old != nil {
				n = primitives.Add(old, n)
			}
			square[g.Rank()] = n
		}
		norm := primitives.Sqrt(primitives.Add(primitives.Add(square[1], square[2]), square[3]))
		limit := primitives.Min(primitives.FullLike(norm, 1), primitives.Div(primitives.FullLike(norm, 1), norm))
		results := []*graph.Value{loss}
		for i, w := range ws {
			m, v := t.Input(fmt.Sprintf("m%d", i), graph.F32, w.Type.Shape...), t.Input(fmt.Sprintf("v%d", i), graph.F32, w.Type.Shape...)
			nw, nm, nv := primitives.AdamW(w, m, v, gs[i], rate, number, limit, primitives.AdamWOp{B1: 0.9, B2: 0.99, Eps: 1e-8, WeightDecay: 0.1})
			results = append(results, nw, nm, nv)
		}
		return results
	})
}

// stepper is a session of trainingStep and what a step is given.
type stepper struct {
	job *gomoe.Job
	in  map[string]*runtime.Array
	out []*runtime.Array
}

func newStepper(t testing.TB, d graph.DType, mesh string, donate, asWritten bool, threads int) *stepper {
	p, err := trainingStep(d)
	require.NoError(t, err)
	m, err := sharding.ParseMesh(mesh)
	require.NoError(t, err)
	cfg := gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{}, Donate: map[string]int{}, Optimize: gomoe.SwitchTo(!asWritten), Options: runtime.Options{Threads: threads}}
	for _, v := range p.In {
		if m.Ranks() > 1 && (v.Rank() == 3 || v.Name == "ids" || v.Name == "targets") {
			cfg.Place[v.Name] = sharding.Split("ep")
		}
		var i int
		if _, err := fmt.Sscanf(v.Name[1:], "%d", &i); err == nil && donate {
			cfg.Donate[v.Name] = 1 + 3*i + strings.Index("wmv", v.Name[:1])
		}
	}
	job, err := gomoe.Open(t.Context(), p, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { job.Close() })
	s := &stepper{job, map[string]*runtime.Array{}, make([]*runtime.Array, len(p.Out))}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, v := range p.In {
		a := array.New(v.Type)
		switch {
		case v.Name == "rate":
			a.Fill(1e-3)
		case v.Name == "step":
			a.Fill(1)
		case v.Type.DType == graph.I32:
			for i := range array.Data[int32](a) {
				array.Data[int32](a)[i] = int32(rng.IntN(128))
			}
		case v.Name[0] == 'w' && v.Rank() == 1:
			a.Fill(1)
		case v.Name[0] == 'w':
			for i := range array.Data[float32](a) {
				array.Data[float32](a)[i] = float32(rng.NormFloat64() / 11)
			}
		}
		s.in[v.Name], err = job.Put(v.Name, a)
		require.NoError(t, err)
	}
	return s
}

// step runs a step whose results take the place of those before, and of what was
// donated.
func (s *stepper) step(t testing.TB) {
	if err := s.job.RunInto(context.Background(), s.in, s.out); err != nil {
		t.Fatal(err)
	}
	for _, d := range s.job.Plan().Donated {
		s.in[s.job.Plan().In[d.In].Name] = s.out[d.Out]
	}
}

// mallocs returns how often f allocates on the processors that there are: the least
// of some times, since what is taken from pools, and the records in which goroutines
// wait, go from processor to processor until there are enough of them everywhere.
func mallocs(f func()) int {
	least := math.MaxInt
	for i := 0; i < 30 && least > 0; i++ {
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		f()
		goruntime.ReadMemStats(&after)
		least = min(least, int(after.Mallocs-before.Mallocs))
	}
	return least
}

// mallocsAlone is mallocs on one processor, and the mean of steps one after another.
func mallocsAlone(f func()) int {
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
	least := math.MaxInt
	for i := 0; i < 10 && least > 0; i++ {
		least = min(least, int(testing.AllocsPerRun(2, f)))
	}
	return least
}

// waitingRoom has more goroutines wait than ranks will, so that the records they wait
// in are there: Go allocates those, and keeps them.
func waitingRoom() {
	var all sync.WaitGroup
	gate := make(chan bool)
	for range 600 {
		all.Go(func() { <-gate })
	}
	for range 1000 {
		goruntime.Gosched()
	}
	close(gate)
	all.Wait()
}

// allocators says where f allocates. It misses some allocations of less than 16 bytes, which
// share memory and which Go profiles once for all of them.
func allocators(f func()) string {
	profile := func() map[[32]uintptr]int64 {
		goruntime.GC()
		goruntime.GC()
		records := make([]goruntime.MemProfileRecord, 20000)
		n, _ := goruntime.MemProfile(records, true)
		by := map[[32]uintptr]int64{}
		for _, r := range records[:n] {
			by[r.Stack0] += r.AllocObjects
		}
		return by
	}
	defer func(rate int) { goruntime.MemProfileRate = rate }(goruntime.MemProfileRate)
	goruntime.MemProfileRate = 1
	f()
	before := profile()
	const times = 6
	for range times {
		f()
	}
	by := map[string]int64{}
	for stack, n := range profile() {
		if n -= before[stack]; n < times { // pools that garbage collection has emptied
			continue
		}
		var names []string
		frames := goruntime.CallersFrames(slices.DeleteFunc(slices.Clone(stack[:]), func(pc uintptr) bool { return pc == 0 }))
		for more := true; more; {
			var f goruntime.Frame
			if f, more = frames.Next(); !strings.HasPrefix(f.Function, "runtime.") {
				names = append(names, fmt.Sprintf("%s:%d", f.Function[strings.LastIndex(f.Function, "/")+1:], f.Line))
			}
		}
		if strings.Contains(strings.Join(names, " "), "allocators.func1:") {
			continue // the profile's own
		}
		by[strings.Join(names[:min(4, len(names))], " < ")] += n / times
	}
	var b strings.Builder
	for _, at := range slices.Sorted(maps.Keys(by)) {
		fmt.Fprintf(&b, "%d: %s\n", by[at], at)
	}
	return b.String()
}

// After the first steps, a training step allocates nothing: on one rank and on two,
// of f32 and of bf16, as it is and as written, with kernels that are shared with
// helpers and that are not.
func TestStepAllocates(t *testing.T) {
	for _, d := range []graph.DType{graph.F32, graph.BF16} {
		for _, mesh := range []string{"", "ep=2"} {
			for _, asWritten := range []bool{false, true} {
				for _, threads := range []int{1, 2} {
					t.Run(fmt.Sprintf("%s/mesh=%s/aswritten=%v/threads=%d", d, mesh, asWritten, threads), func(t *testing.T) {
						defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it empties the pools
						s := newStepper(t, d, mesh, true, asWritten, threads)
						step := func() { s.step(t) }
						waitingRoom()
						for range 3 {
							step()
						}
						one, many := mallocsAlone(step), mallocs(step)
						if one != 0 || many != 0 {
							t.Errorf("%d allocations in a step on one processor, %d on all, want none:\n%s", one, many, allocators(step))
						}
					})
				}
			}
		}
	}
}

// Run allocates the slice that it returns and two pieces for each result, whose
// memory was recycled, and three for each large one, by which it is known when nobody
// refers to the result any more; nothing else, whether inputs are donated or not.
func TestRunAllocates(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for _, mesh := range []string{"", "ep=2"} {
		s := newStepper(t, graph.F32, mesh, false, false, 2)
		waitingRoom()
		step := func() {
			out, err := s.job.Run(context.Background(), s.in)
			if err != nil {
				t.Fatal(err)
			}
			s.job.Recycle(out...)
		}
		for range 3 {
			step()
		}
		want := 1 + 2*len(s.out)
		for _, p := range s.job.Plan().Out {
			if s.job.Plan().Bufs[p.Buf].Type.Bytes() >= 64<<10 {
				want += 3
			}
		}
		if one, many := mallocsAlone(step), mallocs(step); one != want || many != want {
			t.Errorf("mesh %q: %d allocations in Run on one processor, %d on all, want %d for %d results", mesh, one, many, want, len(s.out))
		}
	}
}

// The same with the kernels that are plain Go.
func TestStepAllocatesPortable(t *testing.T) {
	if os.Getenv("GOMOE_KERNELS") != "" {
		t.Skip("GOMOE_KERNELS is set, and this test sets it: run it without")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestStepAllocates$/.*/.*/aswritten=false/threads=2")
	cmd.Env = append(os.Environ(), "GOMOE_KERNELS=portable")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("%v:\n%s", err, &out)
	}
}
