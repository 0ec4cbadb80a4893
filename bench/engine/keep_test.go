package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// keptLayer is a layer of experts behind a dense product, of element type d, with
// weights that are multiplied as they are or, if transposed is set, by their transposes.
func keptLayer(d graph.DType, transposed bool) (*graph.Program, error) {
	const tokens, hidden, ffn, experts = 24, 160, 200, 4
	return graph.Trace("kept", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", d, tokens, hidden)
		in, out := []int{experts, hidden, ffn}, []int{experts, ffn, hidden}
		product := primitives.GroupedMatMul
		if transposed {
			in, out, product = out, in, primitives.GroupedMatMulTransposed
		}
		dense := t.Input("dense", d, hidden, hidden)
		gate, up, down := t.Input("gate", d, in...), t.Input("up", d, in...), t.Input("down", d, out...)
		x = primitives.Add(x, primitives.DotGeneral(x, dense, []int{1}, []int{1}, nil, nil))
		scores := primitives.ConvertElementType(primitives.Slice(x, []int{0, 0}, []int{tokens, experts}), graph.F32)
		weights, choice, _ := primitives.Route(primitives.RouteOp{TopK: 2, Renormalize: true}, scores, nil)
		r := primitives.Prepare(primitives.PrepareOp{Experts: experts}, choice)
		rows, rw := primitives.DispatchWeighted(r, x, weights)
		y := product(r, primitives.SwiGLU(product(r, rows, gate), product(r, rows, up)), down)
		y = primitives.Combine(r, primitives.ConvertElementType(primitives.Mul(primitives.ConvertElementType(y, graph.F32), primitives.ConvertElementType(primitives.BroadcastInDim(rw, y.Type.Shape, 0), graph.F32)), d))
		return []*graph.Value{primitives.ReduceSum(primitives.Square(primitives.ConvertElementType(y, graph.F32))), y}
	})
}

// keptHost returns arguments.
func keptHost(p *graph.Program, seed uint64) map[string]array.Array {
	rng := rand.New(rand.NewPCG(seed, 2))
	host := map[string]array.Array{}
	for _, v := range p.In {
		a := array.New(v.Type.With(graph.F32))
		for i := range array.Data[float32](a) {
			array.Data[float32](a)[i] = float32(rng.NormFloat64() / 16)
		}
		host[v.Name] = a.As(v.Type.DType)
	}
	return host
}

// packing reports whether the kernels in use copy weights of type d.
func packing(d graph.DType) bool {
	if d == graph.BF16 {
		return gemm.PanelBytes[array.Brain](64, 64, false) > 0
	}
	return gemm.PanelBytes[float32](64, 64, true) > 0
}

// Steps have the same bits with copies of weights that are kept as without, when
// weights stay, change, come back, are written to by the caller, and get the memory
// of others; on one rank and on several, with overlap, poison and checks for NaNs.
func TestKeptCopies(t *testing.T) {
	for _, d := range []graph.DType{graph.BF16, graph.F32} {
		for _, transposed := range []bool{false, true} {
			for _, c := range []struct {
				name string
				cfg  gomoe.Config
				grad bool
			}{
				{"1rank", gomoe.Config{}, false},
				{"grad", gomoe.Config{}, true},
				{"poison", gomoe.Config{Options: runtime.Options{Poison: true, Threads: 3}}, false},
				{"finite", gomoe.Config{Options: runtime.Options{Finite: true}}, true},
				{"2ranks", keptMesh(t, lowering.OverlapOff), true},
				{"overlap", keptMesh(t, lowering.OverlapCollectives), true},
				{"threads", gomoe.Config{Options: runtime.Options{Threads: 3}}, false},
			} {
				t.Run(fmt.Sprintf("%s/%v/%s", d, transposed, c.name), func(t *testing.T) {
					keptCopies(t, d, transposed, c.grad, c.cfg)
				})
			}
		}
	}
}

func keptMesh(t *testing.T, o lowering.Overlap) gomoe.Config {
	mesh, err := sharding.ParseMesh("ep=2")
	require.NoError(t, err)
	weights := sharding.Spec{Dims: [][]string{{"ep"}, nil, nil}}
	return gomoe.Config{Mesh: mesh, Overlap: o, Place: map[string]sharding.Spec{
		"x": {Dims: [][]string{{"ep"}, nil}}, "gate": weights, "up": weights, "down": weights}}
}

func keptCopies(t *testing.T, d graph.DType, transposed, grad bool, cfg gomoe.Config) {
	p, err := keptLayer(d, transposed)
	require.NoError(t, err)
	if grad {
		p, err = vjp.Grad(p)
		require.NoError(t, err)
	}
	one, two := keptHost(p, 1), keptHost(p, 2)
	plain := cfg
	plain.Keep = gomoe.Off
	run := func(cfg gomoe.Config, host map[string]array.Array) []array.Array {
		out, err := gomoe.Run(context.Background(), p, cfg, host)
		require.NoError(t, err)
		return out
	}
	want := [][]array.Array{run(plain, one), run(plain, two)}
	require.NotEqual(t, want[0][1].Bytes(), want[1][1].Bytes())
	j, err := gomoe.Open(t.Context(), p, cfg)
	require.NoError(t, err)
	defer j.Close()
	if kept := j.Plan().Report(1).Mem.Kept; (kept > 0) != (packing(d)) {
		t.Fatalf("%d bytes kept with %v", kept, packing(d))
	}
	put := func(host map[string]array.Array) map[string]*runtime.Array {
		in := map[string]*runtime.Array{}
		for name, a := range host {
			in[name], err = j.Put(name, a)
			require.NoError(t, err)
		}
		return in
	}
	step := func(what string, in map[string]*runtime.Array, want []array.Array) {
		t.Helper()
		out, err := j.Run(context.Background(), in)
		require.NoError(t, err)
		for i, o := range out {
			got, err := o.Get()
			require.NoError(t, err)
			if string(got.Bytes()) != string(want[i].Bytes()) {
				t.Fatalf("%s: result %d of %s has other bits than without copies that are kept", what, i, got.Type)
			}
		}
		j.Recycle(out...)
	}
	a, b := put(one), put(two)
	for i := range 4 {
		step(fmt.Sprint("the same, ", i), a, want[0])
	}
	for i := range 3 {
		step(fmt.Sprint("others, ", i), b, want[1])
	}
	step("the first again", a, want[0])
	step("in turns", b, want[1])
	step("in turns", a, want[0])
	step("twice", a, want[0])
	step("three times", a, want[0])
	// The memory of the first goes to new arrays with other elements.
	for _, x := range a {
		j.Recycle(x)
	}
	a = put(two)
	step("recycled", a, want[1])
	step("recycled, twice", a, want[1])
	// The caller writes to weights that have been copied.
	step("before they are written to", b, want[1])
	step("before they are written to", b, want[1])
	for name, x := range b {
		for i := range j.Local() {
			from, err := j.Put(name, one[name])
			require.NoError(t, err)
			copy(toy.Part(t, x, i).Bytes(), toy.Part(t, from, i).Bytes())
		}
	}
	step("written to", b, want[0])
	step("written to, twice", b, want[0])
	for i := range j.Local() {
		copy(toy.Part(t, b["down"], i).Bytes(), toy.Part(t, a["down"], i).Bytes())
		copy(toy.Part(t, b["gate"], i).Bytes(), toy.Part(t, a["gate"], i).Bytes())
		copy(toy.Part(t, b["up"], i).Bytes(), toy.Part(t, a["up"], i).Bytes())
		copy(toy.Part(t, b["dense"], i).Bytes(), toy.Part(t, a["dense"], i).Bytes())
		copy(toy.Part(t, b["x"], i).Bytes(), toy.Part(t, a["x"], i).Bytes())
	}
	step("written to again", b, want[1])
}

// Threads that share the columns of a product or its rows make the same bits of
// a copy that is kept as one thread without it.
func TestKeptCopiesOfThreads(t *testing.T) {
	for _, d := range []graph.DType{graph.BF16, graph.F32} {
		for i := range 6 {
			m, contract := [3]int{1, 40, 300}[i/2], i%2
			t.Run(fmt.Sprintf("%s/%d rows/dimension %d", d, m, contract), func(t *testing.T) {
				p, err := graph.Trace("f", func(t *graph.Tracer) []*graph.Value {
					w := []int{700, 1000}
					if contract == 1 {
						w = []int{1000, 700}
					}
					x := t.Input("x", d, m, 700)
					y := primitives.DotGeneral(x, t.Input("w", d, w...), []int{1}, []int{contract}, nil, nil)
					return []*graph.Value{primitives.Add(y, t.Input("y", d, m, 1000))}
				})
				require.NoError(t, err)
				host := keptHost(p, 7)
				want, err := gomoe.Run(context.Background(), p, gomoe.Config{Optimize: gomoe.Off, Options: runtime.Options{Threads: 1}}, host)
				require.NoError(t, err)
				j, err := gomoe.Open(t.Context(), p, gomoe.Config{Options: runtime.Options{Threads: 3}})
				require.NoError(t, err)
				keeps := packing(d) && (d == graph.BF16 || contract == 1)
				if kept := j.Plan().Report(1).Mem.Kept; (kept > 0) != keeps {
					t.Errorf("%d bytes kept, want some: %v\n%s", kept, keeps, j.Plan())
				}
				in := map[string]*runtime.Array{}
				for name, a := range host {
					in[name], err = j.Put(name, a)
					require.NoError(t, err)
				}
				for i := range 3 {
					out, err := j.Run(context.Background(), in)
					require.NoError(t, err)
					got, err := out[0].Get()
					require.NoError(t, err)
					if string(got.Bytes()) != string(want[0].Bytes()) {
						t.Errorf("step %d: other bits than without copies", i)
					}
				}
				require.NoError(t, j.Close())
			})
		}
	}
}

// Experts' products use the copies that are kept of all experts' matrices.
func TestKeptCopiesOfExperts(t *testing.T) {
	for _, d := range []graph.DType{graph.BF16, graph.F32} {
		p, err := graph.Trace("f", func(t *graph.Tracer) []*graph.Value {
			ids, rows := t.Input("ids", graph.I32, 800, 1), t.Input("rows", d, 800, 40)
			r := primitives.Prepare(primitives.PrepareOp{Experts: 2}, ids)
			return []*graph.Value{primitives.Combine(r, primitives.Square(primitives.GroupedMatMulTransposed(r, primitives.Dispatch(r, rows), t.Input("w", d, 2, 2000, 40))))}
		})
		require.NoError(t, err)
		host := keptHost(p, 5)
		for i := range array.Data[int32](host["ids"]) {
			array.Data[int32](host["ids"])[i] = int32(i % 2)
		}
		want, err := gomoe.Run(context.Background(), p, gomoe.Config{Optimize: gomoe.Off}, host)
		require.NoError(t, err)
		j, err := gomoe.Open(t.Context(), p, gomoe.Config{Options: runtime.Options{Threads: 3}})
		require.NoError(t, err)
		if kept := j.Plan().Report(1).Mem.Kept; (kept > 0) != packing(d) {
			t.Errorf("%d bytes kept with %v", kept, packing(d))
		}
		in := map[string]*runtime.Array{}
		for name, a := range host {
			in[name], err = j.Put(name, a)
			require.NoError(t, err)
		}
		for i := range 3 {
			out, err := j.Run(context.Background(), in)
			require.NoError(t, err)
			got, err := out[0].Get()
			require.NoError(t, err)
			if string(got.Bytes()) != string(want[0].Bytes()) {
				t.Errorf("%s, step %d: other bits than as written", d, i)
			}
		}
		require.NoError(t, j.Close())
	}
}

// A step with copies that are kept allocates nothing once they are made; RunInto changes what an array is, and no copy of what it was is used.
func TestKeptCopiesRunInto(t *testing.T) {
	for _, d := range []graph.DType{graph.BF16, graph.F32} {
		for _, threads := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/%d threads", d, threads), func(t *testing.T) {
				defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it empties the pools
				p, err := graph.Trace("f", func(t *graph.Tracer) []*graph.Value {
					x, w, b := t.Input("x", d, 60, 300), t.Input("w", d, 200, 300), t.Input("b", d, 60, 200)
					r := t.Input("r", d, 200, 300)
					return []*graph.Value{primitives.Add(w, r), primitives.Add(primitives.DotGeneral(x, w, []int{1}, []int{1}, nil, nil), b)}
				})
				require.NoError(t, err)
				j, err := gomoe.Open(t.Context(), p, gomoe.Config{Options: runtime.Options{Threads: threads}})
				require.NoError(t, err)
				defer j.Close()
				if kept := j.Plan().Report(1).Mem.Kept; (kept > 0) != packing(d) {
					t.Fatalf("%d bytes kept with %v", kept, packing(d))
				}
				host := keptHost(p, 3)
				in, out := map[string]*runtime.Array{}, make([]*runtime.Array, 2)
				for name, a := range host {
					in[name], err = j.Put(name, a)
					require.NoError(t, err)
				}
				step := func() {
					if err := j.RunInto(context.Background(), in, out); err != nil {
						t.Fatal(err)
					}
				}
				for range 3 {
					step()
				}
				if n := mallocsAlone(step); n != 0 {
					t.Errorf("%d allocations in a step, want none:\n%s", n, allocators(step))
				}
				in["w"], out[0] = out[0], nil
				for range 3 {
					step()
				}
				for i := range 3 { // what was the weights becomes other ones
					out[0] = in["w"]
					host["w"], err = in["w"].Get()
					require.NoError(t, err)
					want, err := gomoe.Run(context.Background(), p, gomoe.Config{Keep: gomoe.Off}, host)
					require.NoError(t, err)
					step()
					got, err := out[1].Get()
					require.NoError(t, err)
					if string(got.Bytes()) != string(want[1].Bytes()) {
						t.Errorf("step %d: other bits than without copies", i)
					}
				}
			})
		}
	}
}

// Weights that a result takes over are not copied for the next step, nor is anything
// with Keep or Optimize off; a copy that is kept is printed and counted.
func TestKeptCopiesInPlans(t *testing.T) {
	copied := int64(256 * 256 * 2)
	if !packing(graph.BF16) { // kernels that copy no weights of bf16 keep none
		copied = 0
	}
	p, err := graph.Trace("update", func(t *graph.Tracer) []*graph.Value {
		x, w := t.Input("x", graph.BF16, 32, 256), t.Input("w", graph.BF16, 256, 256)
		y := primitives.MatMul(x, w)
		return []*graph.Value{primitives.Add(w, primitives.DotGeneral(x, y, []int{0}, []int{0}, nil, nil)), primitives.MatMul(y, w)}
	})
	require.NoError(t, err)
	for _, c := range []struct {
		name string
		cfg  gomoe.Config
		want int64
	}{
		{"kept", gomoe.Config{}, copied},
		{"donated", gomoe.Config{Donate: map[string]int{"w": 0}}, 0},
		{"nokeep", gomoe.Config{Keep: gomoe.Off}, 0},
		{"asWritten", gomoe.Config{Optimize: gomoe.Off}, 0},
	} {
		plan, err := gomoe.Compile(t.Context(), p, c.cfg)
		require.NoError(t, err)
		m := plan.Report(1).Mem
		if m.Kept != c.want {
			t.Errorf("%s: %d bytes are kept, want %d", c.name, m.Kept, c.want)
		}
		if got := strings.Contains(plan.String(), "@kept u8[1,131072] = keep("); got != (c.want > 0) {
			t.Errorf("%s: the plan has a copy: %v", c.name, got)
		}
		if got := strings.Count(plan.String(), " = keep("); got > 1 {
			t.Errorf("%s: %d copies of one weight, want that both products share one:\n%s", c.name, got, plan)
		}
	}
}
