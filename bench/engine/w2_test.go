package engine_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
)

// The layer of BenchmarkDecode: one of a model with many small experts.
const (
	decodeHidden, decodeExperts, decodeTopK, decodeFFN = 2048, 64, 6, 1024
)

// decodeLayer is a SwiGLU layer with weights of type d as GGUF files have them,
// [experts, out, in]. Its second result is the experts of every token.
func decodeLayer(d graph.DType, tokens int) (*graph.Program, error) {
	return graph.Trace("decode", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", graph.F32, tokens, decodeHidden)
		wr := t.Input("router", graph.F32, decodeHidden, decodeExperts)
		gate := t.Input("gate", d, decodeExperts, decodeFFN, decodeHidden)
		up := t.Input("up", d, decodeExperts, decodeFFN, decodeHidden)
		down := t.Input("down", d, decodeExperts, decodeHidden, decodeFFN)
		weights, experts, _ := primitives.Route(primitives.RouteOp{TopK: decodeTopK, Renormalize: true}, primitives.MatMul(x, wr), nil)
		r := primitives.Prepare(primitives.PrepareOp{Experts: decodeExperts}, experts)
		rows, rw := primitives.DispatchWeighted(r, x, weights)
		y := primitives.GroupedMatMulTransposed(r, primitives.SwiGLU(primitives.GroupedMatMulTransposed(r, rows, gate), primitives.GroupedMatMulTransposed(r, rows, up)), down)
		return []*graph.Value{primitives.Combine(r, primitives.Mul(y, primitives.BroadcastInDim(rw, y.Type.Shape, 0))), experts}
	})
}

// BenchmarkDecode runs the layer on new tokens every time. It reports what the
// fastest step was, in bytes of the weights of the experts that the tokens chose, and
// how many times longer that took than to read as many bytes, with as many threads,
// at best in the same run.
func BenchmarkDecode(b *testing.B) {
	for _, d := range []graph.DType{graph.Q4_K, graph.Q8_0, graph.Q6_K, graph.MXFP4, graph.F32} {
		b.Run(d.String(), func(b *testing.B) {
			in := decodeWeights(d)
			for _, tokens := range []int{1, 8} {
				b.Run(fmt.Sprintf("T=%d", tokens), func(b *testing.B) { benchmarkDecode(b, d, tokens, in) })
			}
		})
	}
}

func decodeWeights(d graph.DType) map[string]array.Array {
	r := rand.New(rand.NewPCG(1, 2))
	in := map[string]array.Array{}
	for name, t := range map[string]graph.Type{
		"router": graph.T(graph.F32, decodeHidden, decodeExperts),
		"gate":   graph.T(d, decodeExperts, decodeFFN, decodeHidden),
		"up":     graph.T(d, decodeExperts, decodeFFN, decodeHidden),
		"down":   graph.T(d, decodeExperts, decodeHidden, decodeFFN),
	} {
		// Some blocks again and again: to make all would take long.
		some := array.New(graph.T(t.DType, 64<<10))
		x := make([]float64, some.Type.Len())
		for i := range x {
			x[i] = r.NormFloat64() / 32
		}
		if err := some.SetFloat64s(x); err != nil {
			panic(err) // as many as there are
		}
		a := array.New(t)
		for at := 0; at < len(a.Bytes()); {
			at += copy(a.Bytes()[at:], some.Bytes())
		}
		in[name] = a
	}
	return in
}

func benchmarkDecode(b *testing.B, d graph.DType, tokens int, weights map[string]array.Array) {
	p, err := decodeLayer(d, tokens)
	require.NoError(b, err)
	job, err := gomoe.Open(b.Context(), p, gomoe.Config{})
	require.NoError(b, err)
	defer job.Close()
	in := map[string]*runtime.Array{}
	for name, a := range weights {
		in[name], err = job.Put(name, a)
		require.NoError(b, err)
	}
	expert := float64(weights["gate"].Type.Bytes()) / decodeExperts * 3
	r := rand.New(rand.NewPCG(3, 4))
	x := array.New(graph.T(graph.F32, tokens, decodeHidden))
	// All weights in turn, so that none is in a cache when it is read again.
	memory, at := [][]byte{toy.Part(b, in["gate"], 0).Bytes(), toy.Part(b, in["up"], 0).Bytes(), toy.Part(b, in["down"], 0).Bytes()}, 0
	step, read := math.Inf(1), math.Inf(1) // seconds per byte
	total := time.Duration(0)
	for b.Loop() {
		for i := range array.Data[float32](x) {
			array.Data[float32](x)[i] = float32(r.NormFloat64())
		}
		in["x"], err = job.Put("x", x)
		require.NoError(b, err)
		began := time.Now()
		out, err := job.Run(context.Background(), in)
		took := time.Since(began)
		require.NoError(b, err)
		total += took
		ids, err := out[1].Get()
		require.NoError(b, err)
		chosen := map[int32]bool{}
		for _, e := range array.Data[int32](ids) {
			chosen[e] = true
		}
		step = min(step, took.Seconds()/(float64(len(chosen))*expert))
		n := int(decodeTopK * expert)
		if at += n; at+n > len(memory[0]) {
			memory, at = append(memory[1:3:3], memory[0]), 0
		}
		read = min(read, readOnce(memory[0][at:at+n]).Seconds()/float64(n))
	}
	b.ReportMetric(float64(tokens)*float64(b.N)/total.Seconds(), "tokens/s")
	b.ReportMetric(1e-9/step, "GB/s")
	b.ReportMetric(1e-9/read, "read-GB/s")
	b.ReportMetric(step/read, "of-floor")
}

// readOnce returns how long threads take to bring all lines of memory.
func readOnce(memory []byte) time.Duration {
	const threads = 2
	var wg sync.WaitGroup
	var sums [threads]int
	began := time.Now()
	for p := range threads {
		part := memory[len(memory)*p/threads : len(memory)*(p+1)/threads]
		read := func() {
			sum := 0
			for i := 0; i < len(part); i += 64 {
				sum += int(part[i])
			}
			sums[p] = sum
		}
		if p < threads-1 {
			wg.Go(read)
		} else {
			read()
		}
	}
	wg.Wait()
	return time.Since(began)
}
