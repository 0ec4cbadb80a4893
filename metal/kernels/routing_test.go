package kernels_test

import (
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/metal/metaltest"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

// compare compares a program's instructions on the device with the host's; those of the
// given names must be among them.
func compare(t *testing.T, p *graph.Program, cfg gomoe.Config, in map[string]array.Array, names ...string) {
	t.Helper()
	metaltest.Check(t, p, cfg, in, metaltest.Options{Instructions: names, Seed: 7})
}

// tokensOn splits the named inputs' tokens over all axes of a mesh.
func tokensOn(t *testing.T, mesh string, names ...string) gomoe.Config {
	m, err := sharding.ParseMesh(mesh)
	require.NoError(t, err)
	cfg := gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{}}
	var axes []string
	for _, a := range m.Axes {
		axes = append(axes, a.Name)
	}
	for _, name := range names {
		if len(axes) > 0 {
			cfg.Place[name] = sharding.Split(strings.Join(axes, "."))
		}
	}
	return cfg
}

// randomFloats are of a normal distribution.
func randomFloats(r *rand.Rand, t graph.Type) array.Array {
	x := make([]float64, t.Len())
	for i := range x {
		x[i] = r.NormFloat64()
	}
	a := array.New(t)
	if err := a.SetFloat64s(x); err != nil {
		panic(err)
	}
	return a
}

// choices are the experts that tokens choose, by what is peculiar about them.
var choices = map[string]func(r *rand.Rand, i, experts int) int{
	"anywhere":     func(r *rand.Rand, _, experts int) int { return r.IntN(experts) },
	"or nowhere":   func(r *rand.Rand, _, experts int) int { return r.IntN(experts+1) - 1 },
	"all to one":   func(_ *rand.Rand, _, experts int) int { return experts * 2 / 3 },
	"nobody":       func(*rand.Rand, int, int) int { return -1 },
	"to the last":  func(r *rand.Rand, _, experts int) int { return experts - 1 - r.IntN(2)*(experts-1) },
	"one by one":   func(_ *rand.Rand, i, experts int) int { return i % experts },
	"only a half":  func(r *rand.Rand, _, experts int) int { return r.IntN((experts + 1) / 2) },
	"in the order": func(_ *rand.Rand, i, experts int) int { return min(i/3, experts-1) },
}

// layer is an MoE layer without experts, for tokens of some size.
type layer struct {
	primitives.PrepareOp
	tokens, choices, hidden int
	d, weights, ids         graph.DType
}

// program dispatches tokens, alone and with their weights, and brings rows, and weights,
// home, in both directions of every primitive.
func (l layer) program(t *testing.T) *graph.Program {
	p, err := graph.Trace("layer", func(tr *graph.Tracer) []*graph.Value {
		x, w := tr.Input("x", l.d, l.tokens, l.hidden), tr.Input("w", l.weights, l.tokens, l.choices)
		r := primitives.Prepare(l.PrepareOp, tr.Input("ids", l.ids, l.tokens, l.choices))
		rows, rowWeights := primitives.DispatchWeighted(r, x, w)
		combine := primitives.CombineOp{Experts: l.Experts, Capacity: l.Capacity, Align: l.Align, Exchange: l.Exchange, Wire: l.Wire}
		weighted := rowWeights // so that the rows of a token differ
		if l.d != l.weights {
			weighted = primitives.ConvertElementType(weighted, l.d)
		}
		both := graph.Apply(combine, primitives.Mul(rows, primitives.BroadcastInDim(weighted, rows.Type.Shape, 0)), rowWeights, r.Value)
		one := primitives.Combine(r, primitives.Dispatch(r, x))
		return []*graph.Value{both[0], both[1], one, r.Value, r.Dropped, r.Counts, r.Padded, r.Demand}
	})
	require.NoError(t, err)
	return p
}

// inputs are what the program takes.
func (l layer) inputs(r *rand.Rand, choose func(r *rand.Rand, i, experts int) int) map[string]array.Array {
	ids := make([]float64, l.tokens*l.choices)
	for i := range ids {
		ids[i] = float64(choose(r, i, l.Experts))
	}
	in := map[string]array.Array{
		"x": randomFloats(r, graph.T(l.d, l.tokens, l.hidden)), "w": randomFloats(r, graph.T(l.weights, l.tokens, l.choices)),
		"ids": array.New(graph.T(l.ids, l.tokens, l.choices)),
	}
	if err := in["ids"].SetFloat64s(ids); err != nil {
		panic(err)
	}
	return in
}

// here and away are the instructions of a layer whose experts are on one rank, and on
// several; ways home are those with which rows come back from several.
var (
	prepared = []string{"ep_prepare", "ep_zones"}
	returned = []string{"ep_send_order", "ep_recv_order", "ep_sum"}
	here     = slices.Concat([]string{"ep_count", "ep_order", "ep_place"}, prepared, returned)
	travel   = slices.Concat([]string{"ep_choices", "ep_table", "ep_journey", "ep_pack", "ep_place"}, prepared)
	away     = slices.Concat([]string{"ep_pack_rows"}, travel, returned)
	waysHome = map[ep.Exchange][]string{ep.Rows: away, ep.Sum: append([]string{"ep_slots", "ep_pack_sums", "ep_sum_ranks"}, travel...)}
)

func (l layer) check(t *testing.T, mesh string, in map[string]array.Array) {
	names := waysHome[l.Exchange]
	switch {
	case !strings.Contains(mesh, "ep="):
		names = here
	case l.Capacity > 0:
		names = append([]string{"ep_keep"}, names...)
	}
	compare(t, l.program(t), tokensOn(t, mesh, "x", "w", "ids"), in, names...)
}

// meshes that layers run on.
var meshes = []string{"", "dp=2", "ep=2", "dp=2,ep=2", "ep=2,dp=2", "ep=3", "dp=3", "ep=none/0/1-10"}

// Whatever tokens choose, with capacities and alignments, every instruction does what the
// host kernel does, bit by bit, on every mesh.
func TestRoutedLayer(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	cuts := [][2]int{{0, 0}, {1 << 40, 8}, {3, 1}, {5, 4}} // capacity and alignment
	for i, name := range slices.Sorted(maps.Keys(choices)) {
		for j, mesh := range meshes {
			if !sampled(i, j) {
				continue
			}
			cut := cuts[(i+j)%len(cuts)]
			exchange := []ep.Exchange{ep.Rows, ep.Sum}[(i+j/2)%2]
			l := layer{primitives.PrepareOp{Experts: 11, Capacity: cut[0], Align: cut[1], Exchange: exchange}, 20, 3, 5, graph.F32, graph.F32, graph.I32}
			t.Run(fmt.Sprint(name, " mesh ", mesh, " ", cut, " ", exchange), func(t *testing.T) { l.check(t, mesh, l.inputs(r, choices[name])) })
		}
	}
}

// Rows of every element type, beside weights of every type: they begin at multiples of 1,
// 2, 4 and 16 bytes on the wire.
func TestRoutedPayloads(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	floats := []graph.DType{graph.F32, graph.BF16, graph.F16}
	sizes := []int{1, 8, 31, 100, 1028, 33}
	n := 0
	for _, d := range floats {
		for _, w := range floats {
			for i, mesh := range []string{"", "ep=2", "", "ep=2", "ep=2", "ep=2"} {
				hidden, exchange := sizes[n%len(sizes)], []ep.Exchange{ep.Rows, ep.Sum}[i/4]
				n++
				if !sampled((n-1)/6, i) {
					continue
				}
				l := layer{primitives.PrepareOp{Experts: 4, Align: 2, Exchange: exchange}, 6, 2, hidden, d, w, graph.I64}
				t.Run(fmt.Sprint(d, w, hidden, mesh, exchange), func(t *testing.T) { l.check(t, mesh, l.inputs(r, choices["or nowhere"])) })
			}
		}
	}
}

// Tokens that are not numbers, such as bytes, are dispatched, too.
func TestRoutedBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for i, d := range []graph.DType{graph.U8, graph.Bool, graph.I32, graph.I64, graph.F64} {
		for j, mesh := range []string{"", "ep=2"} {
			for _, hidden := range []int{16, []int{1, 3, 100}[(i+j)%3]} {
				p, err := graph.Trace("bytes", func(tr *graph.Tracer) []*graph.Value {
					x := tr.Input("x", d, 10, hidden)
					route := primitives.Prepare(primitives.PrepareOp{Experts: 4, Align: 4}, tr.Input("ids", graph.I32, 10, 2))
					rows := primitives.Dispatch(route, x)
					return []*graph.Value{primitives.Combine(route, primitives.ConvertElementType(rows, graph.F32))}
				})
				require.NoError(t, err)
				in := map[string]array.Array{"x": array.New(p.In[0].Type), "ids": array.New(p.In[1].Type)}
				for i := range in["x"].Bytes() {
					in["x"].Bytes()[i] = byte(r.IntN(2)) // a bool is 0 or 1
				}
				for i := range array.Data[int32](in["ids"]) {
					array.Data[int32](in["ids"])[i] = int32(r.IntN(5) - 1)
				}
				t.Run(fmt.Sprint(d, hidden, mesh), func(t *testing.T) { compare(t, p, tokensOn(t, mesh, "x", "ids"), in, "ep_place") })
			}
		}
	}
}

// Tokens from one to so many that pairs are cut into segments, few experts and more than
// 512, one choice and many.
func TestRoutedSizes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for i, s := range [][3]int{{0, 2, 4}, {1, 1, 1}, {1, 8, 512}, {31, 1, 33}, {33, 2, 31}, {512, 1, 2}, {513, 1, 7}, {170, 6, 600}, {560, 4, 64}, {300, 4, 1}} {
		for j, mesh := range []string{"", "ep=2", "dp=2,ep=2"} {
			if !sampled(i, j) {
				continue
			}
			id := []graph.DType{graph.I32, graph.I64}[(i+j)%2]
			exchange := []ep.Exchange{ep.Rows, ep.Sum}[(i/2+j)%2]
			l := layer{primitives.PrepareOp{Experts: s[2], Align: 2, Capacity: 3 * s[0] * s[1] / s[2], Exchange: exchange}, s[0], s[1], 2, graph.F32, graph.F32, id}
			t.Run(fmt.Sprint(s, mesh, id, exchange), func(t *testing.T) { l.check(t, mesh, l.inputs(r, choices["or nowhere"])) })
		}
	}
}

// A routing that something else has made is counted, and followed like one of ep_prepare.
func TestRoutingFromElsewhere(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, tokens := range []int{8, 400} {
		for _, mesh := range []string{"", "dp=2,ep=2"} {
			p, err := graph.Trace("elsewhere", func(tr *graph.Tracer) []*graph.Value {
				x, routing := tr.Input("x", graph.F32, tokens, 4), tr.Input("routing", graph.I32, tokens, 3, 2)
				d := primitives.DispatchOp{Experts: 6, Align: 2}
				rows := graph.Apply1(d, x, routing)
				return []*graph.Value{graph.Apply1(primitives.CombineOp(d), rows, routing)}
			})
			require.NoError(t, err)
			in := map[string]array.Array{"x": randomFloats(r, p.In[0].Type), "routing": array.New(p.In[1].Type)}
			next, pairs := make([]int32, 6), array.Data[int32](in["routing"])
			for i := 0; i < len(pairs); i += 2 {
				pairs[i], pairs[i+1] = -1, -1
				if e := r.IntN(7); e < 6 {
					pairs[i], pairs[i+1] = int32(e), next[e]
					next[e]++
				}
			}
			t.Run(fmt.Sprint(tokens, mesh), func(t *testing.T) {
				names := []string{"ep_send_order", "ep_recv_order", "ep_zones"}
				if mesh == "" {
					names = append(names, "ep_count")
				} else {
					names = append(names, "ep_pack_inline", "ep_arrived", "ep_table", "ep_journey")
				}
				compare(t, p, tokensOn(t, mesh, "x", "routing"), in, names...)
			})
		}
	}
}

// Pairs of a rank's experts are found and compacted in order, the same way as those of all:
// what ep_send_order is made of takes any run of experts.
func TestOwnedPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	const experts, n = 24, 300
	routing := make([]int32, 2*n)
	for i := range n {
		routing[2*i] = int32(r.IntN(experts+1) - 1)
	}
	for _, own := range [][2]int{{0, experts}, {0, 8}, {8, 8}, {23, 1}, {5, 17}} {
		first, count := own[0], own[1]
		place := make([]int32, n)
		params := kernels.Params(n, 320, 1, 2, first, count, uint32(bits.Len(uint(count-1))))
		launch(t, &kernels.Program{Launches: []kernels.Launch{{
			Source: kernels.Source{File: "ep_send_order.metal"}, Function: "ep_send_order",
			Args:   []kernels.Arg{kernels.In(0), kernels.In(0), kernels.In(0), kernels.Out(0), params},
			Memory: []int{(4*count + 15) / 16 * 16}, Groups: [3]int{1, 1, 1}, Threads: [3]int{32, 1, 1},
		}}}, [][]byte{raw(routing)}, [][]byte{raw(place)})
		owned := slices.Clone(routing)
		for i := 0; i < len(owned); i += 2 {
			if e := int(owned[i]); e < first || e >= first+count {
				owned[i] = -1
			}
		}
		want, order := make([]int32, n), make([]int32, n)
		ep.Inverse(want, order[:ep.SendOrder(order, make([]int32, experts), owned, 0)])
		same(t, fmt.Sprint(own), place, want)
	}
}
