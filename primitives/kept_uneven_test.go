package primitives_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// Copies of weights are kept where ranks have parts of different sizes, too: more experts or
// fewer, columns, and the summed dimension; also where a rank has a single column, or none. Steps
// with the copies have the bits of steps without. Kernels that have no copies, the portable ones,
// keep none, and have the same bits all the same.
func TestKeptCopiesOfUnevenParts(t *testing.T) {
	const tokens, in, out, experts, deep = 24, 192, 160, 5, 1153
	layer := func(d graph.DType, transpose bool) *graph.Program {
		return trace(t, func(tr *graph.Tracer) []*graph.Value {
			r := primitives.Prepare(primitives.PrepareOp{Experts: experts}, tr.Input("idx", graph.I32, tokens, 2))
			shape := []int{experts, in, out}
			if transpose {
				shape = []int{experts, out, in}
			}
			x, gate, up := tr.Input("x", d, tokens, in), tr.Input("kgate", d, shape...), tr.Input("kup", d, shape...)
			rows := primitives.Dispatch(r, x)
			product := func(w *graph.Value) *graph.Value {
				return graph.Apply1(primitives.GroupedMatMulOp{Transpose: transpose}, rows, w, r.Value)
			}
			return []*graph.Value{primitives.Combine(r, primitives.SwiGLU(product(gate), product(up)))}
		})
	}
	dense := func(d graph.DType, transpose bool, n int) *graph.Program {
		return trace(t, func(tr *graph.Tracer) []*graph.Value {
			op, shape := primitives.DotGeneralOp{LHSContract: []int{1}, RHSContract: []int{0}}, []int{deep, n}
			if transpose {
				op.RHSContract, shape = []int{1}, []int{n, deep}
			}
			y := graph.Apply1(op, tr.Input("x", d, tokens, deep), tr.Input("kw", d, shape...))
			return []*graph.Value{primitives.ShardingConstraint(y)}
		})
	}
	type test struct {
		p     *graph.Program
		place map[string]sharding.Spec
		keeps int
	}
	for _, d := range []graph.DType{graph.F32, graph.F64, graph.BF16} {
		for _, transpose := range []bool{false, true} {
			copies := transpose && gemm.PanelBytes[float32](64, 64, true) > 0
			if d == graph.BF16 {
				copies = gemm.PanelBytes[array.Brain](64, 64, transpose) > 0
			}
			by := func(columns bool) sharding.Spec {
				if columns == transpose {
					return sharding.Split("ep")
				}
				return sharding.Split("", "ep")
			}
			layers, experts := layer(d, transpose), map[string]sharding.Spec{"x": sharding.Split("ep"), "idx": sharding.Split("ep"), "kgate": sharding.Split("ep"), "kup": sharding.Split("ep")}
			for mesh, tests := range map[string][]test{
				"ep=2": {{layers, experts, 2}, {dense(d, transpose, 97), map[string]sharding.Spec{"kw": by(true)}, 1}},
				"ep=3": {{layers, experts, 2}, {dense(d, transpose, 97), map[string]sharding.Spec{"kw": by(true)}, 1},
					{dense(d, transpose, 96), map[string]sharding.Spec{"kw": by(false), "x": sharding.Split("", "ep")}, 1}},
				"ep=0-3/none/4":   {{layers, experts, 2}},
				"ep=0/1-4":        {{layers, experts, 2}},
				"ep=0-94/none/95": {{dense(d, transpose, 96), map[string]sharding.Spec{"kw": by(true)}, 1}},
			} {
				for i, c := range tests {
					t.Run(fmt.Sprintf("%s transposed=%v %s %d", d, transpose, mesh, i), func(t *testing.T) {
						m := spread{mesh: mesh}.parse(t)
						cfg := gomoe.Config{Mesh: m, Place: c.place, Options: runtime.Options{}}
						in := map[string]array.Array{}
						for _, v := range c.p.In {
							in[v.Name] = uniform(-1, 1)(rng(i), v.Type)
							if v.Type.DType == graph.I32 {
								in[v.Name] = ints(0, 5)(rng(i), v.Type)
							}
						}
						var want []array.Array
						for _, keep := range []gomoe.Switch{gomoe.Off, gomoe.On} {
							cfg.Keep = keep
							job, err := gomoe.Open(t.Context(), c.p, cfg)
							require.NoError(t, err)
							kept := 0
							for _, in := range job.Plan().Instrs {
								if in.Keeps {
									kept++
								}
							}
							if keep == gomoe.On {
								want := 0
								if copies {
									want = c.keeps
								}
								require.Equal(t, want, kept, job.Plan())
							}
							held := map[string]*runtime.Array{}
							for name, a := range in {
								held[name], err = job.Put(name, a)
								require.NoError(t, err)
							}
							for range 3 { // the second step makes the copies
								out, err := job.Run(t.Context(), held)
								require.NoError(t, err)
								got, err := out[0].Get()
								require.NoError(t, err)
								if want == nil {
									want = []array.Array{got}
								}
								sameBits(t, "out", got, want[0])
							}
							require.NoError(t, job.Close())
						}
					})
				}
			}
		}
	}
}
