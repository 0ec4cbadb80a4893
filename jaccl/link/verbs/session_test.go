package verbs

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/rdma"
	"github.com/gomoe/gomoe/jaccl/rdma/rdmatest"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/vjp"
)

// moeStep is a layer of experts with its gradients, and weights one step further: every
// exchange is of what the plan computes, none of its arguments or results.
func moeStep(t testing.TB, d graph.DType, tokens int) *graph.Program {
	t.Helper()
	const hidden, ffn, experts, k = 63, 97, 4, 2 // rows of odd lengths, at odd places
	p, err := graph.Trace("step", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", d, tokens, hidden)
		router, shared := t.Input("router", graph.F32, hidden, experts), t.Input("shared", d, hidden, 8<<10)
		up, down := t.Input("up", d, experts, hidden, ffn), t.Input("down", d, experts, ffn, hidden)
		weights, chosen, _ := primitives.Route(primitives.RouteOp{TopK: k, Renormalize: true}, primitives.MatMul(primitives.ConvertElementType(x, graph.F32), router), nil)
		r := primitives.Prepare(primitives.PrepareOp{Experts: experts}, chosen)
		rows, rw := primitives.DispatchWeighted(r, x, weights)
		y := primitives.GroupedMatMul(r, primitives.GroupedMatMul(r, rows, up), down)
		y = primitives.Mul(y, primitives.BroadcastInDim(primitives.ConvertElementType(rw, d), y.Type.Shape, 0))
		loss := primitives.ReduceSum(primitives.Square(primitives.ConvertElementType(primitives.Combine(r, y), graph.F32)))
		loss = primitives.Add(loss, primitives.ReduceSum(primitives.Square(primitives.ConvertElementType(primitives.MatMul(x, shared), graph.F32))))
		out := []*graph.Value{primitives.MulScalar(loss, 0.5)}
		ws := []*graph.Value{router, shared, up, down}
		for i, g := range vjp.Gradients(loss, ws...) {
			out = append(out, primitives.Sub(ws[i], primitives.MulScalar(g, 0.001)))
		}
		return out
	})
	require.NoError(t, err)
	return p
}

func arguments(p *graph.Program) map[string]array.Array {
	rng := rand.New(rand.NewPCG(5, 6))
	in := map[string]array.Array{}
	for _, v := range p.In {
		a := array.New(v.Type)
		x := make([]float64, a.Type.Len())
		for i := range x {
			x[i] = rng.NormFloat64() / 8
		}
		if err := a.SetFloat64s(x); err != nil {
			panic(err)
		}
		in[v.Name] = a
	}
	return in
}

// communicators connects links, which they own.
func communicators(t testing.TB, links []link.Link) []jaccl.Communicator {
	t.Helper()
	comms, watches := make([]jaccl.Communicator, len(links)), jaccltest.Watches(len(links))
	for i, l := range links {
		var err error
		comms[i], err = engine.Connect(l, watches[i], jaccl.Options{Deadline: 30 * time.Second})
		require.NoError(t, err)
		t.Cleanup(func() { comms[i].Close() })
	}
	return comms
}

// run runs steps of a new session of the plan, which it closes.
func run(ctx context.Context, plan *lowering.Plan, comms []jaccl.Communicator, in map[string]array.Array, steps int) ([][]byte, error) {
	s, err := runtime.Open(plan, comms, runtime.Options{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var out [][]byte
	for range steps {
		as, err := toy.Eval(ctx, s, in)
		if err != nil {
			return nil, err
		}
		out = out[:0]
		for _, a := range as {
			out = append(out, bytes.Clone(a.Bytes()))
		}
	}
	return out, nil
}

func staged(links []link.Link) (n int64) {
	for _, l := range links {
		out, in := l.(*Link).Staged()
		n += out + in
	}
	return n
}

// What sessions exchange lies in leased memory and is never copied on its way, whatever
// the operation and wherever in the arena; results are those of ranks in one process.
func TestSessionWithoutCopies(t *testing.T) {
	for _, c := range []struct {
		mesh, x string
		d       graph.DType
		overlap lowering.Overlap
		play    string
	}{
		{"ep=2", "ep", graph.F32, lowering.OverlapOff, ""},
		{"ep=2", "ep", graph.BF16, lowering.OverlapCollectives, ""},
		{"ep=4", "ep", graph.F32, lowering.OverlapCollectives, "nic=1"},
		{"dp=2,ep=2", "dp.ep", graph.F32, lowering.OverlapOff, ""},
	} {
		t.Run(fmt.Sprintf("%s %v %v %s", c.mesh, c.d, c.overlap, c.play), func(t *testing.T) {
			p := moeStep(t, c.d, 128)
			plan, err := toy.Plan(p, toy.Setup{Mesh: c.mesh, Overlap: c.overlap,
				Place: map[string]string{"x": c.x, "up": "ep", "down": "ep"}})
			require.NoError(t, err)
			ops := map[string]int{}
			for _, i := range plan.Instrs {
				if i.Communicates() {
					ops[i.Name()]++
				}
			}
			if ops["all_to_all"] == 0 || ops["all_sum"] == 0 {
				t.Fatalf("the plan has %v, want all_to_all and all_sum", ops)
			}
			n := plan.Mesh.Ranks()
			in := arguments(p)
			local, err := engine.Local(n, jaccl.Options{})
			require.NoError(t, err)
			want, err := run(t.Context(), plan, local, in, 1)
			require.NoError(t, err)
			links := linked(t, n, c.play)
			got, err := run(rdmatest.Within(t, 3*time.Minute), plan, communicators(t, links), in, 3)
			require.NoError(t, err)
			for i := range want {
				if !bytes.Equal(got[i], want[i]) {
					t.Errorf("result %d has other bits than ranks of one process compute", i)
				}
			}
			if n := staged(links); n != 0 {
				t.Errorf("%d bytes have been copied on their way, want none; exchanges are %v", n, ops)
			}
		})
	}
}

// Nor is what devices carry of a job whose other pairs have other links.
func TestSessionOverMix(t *testing.T) {
	p := moeStep(t, graph.F32, 64)
	plan, err := toy.Plan(p, toy.Setup{Mesh: "dp=2,ep=2", Place: map[string]string{"x": "dp.ep", "up": "ep", "down": "ep"}})
	require.NoError(t, err)
	local, err := engine.Local(4, jaccl.Options{})
	require.NoError(t, err)
	in := arguments(p)
	want, err := run(t.Context(), plan, local, in, 1)
	require.NoError(t, err)
	links, devices := mixed(t, 4)
	got, err := run(rdmatest.Within(t, 3*time.Minute), plan, communicators(t, links), in, 2)
	require.NoError(t, err)
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("result %d has other bits than ranks of one process compute", i)
		}
	}
	if n := staged(devices); n != 0 {
		t.Errorf("%d bytes have been copied on their way, want none", n)
	}
}

// Sessions come and go: what they lease is used again, is within what a device has, and
// nothing is left.
func TestManySessions(t *testing.T) {
	var plans []*lowering.Plan
	var in []map[string]array.Array
	for _, tokens := range []int{8, 24, 40} {
		p := moeStep(t, graph.F32, tokens)
		plan, err := toy.Plan(p, toy.Setup{Mesh: "ep=2", Place: map[string]string{"x": "ep", "up": "ep", "down": "ep"}})
		require.NoError(t, err)
		plans, in = append(plans, plan), append(in, arguments(p))
	}
	links := linked(t, 2, "")
	comms := communicators(t, links)
	ctx := rdmatest.Within(t, time.Minute)
	files := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			return 0 // not Linux
		}
		return len(fds)
	}
	before := 0
	for i := range 200 {
		s, err := runtime.Open(plans[i%3], comms, runtime.Options{})
		require.NoError(t, err, "session %d", i)
		if i%10 == 0 {
			_, err = toy.Eval(ctx, s, in[i%3])
			require.NoError(t, err, "session %d", i)
		}
		s.Close()
		for _, l := range links {
			if n := regionsOf(t, l.(*Link)); n > 3+1 { // arenas, and the communicator's room
				t.Fatalf("after session %d a rank has %d memory regions, want one for each size of arena and another", i, n)
			}
		}
		if i == 10 {
			before = files()
		}
	}
	if n := files(); n > before {
		t.Errorf("%d files are open, want %d as after the first sessions", n, before)
	}
	if n := staged(links); n != 0 {
		t.Errorf("%d bytes have been copied on their way, want none", n)
	}
}

// With no memory regions left a session works in memory of its own, and its data is
// copied.
func TestSessionBeyondBudget(t *testing.T) {
	p := moeStep(t, graph.F32, 64)
	plan, err := toy.Plan(p, toy.Setup{Mesh: "ep=2", Place: map[string]string{"x": "ep", "up": "ep", "down": "ep"}})
	require.NoError(t, err)
	local, err := engine.Local(2, jaccl.Options{})
	require.NoError(t, err)
	in := arguments(p)
	want, err := run(t.Context(), plan, local, in, 1)
	require.NoError(t, err)
	links, errs := connectAll(t, 2, rdmatest.Mesh(2), rdma.Settings{Library: rdmatest.Standin(t, ""), Regions: rdma.RegionsPerPeer})
	require.NoError(t, errs[0])
	got, err := run(rdmatest.Within(t, 3*time.Minute), plan, communicators(t, links), in, 2)
	require.NoError(t, err)
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("result %d has other bits than ranks of one process compute", i)
		}
	}
	if n := staged(links); n == 0 {
		t.Error("nothing has been copied on its way, although nothing was leased")
	}
}
