package engine_test

import (
	"context"
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/blocks"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/internal/testing/numbers"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/quant"
	"github.com/gomoe/gomoe/runtime"
)

// A prompt of layers of OLMoE-1B-7B's shapes.
const (
	promptTokens, promptWidth, promptHeads             = 512, 2048, 16
	promptExperts, promptTopK, promptFFN, promptLayers = 64, 8, 1024, 2
)

// promptProgram is a step that computes a prompt's layers, with weights of type d. It returns the last row, the caches, and
// how many rows the experts of each layer got.
func promptProgram(d graph.DType) (p *graph.Program, donated map[string]int, err error) {
	donated = map[string]int{}
	p, err = graph.Trace("prompt", func(t *graph.Tracer) []*graph.Value {
		o := nn.Options{DType: graph.F32, Stored: func(p nn.Param) (nn.Form, error) {
			if p.Type.Rank() > 1 && p.Type.Shape[p.Type.Rank()-2] != promptExperts {
				return nn.Form{DType: d}, nil
			}
			return nn.Form{DType: max(p.Type.DType, graph.F32)}, nil
		}}
		if d == graph.BF16 {
			o = nn.Options{DType: d}
		}
		s := nn.New(t, o)
		st := &nn.Step{Start: t.Input("start", graph.I32, 1), Room: promptTokens}
		x := t.Input("x", o.DType, 1, promptTokens, promptWidth)
		for l := range promptLayers {
			s := s.In(string(rune('a'+l)), "")
			norm := nn.RMSNorm{Epsilon: 1e-5}
			heads := nn.Attention{Heads: promptHeads, KVHeads: promptHeads, Width: promptWidth / promptHeads, Norm: nn.Together, Epsilon: 1e-5}
			x = primitives.Add(x, heads.Apply(s.In("attention", ""), norm.Apply(s.In("norm1", ""), x), st))
			experts := nn.MoE{Experts: promptExperts, Width: promptFFN, Route: primitives.RouteOp{TopK: promptTopK}}
			y, _ := experts.Apply(s.In("experts", ""), norm.Apply(s.In("norm2", ""), x))
			x = primitives.Add(x, y)
		}
		out := []*graph.Value{primitives.SliceInDim(x, 1, promptTokens-1, promptTokens)}
		for _, r := range s.Routed() {
			out = append(out, r.Counts)
		}
		for _, c := range st.States() {
			donated[c.In.Name] = len(out)
			out = append(out, c.Out)
		}
		return out
	})
	return p, donated, err
}

// promptWeights returns random elements of type t, as matrices have them: of a million, again and again.
func promptWeights(r *rand.Rand, t graph.Type) array.Array {
	a := array.New(t)
	n := min(t.Len(), 1<<20)
	x := numbers.Normals[float32](r, n)
	for i := range x {
		if x[i] /= 45; t.Rank() == 1 {
			x[i] = 1
		}
	}
	pool := array.New(graph.T(t.DType, n))
	switch {
	case t.DType.IsBlock():
		if err := quant.Quantize(pool.Bytes(), t.DType, x); err != nil {
			panic(err)
		}
	case t.DType == graph.BF16:
		array.NarrowBrain(array.Data[array.Brain](pool), x)
	default:
		copy(array.Data[float32](pool), x)
	}
	for rest := a.Bytes(); len(rest) > 0; {
		rest = rest[copy(rest, pool.Bytes()):]
	}
	return a
}

// promptProduct is a product of a prompt: m rows of k elements times a matrix w, n rows of k elements.
type promptProduct struct {
	m, n, k int
	w       []byte
}

// promptProducts returns the products with weights of type d, given their memory and the rows of the experts.
func promptProducts(d graph.DType, weights map[string]array.Array, names []string, counts [][]int32) (all []promptProduct) {
	layer := map[byte]int{}
	for _, name := range names {
		w := weights[name]
		shape := w.Type.Shape
		if w.Type.DType != d {
			continue
		}
		if _, ok := layer[name[0]]; !ok {
			layer[name[0]] = len(layer)
		}
		switch len(shape) {
		case 2:
			if shape[0] != promptExperts {
				all = append(all, promptProduct{promptTokens, shape[0], shape[1], w.Bytes()})
			}
		case 3:
			for e, m := range counts[layer[name[0]]] {
				all = append(all, promptProduct{int(m), shape[1], shape[2], w.Slab(e)})
			}
		}
	}
	return all
}

// promptAlone returns a function that makes all products, on so many threads: each has a part of the columns of all, and
// does not wait for the others before the end. Rows are rounded beforehand, and results overwrite each other.
func promptAlone(r *rand.Rand, d graph.DType, threads int, all []promptProduct) func() {
	rows := map[int]array.Array{} // by k
	for _, p := range all {
		if _, ok := rows[p.k]; ok {
			continue
		}
		x := array.New(graph.T(graph.F32, promptTokens, p.k))
		copy(array.Data[float32](x), numbers.Normals[float32](r, x.Type.Len()))
		if d == graph.BF16 {
			rows[p.k] = array.New(x.Type.With(d))
			array.NarrowBrain(array.Data[array.Brain](rows[p.k]), array.Data[float32](x))
			continue
		}
		rows[p.k] = array.New(graph.T(graph.U8, promptTokens*blocks.RowBytes(d, p.k)))
		blocks.Round(d, p.k, rows[p.k].Bytes(), array.Data[float32](x))
	}
	results := make([]array.Array, threads)
	for t := range results {
		results[t] = array.New(graph.T(graph.F32, promptTokens*promptWidth))
	}
	return func() {
		var done sync.WaitGroup
		for t := range threads {
			done.Go(func() {
				for i, p := range all {
					from, to := p.n*t/threads, p.n*(t+1)/threads
					cut := func(p promptProduct) []byte {
						row := len(p.w) / p.n
						return p.w[p.n*t/threads*row : p.n*(t+1)/threads*row]
					}
					w, next := cut(p), []byte(nil)
					if i+1 < len(all) {
						next = cut(all[i+1])
					}
					if d != graph.BF16 {
						blocks.Multiply(d, p.m, to-from, p.k, rows[p.k].Bytes(), w, next, array.Data[float32](results[t]), to-from, 1)
						continue
					}
					b := gemm.Matrix[array.Brain]{X: array.Data[array.Brain](array.Over(graph.T(d, to-from, p.k), w)), Row: 1, Col: p.k}
					y := array.Data[array.Brain](array.Over(graph.T(d, promptTokens*promptWidth), results[t].Bytes()[:2*promptTokens*promptWidth]))
					gemm.MultiplyPanels(nil, p.m, to-from, p.k, array.Data[array.Brain](rows[p.k]), p.k, 1, b, y, to-from, false)
				}
			})
		}
		done.Wait()
	}
}

// BenchmarkPrompt measures two layers of a prompt of 512 tokens of OLMoE's shapes, and the products of these alone: those with
// weights of the type, with the rows that each expert got, one after another. Both take turns. It reports medians in
// milliseconds, and the products' part of the prompt, in percent, of the medians and of the fastest runs.
func BenchmarkPrompt(b *testing.B) {
	for _, d := range []graph.DType{graph.Q4_K, graph.Q8_0, graph.BF16} {
		b.Run(d.String(), func(b *testing.B) {
			threads := goruntime.GOMAXPROCS(0)
			program, donated, err := promptProgram(d)
			require.NoError(b, err)
			job, err := gomoe.Open(b.Context(), program, gomoe.Config{Donate: donated, Keep: gomoe.Off, Options: runtime.Options{Threads: threads}})
			require.NoError(b, err)
			defer job.Close()
			random := rand.New(rand.NewPCG(1, 1))
			weights, in := map[string]array.Array{}, map[string]*runtime.Array{}
			var names []string
			for _, v := range program.In {
				a := array.New(v.Type)
				if _, cache := donated[v.Name]; !cache && v.Name != "start" {
					a = promptWeights(random, v.Type)
				}
				in[v.Name], err = job.Put(v.Name, a)
				require.NoError(b, err)
				if v.Name != "x" && a.Type.Rank() > 1 && donated[v.Name] == 0 {
					parts, err := in[v.Name].Parts()
					require.NoError(b, err)
					weights[v.Name] = parts[0].Array
					names = append(names, v.Name)
				}
			}
			s := stepper{job, in, make([]*runtime.Array, len(job.Plan().Out))}
			s.step(b)
			var counts [][]int32
			for l := range promptLayers {
				a, err := job.Get(context.Background(), s.out[1+l])
				require.NoError(b, err)
				counts = append(counts, slices.Clone(array.Data[int32](a)))
			}
			products := promptProducts(d, weights, names, counts)
			alone := promptAlone(random, d, threads, products)
			var whole, part []float64
			took := func(f func()) float64 {
				began := time.Now()
				f()
				return time.Since(began).Seconds() * 1e3
			}
			for b.Loop() {
				whole = append(whole, took(func() { s.step(b) }))
				part = append(part, took(alone))
			}
			total := 0
			for _, p := range products {
				total += p.m * p.n * p.k
			}
			b.ReportMetric(middle(whole), "prompt-ms")
			b.ReportMetric(middle(part), "products-ms")
			b.ReportMetric(float64(total)/middle(part)/1e6, "Gproduct/s")
			b.ReportMetric(100*middle(part)/middle(whole), "%")
			b.ReportMetric(100*slices.Min(part)/slices.Min(whole), "%-fastest")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// middle returns the median.
func middle(x []float64) float64 { return slices.Sorted(slices.Values(x))[len(x)/2] }
