package primitives_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// forgetful writes the first half of its result only.
type forgetful struct{}

func (forgetful) Name() string                                         { return "forgetful" }
func (forgetful) Infer(in []graph.Type) ([]graph.Type, error)          { return in, nil }
func (forgetful) Shard(c *sharding.Context) (sharding.Decision, error) { return c.Whole() }
func (forgetful) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: toy.Op("forgetful"), Out: out, In: in, Kernel: func(a *exec.Args) error {
		copy(a.Out[0].Bytes()[:len(a.Out[0].Bytes())/2], a.In[0].Bytes())
		return nil
	}})
}

// These tests rely on poison, marking unwritten elements in every type.
func TestContractPoisonShows(t *testing.T) {
	for _, d := range []graph.DType{graph.F32, graph.F64, graph.F16, graph.BF16, graph.I32, graph.I64} {
		p := trace(t, func(tr *graph.Tracer) []*graph.Value {
			return []*graph.Value{graph.Apply1(forgetful{}, tr.Input("x", d, 4))}
		})
		in := arrays{"x": of(graph.T(d, 4), []float64{1, 2, 3, 4})}
		for _, poison := range []bool{false, true} {
			out, err := gomoe.Run(context.Background(), p, gomoe.Config{Options: runtime.Options{Poison: poison}}, in)
			require.NoError(t, err)
			x := out[0].Float64s()
			shows := x[2] > 1e9
			if d.IsFloat() {
				shows = math.IsNaN(x[2]) && math.IsNaN(x[3])
			}
			if x[0] != 1 || x[1] != 2 || shows != poison {
				t.Errorf("%s, poison %v: got %v", d, poison, x)
			}
		}
	}
}

// peek is the identity on rows in expert order. It fails if rows of experts' zones past
// the counts are not zero, or if a NaN is anywhere in the zones. Rows past the last zone
// may hold anything.
type peek struct{}

func (peek) Name() string                                { return "peek" }
func (peek) Infer(in []graph.Type) ([]graph.Type, error) { return in[:1], nil }
func (peek) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Factors{In: [][]int{{0, 1}}, Out: [][]int{{0, 1}}, RowWise: true})
}
func (peek) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	counts, align, err := e.RowCounts(in[0].Spec)
	if err != nil {
		return err
	}
	// Without their ragged mark the runtime neither cuts nor zeroes the rows.
	x, y := in[0], out[0]
	x.Spec, y.Spec = sharding.Spec{}, sharding.Spec{}
	return e.Emit(lowering.KernelSpec{Op: toy.Op("peek"), Out: []lowering.Buf{y}, In: []lowering.Buf{x, counts}, Kernel: func(a *exec.Args) error {
		rows, h := a.In[0].Type.Shape[0], a.In[0].Type.Shape[1]
		x := a.In[0].Float64s()
		used := make([]bool, rows)
		at := 0
		for _, n := range array.Data[int32](a.In[1]) {
			for i := range int(n) {
				used[at+i] = true
			}
			at += int(n)
			if align > 1 {
				at = (at + align - 1) / align * align
			}
		}
		for i, v := range x[:at*h] {
			if math.IsNaN(v) || !used[i/h] && v != 0 {
				return errors.New("row past the counts is not zero")
			}
		}
		copy(a.Out[0].Bytes(), a.In[0].Bytes())
		return nil
	}})
}

// The rows that fill up experts' zones are zero after dispatch, after a row-wise
// primitive that does not map zero to zero, and after the grouped matmul, forward and
// backward, on a session reusing the memory of other routings.
func TestContractRowsPastCountsAreZero(t *testing.T) {
	for _, align := range []int{0, 4} {
		l := primitives.PrepareOp{Experts: 12, Align: align}
		eachSpread(t, func(t *testing.T, s spread) {
			l := l
			l.Axis, l.Exchange = s.axis, s.exchange
			prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
				r := primitives.Prepare(l, tr.Input("idx", graph.I32, 12, 2))
				look := func(x *graph.Value) *graph.Value { return graph.Apply1(peek{}, x) }
				rows := look(primitives.Dispatch(r, tr.Input("x", graph.F32, 12, 4)))
				ones := look(primitives.Exp(rows)) // 1 where a token is, 0 past the counts
				count := primitives.ReduceSum(ones, 0)
				y := look(primitives.GroupedMatMul(r, ones, tr.Input("kernel", graph.F32, 12, 4, 3)))
				return []*graph.Value{count, primitives.Combine(r, y)}
			})
			j := s.open(t, prog)
			for i, route := range []func(r int) int{
				func(r int) int { return r % 12 }, func(int) int { return 11 }, func(int) int { return -1 },
				func(r int) int { return r%13 - 1 }, func(int) int { return 0 },
			} {
				p := newProblem(rng(i), l, 12, 2)
				rr := rng(i)
				p.route(func(int, int) int { return route(rr.IntN(1 << 20)) })
				for k := range p.x {
					p.x[k] = 0
				}
				out := step(t, j, prog, p.arrays(graph.F32))
				n := 0.0
				for _, e := range p.idx {
					if e >= 0 {
						n++
					}
				}
				same(t, "exp(0) summed over rows", out[0], []float64{n, n, n, n})
			}
		})
	}
}

// extremes are routings that leave ranks, experts or everything empty.
var extremes = []struct {
	name  string
	route func(token, choice int) int
}{
	{"even", func(t, k int) int { return (2*t + k) % 12 }},
	{"all tokens to one expert", func(int, int) int { return 4 }},
	{"all tokens to the last expert", func(int, int) int { return 11 }},
	{"only the experts of one rank", func(t, k int) int { return k }},
	{"nothing chosen", func(int, int) int { return -1 }},
	{"tokens of the first half only", func(t, k int) int {
		if t < 6 {
			return (5*t + k) % 12
		}
		return -1
	}},
	{"one pair", func(t, k int) int {
		if t == 7 && k == 1 {
			return 9
		}
		return -1
	}},
}

// With ranks and experts without tokens, results and gradients stay exact, and the
// weight gradient of an expert without tokens is exactly 0. This runs on one session, in
// which every routing follows every other, so that memory is never clean.
func TestContractEmptyExpertsAndRanks(t *testing.T) {
	for _, d := range []graph.DType{graph.F32, graph.BF16} {
		for _, align := range []int{0, 16} {
			l := primitives.PrepareOp{Experts: 12, Align: align}
			t.Run(d.String(), func(t *testing.T) {
				eachSpread(t, func(t *testing.T, s spread) {
					p := newProblem(rng(7), l, 12, 2)
					fwd, bwd := p.program(t, s, d), pullback(t, p.program(t, s, d))
					jf, jb := s.open(t, fwd), s.open(t, bwd)
					for i := range extremes {
						// i, i+1, i, i+2, i, ...: every one follows every other.
						order := []int{i}
						for k := i + 1; k < len(extremes); k++ {
							order = append(order, k, i)
						}
						for _, e := range order {
							p.route(extremes[e].route)
							out, dx, dw, dk := p.dense()
							in := p.arrays(d)
							same(t, extremes[e].name+": out", step(t, jf, fwd, in)[0], out)
							got := step(t, jb, bwd, in)
							same(t, extremes[e].name+": gradient of tokens", got[0], dx)
							same(t, extremes[e].name+": gradient of weights", got[1], dw)
							same(t, extremes[e].name+": gradient of experts", got[2], dk)
						}
					}
				})
			})
		}
	}
}

// Without tokens, with one token per rank, one expert per rank, or a single choice,
// results and gradients are right, and zeros where there is nothing to sum.
func TestContractSmallestSizes(t *testing.T) {
	for _, c := range []struct{ tokens, experts, k int }{{0, 12, 2}, {4, 4, 1}, {4, 4, 4}, {12, 12, 1}} {
		p := newProblem(rng(c.tokens), primitives.PrepareOp{Experts: c.experts, Align: 2}, c.tokens, c.k)
		out, dx, dw, dk := p.dense()
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			eachSpread(t, func(t *testing.T, s spread) {
				in := p.arrays(graph.F32)
				same(t, "out", s.run(t, p.program(t, s, graph.F32), in)[0], out)
				got := s.run(t, pullback(t, p.program(t, s, graph.F32)), in)
				same(t, "gradient of tokens", got[0], dx)
				same(t, "gradient of weights", got[1], dw)
				same(t, "gradient of experts", got[2], dk)
			})
		})
	}
	for _, s := range []spread{{}, {mesh: "ep=1", tokens: "ep"}, {mesh: "dp=4", tokens: "dp"}} {
		p := newProblem(rng(1), primitives.PrepareOp{Experts: 1, Capacity: 5}, 4, 3)
		out, _, _, dk := p.dense()
		same(t, s.String(), s.run(t, p.program(t, s, graph.F32), p.arrays(graph.F32))[0], out)
		same(t, s.String(), s.run(t, pullback(t, p.program(t, s, graph.F32)), p.arrays(graph.F32))[2], dk)
	}
}

// NaNs in a token do not reach other tokens that choose the same experts: a token's
// result depends only on its own rows.
func TestContractNaNStaysWithItsToken(t *testing.T) {
	p := newProblem(rng(7), primitives.PrepareOp{Experts: 12, Align: 4}, 12, 2)
	for c := range p.hidden {
		p.x[3*p.hidden+c] = math.NaN()
	}
	p.idx[6], p.idx[7] = 2, 5
	out, _, _, _ := p.dense()
	eachSpread(t, func(t *testing.T, s spread) {
		got := s.run(t, p.program(t, s, graph.F32), p.arrays(graph.F32))[0].Float64s()
		for i, x := range got {
			if token := i / p.width; token == 3 {
				if p.w[6] != 0 && !math.IsNaN(x) {
					t.Errorf("token 3 has lost its NaN: %v", x)
				}
			} else if x != out[i] {
				t.Errorf("element %d of token %d is %v, want %v", i, token, x, out[i])
			}
		}
	})
}

// A thousand steps of one session, each with another routing than the last, do
// not wait for the remains of an earlier step, with one processor.
func TestContractThousandSteps(t *testing.T) {
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
	p := newProblem(rng(7), primitives.PrepareOp{Experts: 12, Align: 2}, 12, 2)
	s := spread{mesh: "dp=2,ep=2", tokens: "dp.ep"}
	prog := pullback(t, p.program(t, s, graph.F32))
	var ins []arrays
	var want [][3][]float64
	for _, e := range extremes {
		p.route(e.route)
		_, dx, dw, dk := p.dense()
		ins, want = append(ins, p.arrays(graph.F32)), append(want, [3][]float64{dx, dw, dk})
	}
	j := s.open(t, prog)
	r := rng(1)
	for range 1000 {
		e := r.IntN(len(ins))
		for i, x := range step(t, j, prog, ins[e]) {
			same(t, extremes[e].name, x, want[e][i])
		}
	}
}

// The check for finite results does not look at rows past the last zone, which
// poison fills here.
func TestContractFiniteLooksAtZones(t *testing.T) {
	for _, mesh := range []string{"", "ep=2"} {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		p := trace(t, func(tr *graph.Tracer) []*graph.Value {
			r := primitives.Prepare(primitives.PrepareOp{Experts: 4, Align: 4}, tr.Input("idx", graph.I32, 8, 2))
			rows := primitives.Dispatch(r, tr.Input("x", graph.F32, 8, 3))
			return []*graph.Value{primitives.Combine(r, primitives.Exp(primitives.Exp(rows)))}
		})
		idx := make([]float64, 16)
		for i := range idx {
			idx[i] = -1
		}
		idx[5] = 2
		for _, x := range []float64{0, 1e3} {
			xs := make([]float64, 24)
			xs[7] = x
			_, err := gomoe.Run(context.Background(), p, gomoe.Config{Mesh: m, Options: runtime.Options{Poison: true, Finite: true}},
				arrays{"idx": of(graph.T(graph.I32, 8, 2), idx), "x": of(graph.T(graph.F32, 8, 3), xs)})
			if (err != nil) != (x > 0) {
				t.Errorf("mesh %q, exp(exp(%v)): error %v", mesh, x, err)
			}
		}
	}
}
