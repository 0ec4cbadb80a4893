package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// moeStack traces layers of half the size of moeLayer's, on top of each other.
func moeStack(layers int) (*graph.Program, error) {
	const tokens, hidden, experts, ffn = benchTokens / 2, benchHidden / 2, benchExperts, benchFFN / 2
	return graph.Trace("moe_stack", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", graph.F32, tokens, hidden)
		for l := range layers {
			weight := func(name string, shape ...int) *graph.Value {
				return t.Input(fmt.Sprintf("%s_%d", name, l), graph.F32, shape...)
			}
			wr, gate, up := weight("router", hidden, experts), weight("gate", experts, hidden, ffn), weight("up", experts, hidden, ffn)
			down := weight("down", experts, ffn, hidden)
			weights, chosen, _ := primitives.Route(primitives.RouteOp{TopK: benchTopK, Renormalize: true}, primitives.MatMul(x, wr), nil)
			r := primitives.Prepare(primitives.PrepareOp{Experts: experts}, chosen)
			rows, rw := primitives.DispatchWeighted(r, x, weights)
			y := primitives.GroupedMatMul(r, primitives.SwiGLU(primitives.GroupedMatMul(r, rows, gate), primitives.GroupedMatMul(r, rows, up)), down)
			x = primitives.Add(x, primitives.Combine(r, primitives.Mul(y, primitives.BroadcastInDim(rw, y.Type.Shape, 0))))
		}
		return []*graph.Value{primitives.MulScalar(primitives.ReduceSum(primitives.Square(x)), 0.5)}
	})
}

// onWire opens a session on four ranks between which every exchange takes 50 µs
// and, at that rate in bytes a second, as long as its bytes do; 0 is no wire.
// busy counts the nanoseconds that exchanges of all ranks take.
func onWire(b *testing.B, plan *lowering.Plan, rate float64, busy *atomic.Int64) *runtime.Session {
	comms, err := engine.Local(4, jaccl.Options{})
	require.NoError(b, err)
	wires := make([]collective.Communicator, len(comms))
	for i := range comms {
		wires[i] = toy.Wire(comms[i], func(_ context.Context, _ int, c collective.Call) error {
			if rate > 0 {
				d := 50*time.Microsecond + time.Duration(float64(c.Bytes)/rate*1e9)
				busy.Add(int64(d))
				time.Sleep(d)
			}
			return nil
		})
	}
	s, err := runtime.Open(plan, wires, runtime.Options{})
	require.NoError(b, err)
	return s
}

// BenchmarkOverlap runs three layers forward and backward on four ranks, with
// wires of several rates between them. The plans take turns, and the fastest
// step of each is reported, since the machine may have other work: the time of a
// plan that hides all exchanges is near the longer one of wire-ms, which a rank's
// exchanges take on the wire, and the time without a wire; that of a plan which
// hides none is their sum.
func BenchmarkOverlap(b *testing.B) {
	p, err := moeStack(3)
	require.NoError(b, err)
	p, err = vjp.Grad(p)
	require.NoError(b, err)
	for _, mesh := range []string{"dp=2,ep=2", "ep=4"} {
		for _, rate := range []float64{0, 5e8, 2.5e8, 1e8} {
			b.Run(fmt.Sprintf("%s/%gMBps", mesh, rate/1e6), func(b *testing.B) {
				cfg := gomoe.Config{Place: map[string]sharding.Spec{}}
				cfg.Mesh, err = sharding.ParseMesh(mesh)
				require.NoError(b, err)
				rng := rand.New(rand.NewPCG(1, 2))
				in := map[string]array.Array{}
				for _, v := range p.In {
					in[v.Name] = array.New(v.Type)
					for i := range array.Data[float32](in[v.Name]) {
						array.Data[float32](in[v.Name])[i] = float32(rng.NormFloat64() / 16)
					}
					switch {
					case v.Type.Rank() == 3:
						cfg.Place[v.Name] = sharding.Split("ep")
					case v.Name == "x" && cfg.Mesh.Size("dp") > 1:
						cfg.Place[v.Name] = sharding.Split("dp.ep")
					case v.Name == "x":
						cfg.Place[v.Name] = sharding.Split("ep")
					}
				}
				var busy atomic.Int64
				var sessions []*runtime.Session
				var args []map[string]*runtime.Array
				var least [2]time.Duration
				for o := lowering.OverlapOff; o <= lowering.OverlapCollectives; o++ {
					cfg.Overlap = o
					plan, err := gomoe.Compile(b.Context(), p, cfg)
					require.NoError(b, err)
					s := onWire(b, plan, rate, &busy)
					placed, err := toy.Put(s, in)
					require.NoError(b, err)
					sessions, args = append(sessions, s), append(args, placed)
					_, err = s.Run(context.Background(), placed)
					require.NoError(b, err)
					least[o] = time.Hour
				}
				busy.Store(0)
				for b.Loop() {
					for o, s := range sessions {
						began := time.Now()
						_, err := s.Run(context.Background(), args[o])
						require.NoError(b, err)
						least[o] = min(least[o], time.Since(began))
					}
				}
				for o, d := range least {
					b.ReportMetric(float64(d)/1e6, lowering.Overlap(o).String()+"-ms")
				}
				b.ReportMetric(float64(busy.Load())/8/float64(b.N)/1e6, "wire-ms")
			})
		}
	}
}
