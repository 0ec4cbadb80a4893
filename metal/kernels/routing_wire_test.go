package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// Sums that come home as another type than rows have are those of the host, bit by bit: with weights of
// every type and without, in one step and through machines, of odd lengths, and where there are none.
func TestRoutedWire(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	floats := []graph.DType{graph.F32, graph.BF16, graph.F16}
	n := 0
	for _, d := range floats {
		for _, wire := range floats {
			for i, mesh := range []string{"ep=2", "ep=3", "ep=2x2"} {
				if d == wire {
					continue
				}
				n++
				names := []string{"ep_pack_sums_wire", "ep_sum_ranks_wire"}
				if i == 2 {
					names = []string{"ep_pack_sums_wire", "ep_sum_machine_wire", "ep_sum_machines_wire"}
				}
				l := layer{primitives.PrepareOp{Experts: 5, Align: 1 + n%3, Exchange: ep.Sum, Wire: wire},
					[]int{9, 1, 40, 0}[n%4], 3, []int{1, 7, 32, 65}[n%3], d, floats[n/3%3], graph.I32}
				t.Run(fmt.Sprint(d, wire, mesh, l.tokens, l.hidden, l.weights), func(t *testing.T) {
					compare(t, l.program(t), tokensOn(t, mesh, "x", "w", "ids"), l.inputs(r, choices["or nowhere"]), names...)
				})
			}
		}
	}
}

// Rows and sums that come home in 8 bits are those of the host, bit by bit: codes and the scales of their
// blocks, those of blocks of zeros too, with weights of every type and without, in one step and through
// machines.
func TestRoutedF8(t *testing.T) {
	r := rand.New(rand.NewPCG(47, 48))
	floats := []graph.DType{graph.F32, graph.BF16, graph.F16}
	for n, c := range []struct {
		mesh     string
		exchange ep.Exchange
		names    []string
	}{
		{"ep=2", ep.Rows, []string{"ep_pack_rows_wire", "ep_sum_wire"}},
		{"ep=3", ep.Rows, []string{"ep_pack_rows_wire", "ep_sum_wire"}},
		{"ep=2", ep.Sum, []string{"ep_pack_sums_wire", "ep_sum_ranks_wire"}},
		{"ep=3", ep.Sum, []string{"ep_pack_sums_wire", "ep_sum_ranks_wire"}},
		{"ep=2x2", ep.Sum, []string{"ep_pack_sums_wire", "ep_sum_machine_wire", "ep_sum_machines_wire"}},
		{"ep=2x2", ep.Sum, []string{"ep_pack_sums_wire", "ep_sum_machine_wire", "ep_sum_machines_wire"}},
	} {
		for i, d := range floats {
			if !sampled(n, i) {
				continue
			}
			wire := []graph.DType{graph.F8_E4M3, graph.F8_E5M2}[(n+i)%2]
			l := layer{primitives.PrepareOp{Experts: 5, Align: 1 + i%3, Exchange: c.exchange, Wire: wire},
				[]int{9, 1, 40, 0}[(n+i)%4], 3, []int{128, 384, 1152}[(2*n+i)%3], d, floats[(n+2*i)%3], graph.I32}
			in := l.inputs(r, choices["or nowhere"])
			x := in["x"].Float64s()
			for j := range x {
				switch {
				case j/128%4 == 1: // blocks of zeros, of both signs
					x[j] = math.Copysign(0, float64(1-j%2*2))
				case j/128%4 == 2: // from large to small
					x[j] *= math.Exp2(float64(-j % 40))
				}
			}
			require.NoError(t, in["x"].SetFloat64s(x))
			t.Run(fmt.Sprint(c.mesh, c.exchange, d, wire, l.tokens, l.hidden, l.weights), func(t *testing.T) {
				compare(t, l.program(t), tokensOn(t, c.mesh, "x", "w", "ids"), in, c.names...)
			})
		}
	}
}

// How long zones are is said on the device where choices travel with the rows, too.
func TestInlinePadded(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 44))
	for i, experts := range []int{1, 4, 300} {
		for _, align := range []int{1, 8} {
			l := layer{primitives.PrepareOp{Experts: experts, Align: align}, 20, 2, 4, graph.F32, graph.F32, graph.I32}
			p, err := graph.Trace("padded", func(tr *graph.Tracer) []*graph.Value {
				x, w := tr.Input("x", l.d, l.tokens, l.hidden), tr.Input("w", l.weights, l.tokens, l.choices)
				route := primitives.Prepare(l.PrepareOp, tr.Input("ids", l.ids, l.tokens, l.choices))
				rows, weights := primitives.DispatchWeighted(route, x, w)
				rows = primitives.Mul(rows, primitives.BroadcastInDim(weights, rows.Type.Shape, 0))
				return []*graph.Value{primitives.Combine(route, rows), route.Padded}
			})
			require.NoError(t, err)
			t.Run(fmt.Sprint(experts, align), func(t *testing.T) {
				compare(t, p, tokensOn(t, "ep=2", "x", "w", "ids"), l.inputs(r, choices[[]string{"all to one", "or nowhere", "anywhere"}[i]]), "ep_prepare_alone", "ep_padded")
			})
		}
	}
}
