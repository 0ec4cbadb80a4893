package kernels_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/metal/metaltest"
	"github.com/gomoe/gomoe/primitives"
)

// fails checks that the host's step ends with an error, and that the device says the same.
func fails(t *testing.T, p *graph.Program, cfg gomoe.Config, in map[string]array.Array, name, text string) {
	t.Helper()
	metaltest.Check(t, p, cfg, in, metaltest.Options{Instructions: []string{name}, Fails: text, Seed: 7})
}

// A NaN logit is an error that names the first token of the global batch that has one, and
// the first expert.
func TestRouterFault(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, d := range []graph.DType{graph.F32, graph.BF16, graph.F16} {
		p := routerProgram(t, primitives.RouteOp{TopK: 3, Groups: 4, TopGroups: 2}, d, graph.U8, 12, 12)
		x := shuffled(r, p.In[0].Type).Float64s()
		for _, at := range []int{7*12 + 5, 7*12 + 9, 11 * 12} {
			x[at] = math.NaN()
		}
		in := map[string]array.Array{"x": array.New(p.In[0].Type)}
		require.NoError(t, in["x"].SetFloat64s(x))
		for _, mesh := range []string{"", "ep=2"} {
			fails(t, p, tokensOn(t, mesh, "x"), in, "router", "the logit of token 7 for expert 5 is NaN; no expert can be chosen from it")
		}
	}
}

// An expert that there is not is an error that names the first pair of the global batch
// which chooses it, of many segments of pairs, too; but one that does not fit into 32 bits
// is found before any other.
func TestCountFault(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		tokens, choices int
		d               graph.DType
		ids             map[int]int // by place
		text            string
	}{
		{8, 2, graph.I32, map[int]int{9: 4, 13: -2}, "ep: token 4, choice 1: expert 4, want 0 to 3, or -1 for none"},
		{8, 2, graph.I32, map[int]int{9: math.MinInt32, 10: 4}, "ep: token 4, choice 1: expert -2147483648, want 0 to 3, or -1 for none"},
		{8, 2, graph.I64, map[int]int{10: 4}, "ep: token 5, choice 0: expert 4, want 0 to 3, or -1 for none"},
		{8, 2, graph.I64, map[int]int{9: 4, 11: 1 << 40}, "ep: token 5, choice 1: expert 1099511627776, want 0 to 3, or -1 for none"},
		{8, 2, graph.I64, map[int]int{9: 4, 11: -1<<40 + 3}, "ep: token 5, choice 1: expert -1099511627773, want 0 to 3, or -1 for none"},
		{800, 4, graph.I32, map[int]int{2999: 4, 3000: 5, 2777: 6}, "ep: token 694, choice 1: expert 6, want 0 to 3, or -1 for none"},
		{800, 4, graph.I64, map[int]int{2999: 4, 3000: 1 << 32, 2777: 6}, "ep: token 750, choice 0: expert 4294967296, want 0 to 3, or -1 for none"},
	} {
		l := layer{primitives.PrepareOp{Experts: 4}, c.tokens, c.choices, 1, graph.F32, graph.F32, c.d}
		in := l.inputs(r, choices["or nowhere"])
		ids := in["ids"].Float64s()
		for at, id := range c.ids {
			ids[at] = float64(id)
		}
		require.NoError(t, in["ids"].SetFloat64s(ids))
		for mesh, name := range map[string]string{"": "ep_count", "dp=2": "ep_count", "ep=2": "ep_choices"} {
			fails(t, l.program(t), tokensOn(t, mesh, "x", "w", "ids"), in, name, c.text)
		}
	}
}

// overflowing is a layer that traps, with what is in highest demand.
func overflowing(t *testing.T) (l layer, in map[string]array.Array, text string) {
	l = layer{primitives.PrepareOp{Experts: 4, Capacity: 5, Trap: true, Label: "block 3"}, 12, 2, 1, graph.F32, graph.F32, graph.I32}
	in = l.inputs(rand.New(rand.NewPCG(1, 2)), func(_ *rand.Rand, i, _ int) int { return [...]int{2, 1, 0, 1, 2, 2, 0, 1}[i%8] })
	text = "layer block 3: ep: expert 1: 9 pairs, want at most its capacity 5; raise the capacity to 9, or drop the pairs that do not fit"
	return l, in, text
}

// A demand above the capacity of a layer that traps is the error that every rank agrees
// on: that of the expert in highest demand, the lowest of equals, though one before it
// exceeds the capacity, too.
func TestOverflowFault(t *testing.T) {
	l, in, text := overflowing(t)
	p := l.program(t)
	for _, mesh := range []string{"", "ep=2", "dp=2,ep=2"} {
		cfg := tokensOn(t, mesh, "x", "w", "ids")
		fails(t, p, cfg, in, "ep_prepare", text)
		_, prog := programOf(t, compiled(t, p, cfg), "ep_prepare", 0)
		err := prog.Fault([kernels.StatusLen]int32{1, 9, kernels.StatusClear, kernels.StatusClear})
		var agreed *exec.AgreedError
		var over *ep.OverflowError
		if !errors.As(err, &agreed) || !errors.As(err, &over) || *over != (ep.OverflowError{Expert: 1, Need: 9, Capacity: 5}) {
			t.Errorf("the error is %#v, want one that all ranks agree on", err)
		}
	}
	// Without the trap the very same routing drops pairs.
	l.Trap = false
	l.check(t, "ep=2", in)
}

// A routing from elsewhere may name experts that there are not, or more rows than there is
// room for.
func TestRoutingFromElsewhereFaults(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	program := func(capacity int) *graph.Program {
		p, err := graph.Trace("elsewhere", func(tr *graph.Tracer) []*graph.Value {
			x, routing := tr.Input("x", graph.F32, 8, 4), tr.Input("routing", graph.I32, 8, 2, 2)
			d := primitives.DispatchOp{Experts: 4, Align: 2, Capacity: capacity}
			return []*graph.Value{graph.Apply1(primitives.CombineOp(d), graph.Apply1(d, x, routing), routing)}
		})
		require.NoError(t, err)
		return p
	}
	routing := array.New(graph.T(graph.I32, 8, 2, 2))
	for i := range array.Data[int32](routing) {
		array.Data[int32](routing)[i] = int32(i / 2 % 4 * (1 - i%2))
	}
	in := map[string]array.Array{"x": randomFloats(r, graph.T(graph.F32, 8, 4)), "routing": routing}
	for _, mesh := range []string{"", "ep=2"} {
		cfg := tokensOn(t, mesh, "x", "routing")
		compare(t, program(4), cfg, in, "ep_recv_order")
		text := "the routing fills 16 rows, room is for 8; it was not made by ep_prepare with this capacity, or a token chooses an expert twice although ep_prepare has distinct"
		finder := "ep_recv_order"
		if mesh != "" {
			finder = "ep_journey"
			text = "the routing fills 8 rows, room is for 4; it was not made by ep_prepare with this capacity, or a token chooses an expert twice although ep_prepare has distinct"
		}
		fails(t, program(2), cfg, in, finder, text)

		// What comes after works with what these leave: no row, and none at all.
		plan := compiled(t, program(2), cfg)
		table := []int32{4, 4, 4, 4}
		if mesh != "" {
			table = []int32{2, 2, 2, 2, 2, 2, 2, 2}
		}
		counts := make([]int32, 4)
		zones, p := programOf(t, plan, "ep_zones", 0)
		counts = counts[:zones.Results[0].Type.Len()]
		record := launch(t, p, [][]byte{raw(table)}, [][]byte{raw(counts)})
		require.EqualError(t, p.Fault(record), text)
		same(t, "counts", counts, make([]int32, len(counts)))
		recv, p := programOf(t, plan, "ep_recv_order", 0)
		order := make([]int32, recv.Results[0].Type.Len())
		record = launch(t, p, [][]byte{raw(table)}, [][]byte{raw(order)})
		require.EqualError(t, p.Fault(record), text)
		for j, row := range order {
			if row != -1 {
				t.Errorf("row %d goes to %d, want nowhere", j, row)
			}
		}
		if mesh != "" {
			var chosen []int32
			for i := 0; i < len(array.Data[int32](routing)); i += 2 {
				chosen = append(chosen, array.Data[int32](routing)[i])
			}
			journey, p := programOf(t, plan, "ep_journey", 0)
			var results [][]byte
			for _, r := range journey.Results {
				results = append(results, make([]byte, r.Type.Bytes()))
			}
			record := launch(t, p, [][]byte{raw(chosen), raw(table)}, results)
			require.EqualError(t, p.Fault(record), text)
			for i, b := range slices.Concat(results[2], results[3]) {
				if b != 0xff {
					t.Errorf("byte %d of what fills the rows is %#x, want those of -1", i, b)
				}
			}
		}

		array.Data[int32](routing)[26] = 4
		finder, text = "ep_count", "routing of pair 13 names expert 4, want 0 to 3, or -1 for none"
		if mesh != "" { // pair 5 of rank 1
			finder, text = "ep_pack_inline", "routing of pair 5 names expert 4, want 0 to 3, or -1 for none"
		}
		fails(t, program(4), cfg, in, finder, text)
		array.Data[int32](routing)[26] = 1
	}
}

// Kernels refuse what they cannot do, and say why.
func TestRoutingRefusals(t *testing.T) {
	route := func(r primitives.RouteOp, d, bias graph.DType, experts int) *graph.Program {
		return routerProgram(t, r, d, bias, 2, experts)
	}
	top := func(d graph.DType, n, k int) *graph.Program {
		p, err := graph.Trace("top", func(tr *graph.Tracer) []*graph.Value {
			v, i := primitives.TopK(tr.Input("x", d, 2, n), k)
			return []*graph.Value{v, i}
		})
		require.NoError(t, err)
		return p
	}
	layerOf := func(d graph.DType, op primitives.PrepareOp) *graph.Program {
		return layer{op, 4, 2, 3, d, graph.F32, graph.I32}.program(t)
	}
	routed := func(d graph.DType, experts int) *graph.Program {
		return layerOf(d, primitives.PrepareOp{Experts: experts})
	}
	travels := func(d graph.DType, experts int) *graph.Program {
		return layerOf(d, primitives.PrepareOp{Experts: experts, Capacity: 3, Exchange: ep.Sum})
	}
	refused := func(p *graph.Program, cfg gomoe.Config, name, text string) {
		t.Helper()
		plan := compiled(t, p, cfg)
		found := false
		for i := range plan.Instrs {
			if plan.Instrs[i].Name() != name {
				continue
			}
			found = true
			_, _, err := kernels.Build(kernels.Of(plan, i, 0))
			var refusal *kernels.RefusalError
			if !errors.As(err, &refusal) || !strings.Contains(err.Error(), text) {
				t.Errorf("%s of %s is refused with %v, want %q", name, p, err, text)
			}
		}
		require.True(t, found, "%s", plan)
	}
	for _, c := range []struct {
		p          *graph.Program
		name, text string
	}{
		{route(primitives.RouteOp{TopK: 2}, graph.F64, graph.U8, 4), "router", "no kernel for elements of f64"},
		{route(primitives.RouteOp{TopK: 2}, graph.F32, graph.U8, 5000), "router", "bytes of threadgroup memory, of which there are 32768"},
		{top(graph.F64, 8, 2), "top_k", "no kernel for elements of f64"},
		{top(graph.I32, 8, 2), "top_k", "no kernel for elements of i32"},
		{top(graph.F32, 9000, 2), "top_k", "rows take 36000 bytes of threadgroup memory"},
		{top(graph.F32, 100, 65), "top_k", "the largest 65 are looked for, want at most 64"},
		{routed(graph.F64, 4), "ep_sum", "no kernel for elements of f64"},
		{routed(graph.F32, 9000), "ep_count", "counts of experts take 36000 bytes of threadgroup memory"},
		{routed(graph.F32, 9000), "ep_prepare", "counts of experts take 36000 bytes of threadgroup memory"},
		{routed(graph.F32, 9000), "ep_send_order", "counts of experts take 36000 bytes of threadgroup memory"},
		{routed(graph.F32, 3000), "ep_recv_order", "runs of rows take 36016 bytes of threadgroup memory"},
	} {
		refused(c.p, gomoe.Config{}, c.name, c.text)
	}
	for _, c := range []struct {
		p          *graph.Program
		name, text string
	}{
		{travels(graph.F64, 4), "ep_pack_sums", "no kernel for elements of f64"},
		{travels(graph.F64, 4), "ep_sum_ranks", "no kernel for elements of f64"},
		{travels(graph.F32, 9000), "ep_table", "counts of experts take 36000 bytes of threadgroup memory"},
		{travels(graph.F32, 9000), "ep_keep", "counts of experts take 36000 bytes of threadgroup memory"},
		{travels(graph.F32, 18000), "ep_journey", "counts of experts take 36000 bytes of threadgroup memory"},
	} {
		refused(c.p, tokensOn(t, "ep=2", "x", "w", "ids"), c.name, c.text)
	}
}
