package primitives_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// routings returns choices of experts that load ranks unevenly.
func routings(r *rand.Rand, in map[string]array.Array, experts int) map[string]map[string]array.Array {
	with := func(choose func(i int) int) map[string]array.Array {
		ids := array.New(in["ids"].Type)
		for i := range array.Data[int32](ids) {
			array.Data[int32](ids)[i] = int32(choose(i))
		}
		out := map[string]array.Array{"ids": ids}
		for name, a := range in {
			if name != "ids" {
				out[name] = a
			}
		}
		return out
	}
	return map[string]map[string]array.Array{
		"any":    in,
		"one":    with(func(i int) int { return experts/2*(i%2) - i%2 }), // all tokens to expert 0, and to the last of the first half
		"last":   with(func(i int) int { return experts - 1 - (experts-1)*(i%2) }),
		"even":   with(func(i int) int { return 2 * r.IntN(experts/2) }), // every other expert has no rows
		"first":  with(func(i int) int { return experts/2*r.IntN(2) + r.IntN(max(experts/8, 1)) }),
		"nobody": with(func(int) int { return -1 }),
	}
}

// TestOverlapKeepsBits compares layers whose rows travel while kernels run with layers
// without overlap.
func TestOverlapKeepsBits(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, d := range []graph.DType{graph.F32, graph.F64, graph.BF16} {
		for _, layer := range []primitives.PrepareOp{{}, {Capacity: 3}, {Align: 4}, {Capacity: 5, Align: 8}} {
			for _, c := range []struct {
				mesh    string
				experts int
			}{{"ep=2", 4}, {"dp=2,ep=2", 4}, {"ep=4", 8}, {"ep=2,tp=2", 6}} {
				layer.Experts = c.experts
				t.Run(fmt.Sprintf("%s/%+v/%s", d, layer, c.mesh), func(t *testing.T) {
					p := gatedExperts(t, d, false, layer)
					g, err := vjp.Grad(p)
					require.NoError(t, err)
					for _, q := range []*graph.Program{p, g} {
						cfg := gatedPlacement(t, c.mesh)
						cfg.Optimize = gomoe.Off
						job, err := gomoe.Open(t.Context(), q, cfg)
						require.NoError(t, err)
						defer job.Close()
						beside := open(t, q, c.mesh, lowering.OverlapCollectives, runtime.Options{})
						slow := open(t, q, c.mesh, lowering.OverlapCollectives, runtime.Options{Poison: true, Finite: true})
						for name, in := range routings(r, gatedInputs(r, p, layer.Experts), layer.Experts) {
							want, err := job.Step(context.Background(), in)
							require.NoError(t, err)
							for _, j := range []*gomoe.Job{beside, slow} {
								got, err := j.Step(context.Background(), in)
								require.NoError(t, err)
								for i := range want {
									if !array.Equal(got[i], want[i]) {
										t.Errorf("%s, %s, result %d: got %v, want as written %v", q.Name, name, i, got[i], want[i])
									}
								}
							}
						}
					}
				})
			}
		}
	}
}

func open(t *testing.T, p *graph.Program, mesh string, o lowering.Overlap, opts runtime.Options) *gomoe.Job {
	cfg := gatedPlacement(t, mesh)
	cfg.Overlap, cfg.Options = o, opts
	j, err := gomoe.Open(t.Context(), p, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	return j
}

// TestOverlapGolden compares plans, without and with overlap, with golden files.
func TestOverlapGolden(t *testing.T) {
	p, err := vjp.Grad(gatedExperts(t, graph.F32, false, primitives.PrepareOp{Experts: 4}))
	require.NoError(t, err)
	cfg := gatedPlacement(t, "dp=2,ep=2")
	cfg.Place["x"] = sharding.Split("dp.ep")
	var b strings.Builder
	for _, o := range []lowering.Overlap{lowering.OverlapOff, lowering.OverlapCollectives} {
		cfg.Overlap = o
		plan, err := gomoe.Compile(t.Context(), p, cfg)
		require.NoError(t, err)
		b.WriteString(sources.ReplaceAllString(plan.String(), "") + "\n")
	}
	goldenText(t, filepath.Join("testdata", "overlap", "backward_collectives.golden"), b.String())
}
