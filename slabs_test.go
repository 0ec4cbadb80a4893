package gomoe_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// shuffled returns a loan of the array's matrices, each in memory of its own.
func shuffled(a array.Array) runtime.Loan {
	slabs := make([][]byte, a.Type.Shape[0])
	for i := range slabs {
		slabs[i] = array.Over(graph.T(a.Type.DType, a.Type.Shape[1:]...), a.Slab(i)).Clone().Bytes()
	}
	return runtime.Loan{
		Mem:   func(runtime.Part) []byte { return nil },
		Slabs: func(p runtime.Part) [][]byte { return slabs[p.Start[0]:][:p.Type.Shape[0]] },
		Fill: func(p runtime.Part) error {
			array.CopyBox(p.Array, nil, a, p.Start, p.Type.Shape)
			return nil
		},
	}
}

// Matrices of experts that lie in memory of their own give the bits of those in one piece: losses and gradients, in a loop and
// without, on the kernels that plans join and on those of single operations, with copies for products and without, also where
// the options check numbers. None is copied.
func TestLentInSlabs(t *testing.T) {
	m := expertModel{2, 16, 64, 96, 4, false}
	for _, how := range []string{"written out", "zeros"} {
		p := m.accumulate(t, how)
		in := fillInputs(p)
		for _, mesh := range []string{"", "ep=2", "dp=2,ep=2", "ep=0-2/3"} {
			for _, optimize := range []gomoe.Switch{gomoe.On, gomoe.Off} {
				cfg := m.config(t, p, mesh)
				cfg.Optimize, cfg.Finite = optimize, optimize == gomoe.Off
				job, err := gomoe.Open(t.Context(), p, cfg)
				require.NoError(t, err)
				whole, lent := map[string]*runtime.Array{}, map[string]*runtime.Array{}
				for name, a := range in {
					whole[name], err = job.Put(name, a)
					require.NoError(t, err)
					lent[name] = whole[name]
					if !strings.HasSuffix(name, "_up") && !strings.HasSuffix(name, "_down") {
						continue
					}
					l := shuffled(a)
					l.Fill = func(part runtime.Part) error { t.Errorf("%s is copied", part); return nil }
					lent[name], err = job.Lend(name, l)
					require.NoError(t, err)
					got, err := lent[name].Get()
					require.NoError(t, err)
					require.True(t, array.Equal(a, got))
					parts, err := lent[name].Parts()
					require.NoError(t, err)
					want, err := whole[name].Parts()
					require.NoError(t, err)
					for i := range want {
						require.True(t, array.Equal(want[i].Array, parts[i].Array))
					}
				}
				for step := range 3 { // from the second on with copies
					want, err := job.RunNamed(t.Context(), whole)
					require.NoError(t, err)
					got, err := job.RunNamed(t.Context(), lent)
					require.NoError(t, err, "%s, %q", how, mesh)
					for name := range want {
						x, err := want[name].Get()
						require.NoError(t, err)
						y, err := got[name].Get()
						require.NoError(t, err)
						if !array.Equal(x, y) {
							t.Errorf("%s, mesh %q, step %d: %s has other bits", how, mesh, step, name)
						}
					}
				}
				job.Close()
			}
		}
	}
}

// The same is so of weights in blocks and of 8-bit floats with scales, whose rows are rounded or widened.
func TestLentBlocksInSlabs(t *testing.T) {
	for _, d := range []graph.DType{graph.F32, graph.F64} {
		const tokens, width, inner, experts = 16, 256, 128, 4
		p, err := graph.Trace("blocks", func(tr *graph.Tracer) []*graph.Value {
			x, router := tr.Input("x", d, tokens, width), tr.Input("router", d, width, experts)
			_, chosen, _ := primitives.Route(primitives.RouteOp{TopK: 2, Renormalize: true}, primitives.MatMul(x, router), nil)
			r := primitives.Prepare(primitives.PrepareOp{Experts: experts, Axis: "ep"}, chosen)
			rows := primitives.Dispatch(r, x)
			gate := primitives.GroupedMatMulTransposed(r, rows, tr.Input("gate", graph.Q4_0, experts, inner, width))
			up := primitives.GroupedMatMulTransposed(r, rows, tr.Input("up", graph.Q4_0, experts, inner, width))
			down := tr.Input("down", graph.F8_E4M3, experts, width, inner)
			y := primitives.GroupedScaledMatMul(r, primitives.SwiGLU(gate, up), down, tr.Input("scales", graph.F32, experts, 2, 1))
			last := primitives.GroupedMatMulTransposed(r, y, tr.Input("last", graph.Q4_K, experts, width, width))
			return []*graph.Value{primitives.Combine(r, last)}
		})
		require.NoError(t, err)
		for _, mesh := range []string{"", "ep=2"} {
			cfg := gomoe.Config{Place: map[string]sharding.Spec{"x": sharding.Split("ep")}}
			cfg.Mesh, err = sharding.ParseMesh(mesh)
			require.NoError(t, err)
			for _, name := range []string{"gate", "up", "down", "scales", "last"} {
				cfg.Place[name] = sharding.Split("ep")
			}
			job, err := gomoe.Open(t.Context(), p, cfg)
			require.NoError(t, err)
			whole, lent := map[string]*runtime.Array{}, map[string]*runtime.Array{}
			for k, v := range p.In {
				numbers := array.New(v.Type.With(graph.F32))
				for i := range array.Data[float32](numbers) {
					array.Data[float32](numbers)[i] = float32(((i+k)*7919)%101)/101 - 0.5
				}
				a := numbers.As(v.Type.DType)
				whole[v.Name], err = job.Put(v.Name, a)
				require.NoError(t, err)
				if lent[v.Name] = whole[v.Name]; slices.Contains([]string{"gate", "up", "down", "last"}, v.Name) {
					lent[v.Name], err = job.Lend(v.Name, shuffled(a))
					require.NoError(t, err)
					require.NotZero(t, lent[v.Name].Lent(), v.Name)
				}
			}
			want, err := job.Run(t.Context(), whole)
			require.NoError(t, err)
			got, err := job.Run(t.Context(), lent)
			require.NoError(t, err)
			x, err := want[0].Get()
			require.NoError(t, err)
			y, err := got[0].Get()
			require.NoError(t, err)
			require.NotZero(t, x.Float64s()[0])
			require.True(t, array.Equal(x, y), "%s on mesh %q", d, mesh)
			job.Close()
		}
	}
}
