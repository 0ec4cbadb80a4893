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
	"github.com/gomoe/gomoe/quant"
	"github.com/gomoe/gomoe/vjp"
)

// gatedBlocks is gatedExperts with weights in blocks: gate and down have the same type, up
// may have another.
func gatedBlocks(t *testing.T, d, blocks, up graph.DType, tokens, hidden, width int, layer primitives.PrepareOp) *graph.Program {
	const k = 2
	p, err := graph.Trace("gated_blocks", func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", d, tokens, hidden)
		ids := tr.Input("ids", graph.I32, tokens, k)
		weights := tr.Input("weights", d, tokens, k)
		g := tr.Input("gate", blocks, layer.Experts, width, hidden)
		u := tr.Input("up", up, layer.Experts, width, hidden)
		down := tr.Input("down", blocks, layer.Experts, hidden, width)
		r := primitives.Prepare(layer, ids)
		rows, rw := primitives.DispatchWeighted(r, x, weights)
		y := primitives.GroupedMatMulTransposed(r, primitives.SwiGLU(primitives.GroupedMatMulTransposed(r, rows, g), primitives.GroupedMatMulTransposed(r, rows, u)), down)
		out := primitives.Combine(r, primitives.Mul(y, primitives.BroadcastInDim(rw, y.Type.Shape, 0)))
		return []*graph.Value{primitives.ReduceSum(primitives.Square(out)), out}
	})
	require.NoError(t, err)
	return p
}

// idleDevice is a target that runs nothing itself, so that the host runs what is joined for devices.
type idleDevice struct{}

func (idleDevice) Name() string                      { return "idle" }
func (idleDevice) Serves(*lowering.Plan, int) string { return "it runs nothing" }
func (idleDevice) Joins() [][]lowering.Join          { return primitives.DeviceJoins() }

// What is joined for a device has the bits of its parts where the host runs it.
func TestDeviceJoinsOfBlocksOnHost(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 7))
	for _, d := range []graph.DType{graph.F32, graph.BF16, graph.F16} {
		for _, layer := range []primitives.PrepareOp{{Experts: 4}, {Experts: 4, Capacity: 5}, {Experts: 4, Align: 4}} {
			for _, mesh := range []string{"", "ep=2"} {
				p := gatedBlocks(t, d, graph.Q8_0, graph.Q8_0, 12, 64, 96, layer)
				in := gatedInputs(r, p, layer.Experts)
				cfg := gatedPlacement(t, mesh)
				cfg.Optimize = gomoe.Off
				want, err := gomoe.Run(t.Context(), p, cfg, in)
				require.NoError(t, err)
				cfg = gatedPlacement(t, mesh)
				cfg.Target, cfg.Options.Poison = idleDevice{}, true
				plan, err := gomoe.Compile(t.Context(), p, cfg)
				require.NoError(t, err)
				require.Contains(t, plan.String(), "grouped_swiglu_blocks", "%s", d)
				got, err := gomoe.Run(t.Context(), p, cfg, in)
				require.NoError(t, err)
				for i := range want {
					sameBits(t, fmt.Sprintf("%s %+v %q: result %d", d, layer, mesh, i), got[i], want[i])
				}
			}
		}
	}
}

// Experts with so many rows that swiglu is made of parts of their results have the bits of gate, up and swiglu by themselves.
func TestGatesInParts(t *testing.T) {
	for _, tokens := range []int{512, 1200} { // parts of 64 and of 32 columns of 96
		p := gatedBlocks(t, graph.F32, graph.Q8_0, graph.Q8_0, tokens, 32, 96, primitives.PrepareOp{Experts: 4})
		in := gatedInputs(rand.New(rand.NewPCG(8, 9)), p, 4)
		cfg := gatedPlacement(t, "")
		cfg.Options.Threads = 2
		got, err := gomoe.Run(t.Context(), p, cfg, in)
		require.NoError(t, err)
		cfg.Optimize = gomoe.Off
		want, err := gomoe.Run(t.Context(), p, cfg, in)
		require.NoError(t, err)
		for i := range want {
			sameBits(t, fmt.Sprintf("%d tokens: result %d", tokens, i), got[i], want[i])
		}
	}
}

// TestJoinsKeepBitsOfBlocks is TestJoinsKeepBits for weights in blocks: experts with
// one row and several, rows of weights that do not come in fours, and types that are
// not joined.
func TestJoinsKeepBitsOfBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	type kinds struct{ rows, gate, up graph.DType }
	var all []kinds
	for _, d := range quant.Types() {
		all = append(all, kinds{graph.F32, d, d})
	}
	all = append(all, kinds{graph.BF16, graph.Q8_0, graph.Q8_0}, kinds{graph.F64, graph.Q8_0, graph.Q8_0}, kinds{graph.F32, graph.Q8_0, graph.MXFP4})
	for _, c := range all {
		block, _ := c.gate.Block()
		layers := []primitives.PrepareOp{{Experts: 2}}
		if block == 32 { // quantising weights to other types takes long
			layers = []primitives.PrepareOp{{Experts: 4}, {Experts: 4, Capacity: 5}, {Experts: 4, Align: 4}}
		}
		for _, layer := range layers {
			for _, mesh := range []string{"", "ep=2"} {
				t.Run(fmt.Sprintf("%v/%+v/%s", c, layer, mesh), func(t *testing.T) {
					p := gatedBlocks(t, c.rows, c.gate, c.up, 12, block, block, layer)
					in := gatedInputs(r, p, layer.Experts)
					g, err := vjp.Grad(p)
					require.NoError(t, err)
					for _, q := range []*graph.Program{p, g} {
						cfg := gatedPlacement(t, mesh)
						a, err := gomoe.Place(t.Context(), q, cfg)
						require.NoError(t, err)
						plan, err := lowering.Lower(t.Context(), a, lowering.Options{Joins: primitives.Joins(), Check: true})
						require.NoError(t, err)
						joined := strings.Contains(plan.String(), "grouped_swiglu_blocks")
						if want := c.rows == graph.F32 && c.gate == c.up; joined != want {
							t.Errorf("%s: joined is %v, want %v\n%s", q.Name, joined, want, plan)
						}
						got, err := gomoe.Run(context.Background(), q, cfg, in)
						require.NoError(t, err)
						cfg.Optimize = gomoe.Off
						want, err := gomoe.Run(context.Background(), q, cfg, in)
						require.NoError(t, err)
						for i := range want {
							if !array.Equal(got[i], want[i]) {
								t.Errorf("%s, result %d: got other bits than as written", q.Name, i)
							}
						}
					}
				})
			}
		}
	}
}

// TestJoinsGoldenBlocks compares a plan, without and with joins, with a golden file.
func TestJoinsGoldenBlocks(t *testing.T) {
	a, err := gomoe.Place(t.Context(), gatedBlocks(t, graph.F32, graph.Q8_0, graph.Q8_0, 12, 32, 64, primitives.PrepareOp{Experts: 4}), gatedPlacement(t, ""))
	require.NoError(t, err)
	checkJoins(t, a, filepath.Join("testdata", "joins", "forward_blocks.golden"))
}
