package primitives_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

// The contract_*_test.go files test expert parallelism for what
// TransformerEngine's suites test in theirs (tests/jax/test_multi_process_ep.py,
// tests/jax/test_te_ep_moe.py, tests/pytorch/distributed/run_ep.py,
// tests/cpp_distributed/test_ep.cu), but for equality where those suites have
// tolerances. Where the contracts differ, ours is tested:
//
//   - our capacity limits an expert's pairs, over the whole batch, in token
//     order; theirs limits a rank's rows, by slot;
//   - rows in expert order cannot be results of a program, so a slot's
//     values are observed through results that combine or sum them;
//   - a slot is not an index into memory but (expert, place in its queue).
//
// All of it runs with poisoned memory: whatever a kernel leaves unwritten is NaN.

// spread is one way to place a layer on a mesh.
type spread struct {
	mesh     string
	tokens   string // the axes splitting arrays with a row per token
	axis     string // the experts' axis, "" for ep
	exchange ep.Exchange
}

func (s spread) String() string {
	str := fmt.Sprintf("mesh %q tokens %q axis %q", s.mesh, s.tokens, s.axis)
	if s.exchange != ep.Rows {
		str += " " + s.exchange.String()
	}
	return str
}

// spreads are the meshes of every test with -every: with each kind of axis, with both in both orders,
// with axes of size 1, with other names, with ranks in another order, with tokens that only some axes split, and with
// ranks that divide neither tokens nor experts.
var spreads = []spread{
	{mesh: ""},
	{mesh: "ep=1", tokens: "ep"},
	{mesh: "dp=2,ep=2", tokens: "dp.ep"},
	{mesh: "dp=2,ep=2 order=2,0,3,1", tokens: "dp.ep"},
	{mesh: "dp=1,ep=4", tokens: "dp.ep"},
	{mesh: "dp=4", tokens: "dp"},
	{mesh: "dp=4,ep=1", tokens: "dp.ep"},
	{mesh: "ep=3", tokens: "ep"},
	{mesh: "ep=2x2", tokens: "ep"},
	{mesh: "fsdp=2,ep=2", tokens: "fsdp.ep"},
	{mesh: "dp=1,fsdp=2,ep=2", tokens: "dp.fsdp.ep"},
	{mesh: "ep=2,dp=2", tokens: "dp.ep"},
	{mesh: "ep=2,dp=2", tokens: "ep.dp"},
	{mesh: "dp=2,ep=2", tokens: "dp"},
	{mesh: "dp=2,ep=2", tokens: "ep"},
	{mesh: "dp=2,ep=2", tokens: ""},
	{mesh: "dp=2,ep=2", tokens: "dp", exchange: ep.Sum},
	{mesh: "ep=4", tokens: ""},
	{mesh: "ep=3", tokens: "", exchange: ep.Sum},
	{mesh: "dp=2,tp=1,ep=2,pp=1", tokens: "dp.ep"},
	{mesh: "ep=5", tokens: "ep"},
	{mesh: "ep=5", tokens: ""},
	{mesh: "ep=5", tokens: "", exchange: ep.Sum},
	{mesh: "dp=5", tokens: "dp"},
	{mesh: "expert=2,tensor=2", tokens: "expert", axis: "expert"},
	{mesh: "a=2,b=2", tokens: "a.b", axis: "a"},
	{mesh: "a=2,b=2", tokens: "b", axis: "a"},
	{mesh: "b=2,a=2", tokens: "", axis: "a", exchange: ep.Sum},
	{mesh: "fsdp=2,dp=2", tokens: "fsdp.dp", axis: "fsdp"},
}

// twoRanks are the meshes of the suite on the emulated GPU. They are few because kernels
// are compiled for each plan.
var twoRanks = []spread{
	{mesh: ""},
	{mesh: "ep=2", tokens: "ep"},
	{mesh: "dp=2,ep=1", tokens: "dp.ep"},
	{mesh: "ep=2", tokens: ""},
	{mesh: "ep=2", tokens: "", exchange: ep.Sum},
	{mesh: "expert=2", tokens: "expert", axis: "expert"},
}

// fewSpreads are the meshes without -every, one of each kind. Runs with -short have no others: they are for other
// kernels or another processor, on which no exchange depends.
var fewSpreads = []spread{
	{mesh: ""},
	{mesh: "dp=2,ep=2 order=2,0,3,1", tokens: "dp.ep"},
	{mesh: "ep=3", tokens: "ep"},
	{mesh: "ep=2x2", tokens: "ep"},
	{mesh: "dp=2,ep=2", tokens: "dp", exchange: ep.Sum},
	{mesh: "ep=5", tokens: ""},
	{mesh: "b=2,a=2", tokens: "", axis: "a", exchange: ep.Sum},
}

// meshes returns the meshes of this run.
func meshes() []spread {
	switch {
	case *onDevice == "metal-emulated":
		return twoRanks
	case testing.Short(), *onDevice == "" && !*every:
		return fewSpreads
	}
	return spreads
}

func (s spread) parse(t *testing.T) sharding.Mesh {
	m, err := sharding.ParseMesh(s.mesh)
	require.NoError(t, err)
	return m
}

func (s spread) axisName() string {
	if s.axis == "" {
		return "ep"
	}
	return s.axis
}

// eachSpread runs f for every spread.
func eachSpread(t *testing.T, f func(t *testing.T, s spread)) {
	t.Helper()
	for _, s := range meshes() {
		t.Run(s.String(), func(t *testing.T) { f(t, s) })
	}
}

// config places p's inputs. Inputs whose names begin with k are experts' weights, those
// with r are whole on every rank, and all others have a row per token.
func (s spread) config(t *testing.T, p *graph.Program) gomoe.Config {
	m := s.parse(t)
	place := map[string]sharding.Spec{}
	for _, v := range p.In {
		if v.Rank() == 0 {
			continue
		}
		switch v.Name[0] {
		case 'k':
			if m.Size(s.axisName()) > 0 {
				place[v.Name] = sharding.Split(s.axisName())
			}
		case 'r':
		default:
			place[v.Name] = sharding.Split(s.tokens)
		}
	}
	return gomoe.Config{Mesh: m, Place: place, Options: watched(t)}
}

type arrays map[string]array.Array

// open opens p on the spread; it is closed when the test ends.
func (s spread) open(t *testing.T, p *graph.Program) *gomoe.Job {
	t.Helper()
	j, err := gomoe.Open(t.Context(), p, s.config(t, p))
	require.NoError(t, err, "%s\n%s", s, p)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	return j
}

// run runs p once on the inputs that it has.
func (s spread) run(t *testing.T, p *graph.Program, in arrays) []array.Array {
	t.Helper()
	return step(t, s.open(t, p), p, in)
}

func step(t *testing.T, j *gomoe.Job, p *graph.Program, in arrays) []array.Array {
	t.Helper()
	args := arrays{}
	for _, v := range p.In {
		require.Contains(t, in, v.Name)
		args[v.Name] = in[v.Name]
	}
	out, err := j.Step(context.Background(), args)
	require.NoError(t, err)
	return out
}

func trace(t *testing.T, fn func(*graph.Tracer) []*graph.Value) *graph.Program {
	t.Helper()
	p, err := graph.Trace("p", fn)
	require.NoError(t, err)
	return p
}

// same fails the test unless got has exactly the elements want. A NaN always fails it.
func same(t *testing.T, what string, got array.Array, want []float64) {
	t.Helper()
	x := got.Float64s()
	require.Len(t, x, len(want), what)
	for i := range x {
		if x[i] != want[i] {
			t.Fatalf("%s: element %d is %v, want %v\ngot  %v\nwant %v", what, i, x[i], want[i], x, want)
		}
	}
}

func sameInts(t *testing.T, what string, got array.Array, want []int32) {
	t.Helper()
	w := make([]float64, len(want))
	for i, x := range want {
		w[i] = float64(x)
	}
	same(t, what, got, w)
}

func sameBits(t *testing.T, what string, got, want array.Array) {
	t.Helper()
	if !array.Equal(got, want) {
		d, at := array.MaxDiff(got, want)
		t.Fatalf("%s: differs by %g at %d\ngot  %v\nwant %v", what, d, at, got, want)
	}
}

// sameOrClose fails the test unless got is equal to want, which one rank has computed. With
// ep.Sum, whose sums add in another order, elements may differ by tol.
func (s spread) sameOrClose(t *testing.T, what string, got, want array.Array, tol float64) {
	t.Helper()
	if s.exchange == ep.Rows {
		sameBits(t, what, got, want)
	} else if d, at := array.MaxDiff(got, want); !(d <= tol) {
		t.Errorf("%s: element %d differs by %g from one rank, at most %g is allowed", what, at, d, tol)
	}
}

// problem is a layer of linear experts, out[t] = Σ_k w[t,k] x[t] K[idx[t,k]],
// with a cotangent g for its result. Its numbers are small integers, so that
// every sum is exact in every float type, whatever its order.
type problem struct {
	layer         primitives.PrepareOp
	tokens, k     int
	hidden, width int
	idx           []int32
	x, w, kernel  []float64
	g             []float64

	receiver func(token, expert int) int // the rank that gets a token's row; nil if none travels
	of       copiesOf                    // replicas of experts, receiving the rows; nil if there are none
}

func newProblem(r *rand.Rand, l primitives.PrepareOp, tokens, k int) *problem {
	p := &problem{layer: l, tokens: tokens, k: k, hidden: 4, width: 3}
	small := func(n, lo, hi int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(lo + r.IntN(hi-lo+1))
		}
		return x
	}
	p.x = small(tokens*p.hidden, -2, 2)
	p.w = small(tokens*k, 0, 2) // zeros are weights like any other
	p.kernel = small(l.Experts*p.hidden*p.width, -1, 1)
	p.g = small(tokens*p.width, -2, 2)
	p.route(func(int, int) int { return r.IntN(l.Experts+1) - 1 })
	return p
}

func (p *problem) route(f func(token, choice int) int) *problem {
	p.idx = make([]int32, p.tokens*p.k)
	for i := range p.idx {
		p.idx[i] = int32(f(i/p.k, i%p.k))
	}
	return p
}

// kept returns, for each pair, whether it has a row: the capacity limits each expert's
// queue, which is in the order of tokens and choices, and then the receive capacity limits
// the rows of each receiver, in the order of tokens.
func (p *problem) kept() []bool {
	queue := make([]int, p.layer.Experts)
	kept, to := make([]bool, len(p.idx)), slices.Clone(p.idx)
	for i, e := range p.idx {
		if e >= 0 {
			if p.of != nil {
				to[i] = int32(p.of.copy(e, queue[e]))
			}
			kept[i] = p.layer.Capacity == 0 || queue[e] < p.layer.Capacity
			queue[e]++
		}
	}
	if p.layer.Receive == 0 || p.receiver == nil {
		return kept
	}
	rows := map[int]int{}
	for t := range p.tokens {
		accepted := map[int]bool{} // by receiver of the token's row
		for i := t * p.k; i < (t+1)*p.k; i++ {
			if !kept[i] {
				continue
			}
			to := p.receiver(t, int(to[i]))
			if _, is := accepted[to]; !is {
				accepted[to] = rows[to] < p.layer.Receive
				rows[to]++
			}
			kept[i] = accepted[to]
		}
	}
	return kept
}

// dense is the layer without any dispatch: loops over tokens and choices.
func (p *problem) dense() (out, dx, dw, dk []float64) {
	h, f := p.hidden, p.width
	out, dx = make([]float64, p.tokens*f), make([]float64, p.tokens*h)
	dw, dk = make([]float64, len(p.idx)), make([]float64, p.layer.Experts*h*f)
	for i, kept := range p.kept() {
		if !kept {
			continue
		}
		t, e, w := i/p.k, int(p.idx[i]), p.w[i]
		for a := range h {
			for b := range f {
				m := p.kernel[(e*h+a)*f+b]
				x, g := p.x[t*h+a], p.g[t*f+b]
				out[t*f+b] += w * x * m
				dx[t*h+a] += w * m * g
				dw[i] += x * m * g
				dk[(e*h+a)*f+b] += w * x * g
			}
		}
	}
	return out, dx, dw, dk
}

func (p *problem) arrays(d graph.DType) arrays {
	return arrays{
		"idx":    ids(p.idx, p.tokens, p.k),
		"x":      of(graph.T(d, p.tokens, p.hidden), p.x),
		"w":      of(graph.T(d, p.tokens, p.k), p.w),
		"kernel": of(graph.T(d, p.layer.Experts, p.hidden, p.width), p.kernel),
		"ct_0":   of(graph.T(d, p.tokens, p.width), p.g),
	}
}

func ids(idx []int32, shape ...int) array.Array {
	a := array.New(graph.T(graph.I32, shape...))
	copy(array.Data[int32](a), idx)
	return a
}

// program is the problem's layer; the experts are split over the spread's axis.
func (p *problem) program(t *testing.T, s spread, d graph.DType) *graph.Program {
	l := p.layer
	l.Axis, l.Exchange = s.axis, s.exchange
	return trace(t, func(tr *graph.Tracer) []*graph.Value {
		r := primitives.Prepare(l, tr.Input("idx", graph.I32, p.tokens, p.k))
		return []*graph.Value{experts(r, tr.Input("x", d, p.tokens, p.hidden), tr.Input("w", d, p.tokens, p.k),
			tr.Input("kernel", d, l.Experts, p.hidden, p.width))}
	})
}

// experts is a layer of linear experts dispatching weights with the tokens.
func experts(r primitives.Prepared, x, w, kernel *graph.Value) *graph.Value {
	rows, rw := primitives.DispatchWeighted(r, x, w)
	return primitives.Combine(r, weighted(primitives.GroupedMatMul(r, rows, kernel), rw))
}

// weighted returns every row times its weight.
func weighted(rows, rw *graph.Value) *graph.Value {
	return primitives.Mul(rows, primitives.BroadcastInDim(rw, rows.Type.Shape, 0))
}

func rng(seed int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 11)) }

var floatTypes = []graph.DType{graph.F32, graph.BF16, graph.F16, graph.F64}
