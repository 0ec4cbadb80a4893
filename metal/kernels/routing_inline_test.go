package kernels_test

import (
	"encoding/binary"
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

// inlineProgram is a layer whose routing nothing else uses, so that choices may travel with rows.
func (l layer) inlineProgram(t *testing.T) *graph.Program {
	p, err := graph.Trace("layer", func(tr *graph.Tracer) []*graph.Value {
		x, w := tr.Input("x", l.d, l.tokens, l.hidden), tr.Input("w", l.weights, l.tokens, l.choices)
		r := primitives.Prepare(l.PrepareOp, tr.Input("ids", l.ids, l.tokens, l.choices))
		rows, rowWeights := primitives.DispatchWeighted(r, x, w)
		combine := primitives.CombineOp{Experts: l.Experts, Capacity: l.Capacity, Align: l.Align, Exchange: l.Exchange, Wire: l.Wire}
		both := graph.Apply(combine, primitives.Mul(rows, rows), rowWeights, r.Value)
		one := primitives.Combine(r, primitives.Dispatch(r, x))
		return []*graph.Value{both[0], both[1], one}
	})
	require.NoError(t, err)
	return p
}

var inlined = []string{"ep_prepare_alone", "ep_pack_inline", "ep_arrived", "ep_from_segments", "ep_table", "ep_journey", "ep_place", "ep_zones"}

// Whatever tokens choose, choices that travel with rows arrive with them, bit by bit, on every
// mesh, also where a rank has no token or no expert. Where no rows travel, only ep_prepare differs.
func TestInlineLayer(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for i, name := range slices.Sorted(maps.Keys(choices)) {
		for j, mesh := range []string{"dp=2", "ep=2", "dp=2,ep=2", "ep=3", "ep=none/0/1-10"} {
			if !sampled(i, j) {
				continue
			}
			tokens := []int{20, 7, 1}[(i+2*j)%3]
			exchange := []ep.Exchange{ep.Rows, ep.Sum}[(i+j)%2]
			l := layer{primitives.PrepareOp{Experts: 11, Align: 1 + 3*(i%2), Exchange: exchange}, tokens, 3, 5, graph.F32, graph.F32, []graph.DType{graph.I32, graph.I64}[i%2]}
			names := inlined
			if mesh == "dp=2" {
				names = inlined[:1]
			}
			t.Run(fmt.Sprint(name, " mesh ", mesh, " ", tokens, " ", exchange), func(t *testing.T) {
				compare(t, l.inlineProgram(t), tokensOn(t, mesh, "x", "w", "ids"), l.inputs(r, choices[name]), names...)
			})
		}
	}
}

// Rows of every element type, beside weights of every type, begin at multiples of 1, 2, 4 and 16
// bytes on the wire, and so do the choices behind them.
func TestInlinePayloads(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	for i, c := range []struct {
		d, weights      graph.DType
		hidden, choices int
	}{
		{graph.F32, graph.F32, 16, 3}, {graph.F32, graph.BF16, 8, 3}, {graph.BF16, graph.BF16, 31, 2}, {graph.F16, graph.F32, 1028, 2},
		{graph.BF16, graph.F32, 600, 7},
	} {
		l := layer{primitives.PrepareOp{Experts: 4, Align: 2, Exchange: []ep.Exchange{ep.Rows, ep.Sum}[i%2]}, 6, c.choices, c.hidden, c.d, c.weights, graph.I32}
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			compare(t, l.inlineProgram(t), tokensOn(t, "ep=2", "x", "w", "ids"), l.inputs(r, choices["or nowhere"]), inlined...)
		})
	}
	for _, d := range []graph.DType{graph.U8, graph.I32, graph.I64, graph.F64} {
		for _, hidden := range []int{1, 16} {
			p, err := graph.Trace("bytes", func(tr *graph.Tracer) []*graph.Value {
				route := primitives.Prepare(primitives.PrepareOp{Experts: 4}, tr.Input("ids", graph.I32, 10, 2))
				rows := primitives.Dispatch(route, tr.Input("x", d, 10, hidden))
				return []*graph.Value{primitives.Combine(route, primitives.ConvertElementType(rows, graph.F32))}
			})
			require.NoError(t, err)
			in := layer{PrepareOp: primitives.PrepareOp{Experts: 4}, tokens: 10, choices: 2, hidden: hidden, d: d, weights: graph.F32, ids: graph.I32}.inputs(r, choices["anywhere"])
			delete(in, "w")
			t.Run(fmt.Sprint(d, hidden), func(t *testing.T) { compare(t, p, tokensOn(t, "ep=2", "x", "ids"), in, inlined...) })
		}
	}
}

// So many tokens that pairs are cut into segments, and so many experts that these are among many.
func TestInlineSizes(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	for _, s := range [][3]int{{0, 2, 4}, {1100, 1, 2}, {560, 4, 64}, {170, 6, 600}} {
		for _, mesh := range []string{"dp=2", "ep=2", "dp=2,ep=2"} {
			l := layer{primitives.PrepareOp{Experts: s[2], Exchange: ep.Sum}, s[0], s[1], 2, graph.F32, graph.F32, graph.I64}
			names := inlined
			if mesh == "dp=2" {
				names = inlined[:1]
			}
			t.Run(fmt.Sprint(s, mesh), func(t *testing.T) {
				compare(t, l.inlineProgram(t), tokensOn(t, mesh, "x", "w", "ids"), l.inputs(r, choices["or nowhere"]), names...)
			})
		}
	}
}

// Experts that there are not are the host's errors, of what tokens choose, and of a routing that
// something else has made.
func TestInlineFaults(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 28))
	for _, c := range []struct {
		tokens, choices int
		d               graph.DType
		ids             map[int]int // by place
		text            string
	}{
		{8, 2, graph.I32, map[int]int{9: 4, 13: -2}, "ep: token 4, choice 1: expert 4, want 0 to 3, or -1 for none"},
		{8, 2, graph.I64, map[int]int{9: 4, 11: -1<<40 + 3}, "ep: token 5, choice 1: expert -1099511627773, want 0 to 3, or -1 for none"},
		{800, 4, graph.I64, map[int]int{2999: 4, 3000: 1 << 32, 2777: 6}, "ep: token 750, choice 0: expert 4294967296, want 0 to 3, or -1 for none"},
	} {
		l := layer{primitives.PrepareOp{Experts: 4}, c.tokens, c.choices, 1, graph.F32, graph.F32, c.d}
		in := l.inputs(r, choices["or nowhere"])
		ids := in["ids"].Float64s()
		for at, id := range c.ids {
			ids[at] = float64(id)
		}
		require.NoError(t, in["ids"].SetFloat64s(ids))
		for _, mesh := range []string{"dp=2", "ep=2"} {
			fails(t, l.inlineProgram(t), tokensOn(t, mesh, "x", "w", "ids"), in, "ep_prepare_alone", c.text)
		}
	}
	for _, tokens := range []int{8, 800} {
		p, err := graph.Trace("elsewhere", func(tr *graph.Tracer) []*graph.Value {
			x, routing := tr.Input("x", graph.F32, tokens, 1), tr.Input("routing", graph.I32, tokens, 3, 2)
			d := primitives.DispatchOp{Experts: 6}
			return []*graph.Value{graph.Apply1(primitives.CombineOp(d), graph.Apply1(d, x, routing), routing)}
		})
		require.NoError(t, err)
		in := map[string]array.Array{"x": randomFloats(r, p.In[0].Type), "routing": array.New(p.In[1].Type)}
		pairs := array.Data[int32](in["routing"])
		for _, bad := range []int32{6, -2} {
			pairs[6*tokens-2], pairs[6*tokens-4] = bad, bad // the last pairs of the last rank
			fails(t, p, tokensOn(t, "ep=2", "x", "routing"), in, "ep_pack_inline", fmt.Sprintf("routing of pair %d names expert %d, want 0 to 5", 3*tokens/2-2, bad))
		}
	}
}

// More rows may arrive of a routing that ep_prepare has not made than the rank accepts, or than the
// zones have room for.
func TestJourneyFaults(t *testing.T) {
	for text, d := range map[string]primitives.DispatchOp{
		"the routing fills 8 rows, room is for 5": {Experts: 2, Receive: 5},
		"the routing fills 8 rows, room is for 6": {Experts: 2, Receive: 3}, // 2 choices each
	} {
		p, err := graph.Trace("elsewhere", func(tr *graph.Tracer) []*graph.Value {
			x, routing := tr.Input("x", graph.F32, 8, 4), tr.Input("routing", graph.I32, 8, 2, 2)
			return []*graph.Value{graph.Apply1(primitives.CombineOp(d), graph.Apply1(d, x, routing), routing)}
		})
		require.NoError(t, err)
		in := map[string]array.Array{"x": array.New(p.In[0].Type), "routing": array.New(p.In[1].Type)}
		copy(array.Data[int32](in["routing"]), slices.Repeat([]int32{0, 0, -1, -1}, 8))
		fails(t, p, tokensOn(t, "ep=2", "x", "routing"), in, "ep_journey", text)
	}
}

// A row that has arrived with a token that its member does not have is the host's error, of the
// first of such rows.
func TestArrivedFault(t *testing.T) {
	prog, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		r := primitives.Prepare(primitives.PrepareOp{Experts: 3}, tr.Input("ids", graph.I32, 7, 1))
		return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, tr.Input("x", graph.BF16, 7, 1)))}
	})
	require.NoError(t, err)
	plan := compiled(t, prog, tokensOn(t, "ep=3", "x", "ids"))
	in, p := programOf(t, plan, "ep_arrived", 0) // of 3, 2 and 2 tokens, this rank has 3
	size := in.Args[0].Type.Shape[1]
	got := make([]byte, in.Args[0].Type.Len())
	for j := range in.Args[0].Type.Shape[0] {
		note := got[j*size+size-8:]
		binary.LittleEndian.PutUint32(note, 1<<32-1)
		if j == 4 || j == 6 || j == 7 {
			binary.LittleEndian.PutUint32(note, uint32(j-2)) // 2, 4 and 5
		}
	}
	chosen, at := make([]int32, 7), make([]int32, 9)
	record := launch(t, p, [][]byte{got, raw([]int32{0, 0, 1, 0, -1, -1})}, [][]byte{raw(chosen), raw(at)})
	require.EqualError(t, p.Fault(record), "row 1 of member 1 is token 2, want one of its 2")
	require.Equal(t, []int32{0, 1, -1, -1, -1, -1, -1}, chosen)
}

// A layer of two ranks whose tokens are split is three segments, and what the host waits for is
// each of its two exchanges, and the results.
func TestLayerSegments(t *testing.T) {
	const tokens, hidden, experts = 64, 32, 8
	for _, exchange := range []ep.Exchange{ep.Rows, ep.Sum} {
		prog, err := graph.Trace("layer", func(tr *graph.Tracer) []*graph.Value {
			x := tr.Input("x", graph.BF16, tokens, hidden)
			logits := primitives.MatMul(primitives.ConvertElementType(x, graph.F32), tr.Input("router", graph.F32, hidden, experts))
			weights, ids, _ := primitives.Route(primitives.RouteOp{TopK: 2, Renormalize: true}, logits, nil)
			r := primitives.Prepare(primitives.PrepareOp{Experts: experts, Exchange: exchange}, ids)
			rows, scale := primitives.DispatchWeighted(r, x, weights)
			y := primitives.GroupedMatMul(r, rows, tr.Input("up", graph.BF16, experts, hidden, hidden))
			y = primitives.ConvertElementType(primitives.Mul(primitives.ConvertElementType(y, graph.F32), primitives.BroadcastInDim(scale, y.Type.Shape, 0)), graph.BF16)
			return []*graph.Value{primitives.Add(x, primitives.Combine(r, y))}
		})
		require.NoError(t, err)
		plan := compiled(t, prog, tokensOn(t, "ep=2", "x"))
		s := plan.Schedule()
		var waits []string
		for i, turn := range s.Turns {
			switch {
			case turn.Wait == 0:
			case i == len(plan.Instrs):
				waits = append(waits, "results")
			default:
				waits = append(waits, plan.Instrs[i].Name())
			}
		}
		require.Equal(t, []string{"all_to_all", "all_to_all", "results"}, waits, "%s", plan)
		require.Len(t, s.Segments, 3, "%s", plan)
		for i := range plan.Instrs {
			require.True(t, plan.Instrs[i].On || plan.Instrs[i].Communicates(), "%s: %s", plan.Instrs[i].Name(), plan.Instrs[i].Why)
		}
	}
}
