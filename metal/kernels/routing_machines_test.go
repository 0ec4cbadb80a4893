package kernels_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// Rows that travel through machines, whatever tokens choose, with capacities and alignments, with any
// number of tokens and experts, of all types: every instruction does what the host kernel does.
func TestThroughMachines(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for i, name := range slices.Sorted(maps.Keys(choices)) {
		for j, mesh := range []string{"ep=2x2", "dp=2,ep=2x2", "ep=3x2", "ep=2x3"} {
			if !sampled(i, j) {
				continue
			}
			exchange := []ep.Exchange{ep.Sum, ep.Rows}[(i+j)%2]
			d := []graph.DType{graph.F32, graph.BF16, graph.F16}[(i+2*j)%3]
			w := []graph.DType{graph.F32, graph.BF16}[j/2]
			l := layer{primitives.PrepareOp{Experts: 11, Align: 1 + 3*(i%2), Exchange: exchange, Capacity: 4 * (j % 2)}, []int{20, 7, 1, 40}[(i+j)%4], 3, 5, d, w, graph.I32}
			names := []string{"ep_passage", "ep_pass", "ep_table", "ep_place", "ep_pack"}
			if exchange == ep.Sum {
				names = append(names, "ep_slots", "ep_pack_sums", "ep_sum_machine", "ep_sum_machines")
			}
			t.Run(fmt.Sprint(name, " mesh ", mesh, " ", exchange, d), func(t *testing.T) {
				compare(t, l.program(t), tokensOn(t, mesh, "x", "w", "ids"), l.inputs(r, choices[name]), names...)
			})
		}
	}
}

// Many tokens, and none; and more rows than there is room for, which is an error.
func TestThroughMachinesSizes(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 34))
	for _, s := range [][3]int{{0, 2, 4}, {600, 4, 64}, {170, 6, 600}} {
		l := layer{primitives.PrepareOp{Experts: s[2], Exchange: ep.Sum}, s[0], s[1], 3, graph.F32, graph.F32, graph.I64}
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			compare(t, l.program(t), tokensOn(t, "ep=2x2", "x", "w", "ids"), l.inputs(r, choices["or nowhere"]), "ep_passage", "ep_pass", "ep_sum_machine", "ep_sum_machines")
		})
	}
	for text, d := range map[string]primitives.DispatchOp{
		"the routing fills 8 rows, room is for 5": {Experts: 4, Receive: 5},
		"the routing fills 8 rows, room is for 3": {Experts: 4, Receive: 3},
	} {
		p, err := graph.Trace("elsewhere", func(tr *graph.Tracer) []*graph.Value {
			x, routing := tr.Input("x", graph.F32, 8, 4), tr.Input("routing", graph.I32, 8, 1, 2)
			return []*graph.Value{graph.Apply1(primitives.CombineOp(d), graph.Apply1(d, x, routing), routing)}
		})
		require.NoError(t, err)
		in := map[string]array.Array{"x": array.New(p.In[0].Type), "routing": array.New(p.In[1].Type)}
		fails(t, p, tokensOn(t, "ep=2x2", "x", "routing"), in, "ep_passage", text)
	}
}
