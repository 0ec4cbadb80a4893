package kernels_test

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/primitives"
)

// compiled returns the plan of a program for Metal.
func compiled(t testing.TB, p *graph.Program, cfg gomoe.Config) *lowering.Plan {
	cfg.Target = kernels.Metal{}
	plan, err := gomoe.Compile(t.Context(), p, cfg)
	require.NoError(t, err)
	return plan
}

// programOf returns what the device does for the first instruction of that name.
func programOf(t testing.TB, plan *lowering.Plan, name string, rank int) (*kernels.Instr, *kernels.Program) {
	for i := range plan.Instrs {
		if plan.Instrs[i].Name() == name {
			in := kernels.Of(plan, i, rank)
			p, _, err := kernels.Build(in)
			require.NoError(t, err, name)
			return in, p
		}
	}
	require.Fail(t, "no "+name)
	return nil, nil
}

// raw returns the memory of x.
func raw[T any](x []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(one)))
}

func same[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%s: element %d is %v, want %v", what, i, got[i], want[i])
			return
		}
	}
}

// A million pairs of 512 experts are counted, given places and ordered as by package ep.
func TestRoutingOfAMillionPairs(t *testing.T) {
	const tokens, k, experts, capacity = 1 << 17, 8, 512, 2100
	prog, err := graph.Trace("large", func(tr *graph.Tracer) []*graph.Value {
		r := primitives.Prepare(primitives.PrepareOp{Experts: experts, Capacity: capacity}, tr.Input("ids", graph.I32, tokens, k))
		return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, tr.Input("x", graph.F32, tokens, 1)))}
	})
	require.NoError(t, err)
	plan := compiled(t, prog, gomoe.Config{})
	r := rand.New(rand.NewPCG(1, 2))
	ids := make([]int32, tokens*k)
	for i := range ids {
		ids[i] = int32(r.IntN(experts+1) - 1)
	}
	counts := make([]int32, experts)
	_, p := programOf(t, plan, "ep_count", 0)
	launch(t, p, [][]byte{raw(ids)}, [][]byte{raw(counts)})
	want := make([]int32, experts)
	require.NoError(t, ep.Count(want, ids, k))
	same(t, "counts", counts, want)

	routing, dropped := make([]int32, 2*len(ids)), make([]bool, len(ids))
	kept := make([]int32, experts)
	_, p = programOf(t, plan, "ep_prepare", 0)
	rest := make([]int32, 3*experts)
	launch(t, p, [][]byte{raw(ids), raw(counts)},
		[][]byte{raw(routing), raw(dropped), raw(rest[:experts]), raw(rest[experts : 2*experts]), raw(rest[2*experts:]), raw(kept)})
	wantRouting, wantDropped := make([]int32, 2*len(ids)), make([]bool, len(ids))
	require.Positive(t, ep.Assign(wantRouting, wantDropped, make([]int32, experts), ids, capacity), "nothing is dropped")
	same(t, "routing", routing, wantRouting)
	same(t, "dropped", dropped, wantDropped)

	place := make([]int32, len(ids))
	_, p = programOf(t, plan, "ep_send_order", 0)
	launch(t, p, [][]byte{raw(routing)}, [][]byte{raw(place)})
	wantPlace, order := make([]int32, len(ids)), make([]int32, len(ids))
	n := ep.SendOrder(order, make([]int32, experts), wantRouting, 0)
	ep.Inverse(wantPlace, order[:n])
	same(t, "places", place, wantPlace)

	in, p := programOf(t, plan, "ep_recv_order", 0)
	got := make([]int32, in.Results[0].Type.Len())
	launch(t, p, [][]byte{raw(kept)}, [][]byte{raw(got)})
	for j := range n {
		if got[j] != int32(j) { // without alignment, of one rank
			t.Fatalf("row %d goes to %d", j, got[j])
		}
	}
}
