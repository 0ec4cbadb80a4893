package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/primitives"
	gomoeruntime "github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/vjp"
)

// workload is one task to measure.
type workload struct {
	name  string // of the rows, such as "moe/f32/forward/E=8"
	title string // description for the table
	peer  string // the algorithm's name in peers' programs
	// params are further parameters for peers.
	params map[string]any
	// flop is the number of floating-point operations of one step; 0 means that the rate is not
	// reported.
	flop float64
	// tokens is the number of tokens of a language model computed by a step; 0 means none.
	tokens int
	// tolerance is the largest accepted difference of a peer's result from gomoe's, relative to the
	// largest element of gomoe's. Beyond it, the peer's time does not count.
	tolerance float64
	// target is the largest ratio of gomoe's time to the fastest peer's that the project accepts.
	target  float64
	threads []int
	peers   []string
	// open makes the arrays and gomoe's side of the workload.
	open func(threads int) (*subject, error)
}

// subject is gomoe's side of a workload.
type subject struct {
	in, want map[string]array.Array
	step     func() error
	close    func() error
	absent   error        // the reason why step is nil: this gomoe cannot run the workload
	file     string       // that both sides read, "" for none
	resident func() int64 // bytes of its own held by gomoe's process in the last step; nil if unknown
}

// dump writes the subject's arrays for peers to a new folder.
func (s *subject) dump(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for prefix, arrays := range map[string]map[string]array.Array{"in_": s.in, "want_": s.want} {
		for name, a := range arrays {
			if a.Type.DType == graph.BF16 { // numpy has no bf16
				a = a.As(graph.F32)
			}
			if err := array.WriteFile(filepath.Join(dir, prefix+name+".npy"), a); err != nil {
				return fmt.Errorf("bench: %s: %w", name, err)
			}
		}
	}
	return nil
}

// ofProgram opens p on one rank with the given number of threads and runs it once. want names the
// results for peers to compare, in p's order; results named "" are not compared.
func ofProgram(p *graph.Program, threads int, in map[string]array.Array, want ...string) (*subject, error) {
	runtime.GOMAXPROCS(threads)
	job, err := gomoe.Open(context.Background(), p, gomoe.Config{})
	if err != nil {
		return nil, err
	}
	placed := map[string]*gomoeruntime.Array{}
	for _, v := range p.In {
		a, ok := in[v.Name]
		if !ok {
			return nil, fmt.Errorf("bench: %s: no array for input %s", p.Name, v.Name)
		}
		if placed[v.Name], err = job.Put(v.Name, a); err != nil {
			return nil, err
		}
	}
	s := &subject{in: in, want: map[string]array.Array{}, close: job.Close}
	s.step = func() error {
		_, err := job.Run(context.Background(), placed)
		return err
	}
	out, err := job.Run(context.Background(), placed)
	if err != nil {
		return nil, err
	}
	for i, name := range want {
		if name == "" {
			continue
		}
		if s.want[name], err = out[i].Get(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// normal returns an array of normally distributed numbers depending only on the seed.
func normal(seed uint64, std float64, d graph.DType, shape ...int) array.Array {
	rng := rand.New(rand.NewPCG(seed, 1))
	a := array.New(graph.Type{DType: graph.F32, Shape: shape})
	data := array.Data[float32](a)
	for i := range data {
		data[i] = float32(rng.NormFloat64() * std)
	}
	return a.As(d)
}

// fanIn is the standard deviation of weights preserving the magnitude in sums of n products.
func fanIn(n int) float64 { return 1 / math.Sqrt(float64(n)) }

// attentionWorkloads returns self-attention of one sequence, with and without gradients.
func attentionWorkloads() []workload {
	const seq, heads, columns = 2048, 8, 64
	var ws []workload
	for _, causal := range []bool{true, false} {
		name, share := "causal", 0.5
		if !causal {
			name, share = "full", 1
		}
		ws = append(ws, workload{
			name:  "attention/f32/" + name,
			title: fmt.Sprintf("attention forward and backward, %s, f32, T=%d, %d heads of %d", name, seq, heads, columns),
			peer:  "attention_f32", params: map[string]any{"causal": causal},
			// Two products forward, five backward.
			flop: 7 * 2 * seq * seq * heads * columns * share, tolerance: 1e-4, target: 1,
			threads: []int{2}, peers: []string{torchName, torchPlainName, jaxName},
			open: func(threads int) (*subject, error) {
				p, err := graph.Trace("attention", func(t *graph.Tracer) []*graph.Value {
					in := func(name string) *graph.Value { return t.Input(name, graph.F32, 1, seq, heads, columns) }
					q, k, v, ct := in("q"), in("k"), in("v"), in("ct")
					out, _ := primitives.Attention(q, k, v, primitives.AttentionParams{Full: !causal})
					return append([]*graph.Value{out}, vjp.Backward([]*graph.Value{out}, []*graph.Value{ct}, []*graph.Value{q, k, v})...)
				})
				if err != nil {
					return nil, err
				}
				in := map[string]array.Array{}
				for i, name := range []string{"q", "k", "v", "ct"} {
					in[name] = normal(uint64(i+1), 1, graph.F32, 1, seq, heads, columns)
				}
				return ofProgram(p, threads, in, "out", "grad_q", "grad_k", "grad_v")
			},
		})
	}
	return ws
}

// matmulWorkloads returns square matrix products: as programs of one equation and, with one thread,
// as calls of the kernel alone.
func matmulWorkloads() []workload {
	var ws []workload
	for _, d := range []graph.DType{graph.F32, graph.BF16} {
		for _, n := range []int{512, 1024, 2048} {
			w := workload{
				name:  fmt.Sprintf("matmul/%s/%d", d, n),
				title: fmt.Sprintf("matrix product, %s, n=%d", d, n),
				peer:  fmt.Sprintf("matmul_%s", d), params: map[string]any{"n": n},
				flop: 2 * float64(n) * float64(n) * float64(n), tolerance: 1e-5, target: 1 / 0.95,
				threads: []int{1, 2}, peers: []string{openblasName, onednnName, torchName, peakName},
				open: func(threads int) (*subject, error) { return openMatmul(d, n, threads) },
			}
			if d == graph.BF16 {
				w.tolerance, w.target, w.peers = 1e-2, 1/0.8, []string{onednnName, torchName, peakName}
			} else {
				alone := w
				alone.name, alone.title = fmt.Sprintf("kernel/%s/%d", d, n), fmt.Sprintf("matrix product, %s, n=%d, gomoe's kernel without a program", d, n)
				alone.threads, alone.open = []int{1}, func(threads int) (*subject, error) { return openKernel(n, threads) }
				ws = append(ws, alone)
			}
			ws = append(ws, w)
		}
	}
	return ws
}

// openMatmul opens c f32[n,n] = a[n,n] · b[n,n] with a and b of type d.
func openMatmul(d graph.DType, n, threads int) (*subject, error) {
	p, err := graph.Trace("matmul", func(t *graph.Tracer) []*graph.Value {
		return []*graph.Value{primitives.MatMulAs(graph.F32, t.Input("a", d, n, n), t.Input("b", d, n, n))}
	})
	if err != nil {
		return nil, err
	}
	in := map[string]array.Array{"a": normal(1, 1, d, n, n), "b": normal(2, fanIn(n), d, n, n)}
	return ofProgram(p, threads, in, "c")
}

// openKernel opens the product without a program: a step is one call of the kernel, starting no
// goroutines.
func openKernel(n, threads int) (*subject, error) {
	if threads != 1 {
		return nil, fmt.Errorf("the kernel alone runs on one thread, not on %d", threads)
	}
	a, b, c := normal(1, 1, graph.F32, n, n), normal(2, fanIn(n), graph.F32, n, n), array.New(graph.T(graph.F32, n, n))
	x, y, z := array.Data[float32](a), array.Data[float32](b), array.Data[float32](c)
	step := func() error {
		gemm.Multiply(n, n, n, x, n, 1, y, n, 1, z, n, false)
		return nil
	}
	return &subject{in: map[string]array.Array{"a": a, "b": b}, want: map[string]array.Array{"c": c}, step: step, close: func() error { return nil }}, step()
}

// moeLayer is a layer of T tokens of D columns and E SwiGLU experts of width F, K per token.
type moeLayer struct {
	Tokens, Hidden, Experts, TopK, FFN int
	DType                              graph.DType // of everything except the router, which is f32
}

// moeWorkloads returns the layer forward, and forward and backward.
func moeWorkloads() []workload {
	var ws []workload
	for _, d := range []graph.DType{graph.F32, graph.BF16} {
		for _, experts := range []int{8, 32, 128, 256} {
			l := moeLayer{Tokens: 1024, Hidden: 512, Experts: experts, TopK: 2, FFN: 1024, DType: d}
			for _, backward := range []bool{false, true} {
				if experts > 8 && d != graph.F32 || experts > 32 && backward {
					continue // needs too much memory
				}
				ws = append(ws, l.workload(backward))
			}
		}
	}
	return ws
}

func (l moeLayer) workload(backward bool) workload {
	what, products := "forward", 3
	if backward {
		what, products = "backward", 9
	}
	w := workload{
		name: fmt.Sprintf("moe/%s/%s/E=%d", l.DType, what, l.Experts),
		title: fmt.Sprintf("MoE layer, %s, %s, T=%d D=%d E=%d k=%d F=%d", map[bool]string{false: "forward", true: "forward and backward"}[backward],
			l.DType, l.Tokens, l.Hidden, l.Experts, l.TopK, l.FFN),
		peer:      fmt.Sprintf("moe_%s_%s", l.DType, what),
		params:    map[string]any{"experts": l.Experts, "top_k": l.TopK},
		flop:      2 * float64(l.Tokens*l.TopK*products*l.Hidden*l.FFN),
		tolerance: 2e-5,
		target:    0.7,
		threads:   []int{2},
		peers:     []string{torchName, torchPlainName, jaxName},
		open:      func(threads int) (*subject, error) { return l.open(backward, threads) },
	}
	if l.DType != graph.F32 {
		w.tolerance, w.peers = 3e-2, []string{torchName, jaxName}
	}
	return w
}

func (l moeLayer) open(backward bool, threads int) (*subject, error) {
	p, err := l.program()
	if err != nil {
		return nil, err
	}
	want := []string{"", "out"}
	if backward {
		// The output itself is not a result of a training step.
		if p, err = vjp.Grad(p); err != nil {
			return nil, err
		}
		want = []string{"loss", ""}
		for _, v := range p.In {
			want = append(want, "grad_"+v.Name)
		}
	}
	d, f, e := l.Hidden, l.FFN, l.Experts
	return ofProgram(p, threads, map[string]array.Array{
		"x":      normal(1, 1, l.DType, l.Tokens, d),
		"router": normal(2, fanIn(d), graph.F32, d, e),
		"gate":   normal(3, fanIn(d), l.DType, e, d, f),
		"up":     normal(4, fanIn(d), l.DType, e, d, f),
		"down":   normal(5, fanIn(f), l.DType, e, f, d),
	}, want...)
}

// program traces the layer. Its results are half the sum of squares of the output, and the output.
func (l moeLayer) program() (*graph.Program, error) {
	return graph.Trace("moe", func(t *graph.Tracer) []*graph.Value {
		d, f, e := l.Hidden, l.FFN, l.Experts
		x := t.Input("x", l.DType, l.Tokens, d)
		router := t.Input("router", graph.F32, d, e)
		gate, up, down := t.Input("gate", l.DType, e, d, f), t.Input("up", l.DType, e, d, f), t.Input("down", l.DType, e, f, d)
		weights, experts, _ := primitives.Route(primitives.RouteOp{TopK: l.TopK, Renormalize: true}, primitives.MatMul(primitives.ConvertElementType(x, graph.F32), router), nil)
		r := primitives.Prepare(primitives.PrepareOp{Experts: e}, experts)
		rows, rowWeights := primitives.DispatchWeighted(r, x, weights)
		y := primitives.GroupedMatMul(r, primitives.SwiGLU(primitives.GroupedMatMul(r, rows, gate), primitives.GroupedMatMul(r, rows, up)), down)
		y = primitives.Mul(y, primitives.ConvertElementType(primitives.BroadcastInDim(rowWeights, y.Type.Shape, 0), l.DType))
		out := primitives.Combine(r, y)
		return []*graph.Value{primitives.MulScalar(primitives.ReduceSum(primitives.Square(primitives.ConvertElementType(out, graph.F32))), 0.5), out}
	})
}

// scalarWorkloads returns workloads measuring the overhead of a step: a program of 20 equations
// over scalars.
func scalarWorkloads() []workload {
	return []workload{{
		name: "scalar/20", title: "a step of 20 equations over scalars, f32", peer: "scalar",
		tolerance: 1e-5, target: 1, threads: []int{1, 2}, peers: []string{jaxName, torchName},
		open: func(threads int) (*subject, error) {
			p, err := graph.Trace("scalar", func(t *graph.Tracer) []*graph.Value {
				x, y := t.Input("x", graph.F32), t.Input("y", graph.F32)
				for range 5 { // 4 equations each, which no pass removes
					x, y = primitives.Tanh(primitives.Add(primitives.Mul(x, y), x)), primitives.Sub(y, x)
				}
				return []*graph.Value{x.Named("x2"), y.Named("y2")}
			})
			if err != nil {
				return nil, err
			}
			in := map[string]array.Array{"x": array.Scalar(float32(0.3)), "y": array.Scalar(float32(0.7))}
			return ofProgram(p, threads, in, "x", "y")
		},
	}}
}
