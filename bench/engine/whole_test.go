package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/world"
)

// oneToken is a layer without experts' matrices for one token, which chooses 8 of 16 experts.
func oneToken(b *testing.B, exchange ep.Exchange) *graph.Program {
	p, err := graph.Trace("token", func(t *graph.Tracer) []*graph.Value {
		r := primitives.Prepare(primitives.PrepareOp{Experts: 16, Exchange: exchange}, t.Input("ids", graph.I32, 1, 8))
		return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, t.Input("x", graph.F32, 1, 7168)))}
	})
	require.NoError(b, err)
	return p
}

// BenchmarkWholeToken measures, between two processes over tcp, how long the rows of one
// token take to come together: the exchange, and all from the first row that is packed to the
// last that is added; and how long one bare all_sum of the same bytes takes. Steps and bare
// sums take turns, and medians are reported. The benchmark starts the other process, which runs the same function.
func BenchmarkWholeToken(b *testing.B) {
	const variable = "GOMOE_RANK" // of the process that this one starts
	for _, exchange := range []ep.Exchange{ep.Rows, ep.Sum} {
		b.Run(exchange.String(), func(b *testing.B) {
			if os.Getenv(variable) != "" {
				takeTurns(b, exchange, os.Getenv)
				return
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(b, err)
			job := map[string]string{variable: "0", "GOMOE_SIZE": "2", "GOMOE_COORDINATOR": l.Addr().String(), "GOMOE_SECRET": "0123456789abcdef"}
			require.NoError(b, l.Close())
			other := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkWholeToken$/^"+exchange.String()+"$", "-test.benchtime=1x")
			for name, value := range job {
				if name == variable {
					value = "1"
				}
				other.Env = append(other.Env, name+"="+value)
			}
			var text bytes.Buffer
			other.Stdout, other.Stderr = &text, &text
			require.NoError(b, other.Start())
			all, exchanged, bare := takeTurns(b, exchange, func(name string) string { return job[name] })
			require.NoError(b, other.Wait(), "%s", &text)
			b.ReportMetric(all, "together-us")
			b.ReportMetric(exchanged, "exchange-us")
			b.ReportMetric(bare, "bare-us")
			b.ReportMetric(exchanged/bare, "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// takeTurns runs steps and bare sums in turns, and returns the medians in microseconds.
func takeTurns(b *testing.B, exchange ep.Exchange, env func(string) string) (all, exchanged, bare float64) {
	const turns = 300
	ctx := context.Background()
	mesh, err := sharding.ParseMesh("ep=2")
	require.NoError(b, err)
	var w world.World
	defer w.Close()
	require.NoError(b, w.Setup(ctx, world.Config{Mesh: &mesh, Transport: "tcp", Getenv: env}))
	var trace bytes.Buffer
	tracer := runtime.NewTrace(&trace)
	j, err := gomoe.Open(b.Context(), oneToken(b, exchange), gomoe.Config{World: &w, Mesh: mesh, Options: runtime.Options{Trace: tracer}})
	require.NoError(b, err)
	defer j.Close()
	ids, err := array.Of([]int32{0, 9, 2, 11, 4, 13, 6, 15}, 1, 8)
	require.NoError(b, err)
	in := map[string]*runtime.Array{}
	for name, a := range map[string]array.Array{"ids": ids, "x": array.New(graph.T(graph.F32, 1, 7168))} {
		in[name], err = j.Put(name, a)
		require.NoError(b, err)
	}
	size := int64(4 * 7168)
	if exchange == ep.Rows {
		size *= 8
	}
	comms, err := w.Communicators()
	require.NoError(b, err)
	src, dst := array.New(graph.T(graph.F32, int(size/4))).Bytes(), array.New(graph.T(graph.F32, int(size/4))).Bytes()
	var sums []float64
	for range turns {
		out, err := j.Run(ctx, in)
		require.NoError(b, err)
		j.Recycle(out...)
		began := time.Now()
		require.NoError(b, comms[0].World().AllSum(ctx, collective.Call{Op: "all_sum", DType: graph.F32, Bytes: size}, dst, src))
		sums = append(sums, float64(time.Since(began).Nanoseconds())/1e3)
	}
	require.NoError(b, j.Close())
	require.NoError(b, tracer.Close())
	steps, exchanges := together(b, trace.Bytes())
	return median(steps), median(exchanges), median(sums)
}

// together returns how long the rows of each step took to come together, and how long the
// exchange took of that, in microseconds.
func together(b *testing.B, trace []byte) (steps, exchanges []float64) {
	var t struct {
		TraceEvents []struct {
			Name, Cat, Ph string
			Ts, Dur       float64
		}
	}
	require.NoError(b, json.Unmarshal(trace, &t))
	began, summed := 0.0, 0.0
	for _, e := range t.TraceEvents {
		switch {
		case e.Ph != "X":
		case e.Name == "ep_permute": // what follows brings rows together
			began = e.Ts + e.Dur
		case e.Name == "all_sum":
			exchanges = append(exchanges, e.Dur)
			summed = e.Ts + e.Dur
		case e.Name == "ep_sum":
			summed = e.Ts + e.Dur
		case e.Cat == "step":
			steps = append(steps, summed-began)
		}
	}
	require.NotEmpty(b, steps, "no steps in the trace")
	require.Len(b, exchanges, len(steps))
	return steps, exchanges
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x[len(x)/4:])) // the first ones warm up
	return x[len(x)/2]
}
