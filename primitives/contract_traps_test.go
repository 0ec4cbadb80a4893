package primitives_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// mistake is a program with a mistake, which is in one line of this file.
type mistake struct {
	name string
	fn   func(tr *graph.Tracer) []*graph.Value
	want string
}

func wrong(name string, fn func(tr *graph.Tracer) []*graph.Value, want string) mistake {
	return mistake{name, fn, want}
}

// nextLine returns "file:line" of the line after its caller's.
func nextLine() string {
	_, file, line, _ := runtime.Caller(1)
	return fmt.Sprintf("%s:%d", filepath.Base(file), line+1)
}

// Mistakes with routings and rows are found before anything runs and are
// reported at the user's line, on one rank as on four.
func TestContractMistakesAtTheUsersLine(t *testing.T) {
	var line string // of the mistake
	l := primitives.PrepareOp{Experts: 4}
	prepare := func(tr *graph.Tracer, name string, tokens, k int) primitives.Prepared {
		return primitives.Prepare(l, tr.Input(name, graph.I32, tokens, k))
	}
	x := func(tr *graph.Tracer) *graph.Value { return tr.Input("x", graph.F32, 8, 4) }
	for _, m := range []mistake{
		wrong("combine with the routing of another layer", func(tr *graph.Tracer) []*graph.Value {
			a, b := prepare(tr, "idx", 8, 2), prepare(tr, "idy", 8, 2)
			rows := primitives.Dispatch(a, x(tr))
			line = nextLine()
			out := primitives.Combine(b, rows)
			return []*graph.Value{out}
		}, "another routing; combine them with the routing that dispatched them"),
		wrong("multiply with the routing of another layer", func(tr *graph.Tracer) []*graph.Value {
			a, b := prepare(tr, "idx", 8, 2), prepare(tr, "idy", 8, 2)
			rows := primitives.Dispatch(a, x(tr))
			line = nextLine()
			y := primitives.GroupedMatMul(b, rows, tr.Input("kernel", graph.F32, 4, 4, 3))
			return []*graph.Value{primitives.Combine(a, y)}
		}, "another routing; use the routing that dispatched them"),
		wrong("add rows of two routings", func(tr *graph.Tracer) []*graph.Value {
			a, b := prepare(tr, "idx", 8, 2), prepare(tr, "idy", 8, 2)
			ra, rb := primitives.Dispatch(a, x(tr)), primitives.Dispatch(b, tr.Input("y", graph.F32, 8, 4))
			line = nextLine()
			sum := primitives.Add(ra, rb)
			return []*graph.Value{primitives.Combine(a, sum)}
		}, "different routings; combine first"),
		wrong("dispatch the tokens of another batch", func(tr *graph.Tracer) []*graph.Value {
			r := prepare(tr, "idx", 8, 2)
			line = nextLine()
			rows := primitives.Dispatch(r, tr.Input("x", graph.F32, 6, 4))
			return []*graph.Value{primitives.Combine(r, rows)}
		}, "not of the batch [8] that was routed; route the same tokens"),
		wrong("dispatch weights of another batch", func(tr *graph.Tracer) []*graph.Value {
			r := prepare(tr, "idx", 8, 2)
			line = nextLine()
			rows, _ := primitives.DispatchWeighted(r, x(tr), tr.Input("w", graph.F32, 4, 4))
			return []*graph.Value{primitives.Combine(r, rows)}
		}, "not of the batch [8] that was routed; route the same tokens"),
		wrong("one weight per token", func(tr *graph.Tracer) []*graph.Value {
			r := prepare(tr, "idx", 8, 2)
			line = nextLine()
			rows, _ := primitives.DispatchWeighted(r, x(tr), tr.Input("w", graph.F32, 8, 1))
			return []*graph.Value{primitives.Combine(r, rows)}
		}, "want [8,2], one per token and choice"),
		wrong("integer weights", func(tr *graph.Tracer) []*graph.Value {
			r := prepare(tr, "idx", 8, 2)
			line = nextLine()
			rows, _ := primitives.DispatchWeighted(r, x(tr), tr.Input("w", graph.I32, 8, 2))
			return []*graph.Value{primitives.Combine(r, rows)}
		}, "element type i32, want f64, f32, bf16 or f16; convert with convert_element_type"),
		wrong("combine tokens that were not dispatched", func(tr *graph.Tracer) []*graph.Value {
			r := prepare(tr, "idx", 8, 2)
			rows := tr.Input("x", graph.F32, 16, 4)
			line = nextLine()
			out := primitives.Combine(r, rows)
			return []*graph.Value{out}
		}, "not in expert order; give it what ep_dispatch made"),
		wrong("combine rows of another size", func(tr *graph.Tracer) []*graph.Value {
			r := prepare(tr, "idx", 8, 2)
			line = nextLine()
			out := primitives.Combine(r, x(tr))
			return []*graph.Value{out}
		}, "want [16, hidden] as ep_dispatch of this layer makes them"),
		wrong("multiply tokens that were not dispatched", func(tr *graph.Tracer) []*graph.Value {
			r := prepare(tr, "idx", 8, 2)
			rows := tr.Input("x", graph.F32, 16, 4)
			line = nextLine()
			y := primitives.GroupedMatMul(r, rows, tr.Input("kernel", graph.F32, 4, 4, 3))
			return []*graph.Value{y}
		}, "not in expert order; give it what ep_dispatch made"),
		wrong("experts' weights for another number of experts", func(tr *graph.Tracer) []*graph.Value {
			r := prepare(tr, "idx", 8, 2)
			rows := primitives.Dispatch(r, x(tr))
			line = nextLine()
			y := primitives.GroupedMatMul(r, rows, tr.Input("kernel", graph.F32, 8, 4, 3))
			return []*graph.Value{primitives.Combine(r, y)}
		}, "of 8 experts, but tokens were routed to 4; give PrepareOp.Experts as many"),
		wrong("experts' weights of other columns", func(tr *graph.Tracer) []*graph.Value {
			r := prepare(tr, "idx", 8, 2)
			rows := primitives.Dispatch(r, x(tr))
			line = nextLine()
			y := primitives.GroupedMatMul(r, rows, tr.Input("kernel", graph.F32, 4, 5, 3))
			return []*graph.Value{primitives.Combine(r, y)}
		}, "rows have 4 columns, want 5"),
		wrong("rows as a result", func(tr *graph.Tracer) []*graph.Value {
			r := prepare(tr, "idx", 8, 2)
			line = nextLine()
			rows := primitives.Dispatch(r, x(tr))
			return []*graph.Value{rows}
		}, "is in expert order and its number of rows is known only to the run; return ep_combine of it"),
		wrong("cut rows at a fixed slab per expert", func(tr *graph.Tracer) []*graph.Value {
			r := prepare(tr, "idx", 8, 2)
			rows := primitives.Dispatch(r, x(tr))
			line = nextLine()
			slabs := primitives.Reshape(rows, 4, 4, 4)
			return []*graph.Value{slabs}
		}, "expert order"),
		wrong("reverse the rows", func(tr *graph.Tracer) []*graph.Value {
			r := prepare(tr, "idx", 8, 2)
			rows := primitives.Dispatch(r, x(tr))
			line = nextLine()
			back := primitives.Reverse(rows, 0)
			return []*graph.Value{primitives.Combine(r, back)}
		}, "expert order and its number of rows is known only to the run; use row-wise primitives and grouped_matmul, or ep_combine first"),
		wrong("softmax over the rows", func(tr *graph.Tracer) []*graph.Value {
			r := prepare(tr, "idx", 8, 2)
			rows := primitives.Dispatch(r, x(tr))
			line = nextLine()
			soft := primitives.Softmax(rows, 0)
			return []*graph.Value{primitives.Combine(r, soft)}
		}, "expert order"),
		wrong("transpose the rows", func(tr *graph.Tracer) []*graph.Value {
			r := prepare(tr, "idx", 8, 2)
			rows := primitives.Dispatch(r, x(tr))
			line = nextLine()
			turned := primitives.Transpose(rows, 1, 0)
			return []*graph.Value{turned}
		}, "expert order"),
		wrong("add rows and tokens", func(tr *graph.Tracer) []*graph.Value {
			r := prepare(tr, "idx", 8, 1)
			x := x(tr)
			rows := primitives.Dispatch(r, x)
			line = nextLine()
			sum := primitives.Add(rows, x)
			return []*graph.Value{primitives.Combine(r, sum)}
		}, "expert order"),
		wrong("indices that are floats", func(tr *graph.Tracer) []*graph.Value {
			line = nextLine()
			r := primitives.Prepare(l, tr.Input("idx", graph.F32, 8, 2))
			return []*graph.Value{r.Value}
		}, "want i32[tokens, choices] or i64"),
		wrong("no experts", func(tr *graph.Tracer) []*graph.Value {
			line = nextLine()
			r := primitives.Prepare(primitives.PrepareOp{}, tr.Input("idx", graph.I32, 8, 2))
			return []*graph.Value{r.Value}
		}, "0 experts, want at least 1"),
		wrong("negative capacity", func(tr *graph.Tracer) []*graph.Value {
			line = nextLine()
			r := primitives.Prepare(primitives.PrepareOp{Experts: 4, Capacity: -1}, tr.Input("idx", graph.I32, 8, 2))
			return []*graph.Value{r.Value}
		}, "capacity -1, want 0 for no limit"),
		wrong("a trap without a capacity", func(tr *graph.Tracer) []*graph.Value {
			line = nextLine()
			r := primitives.Prepare(primitives.PrepareOp{Experts: 4, Trap: true}, tr.Input("idx", graph.I32, 8, 2))
			return []*graph.Value{r.Value}
		}, "trap without a capacity"),
		wrong("gradient of the indices", func(tr *graph.Tracer) []*graph.Value {
			idx := tr.Input("idx", graph.I32, 8, 2)
			r := primitives.Prepare(l, idx)
			loss := primitives.ReduceSum(primitives.Combine(r, primitives.Dispatch(r, x(tr))), 0, 1)
			line = nextLine()
			g := vjp.Gradients(loss, idx)
			return g
		}, "only float types have one"),
	} {
		for _, s := range []spread{{}, {mesh: "dp=2,ep=2", tokens: "dp.ep"}, {mesh: "dp=4", tokens: "dp"}} {
			t.Run(m.name+" "+s.String(), func(t *testing.T) {
				p, err := graph.Trace("p", m.fn)
				if err == nil {
					cfg := s.config(t, p)
					for _, v := range p.In { // what stands for rows cannot be split as tokens are
						if v.Dim(0) != 8 && v.Name == "x" {
							delete(cfg.Place, "x")
						}
					}
					_, err = gomoe.Compile(t.Context(), p, cfg)
				}
				require.ErrorContains(t, err, m.want)
				require.ErrorContains(t, err, line+": ")
			})
		}
	}
}

// An index that names no expert is an error that says which token of the global
// batch chose what, on every mesh, and corrupts nothing.
func TestContractIndexOutOfRange(t *testing.T) {
	for _, d := range []graph.DType{graph.I32, graph.I64} {
		for _, c := range []struct {
			token, choice int
			index         int64
		}{{0, 0, 12}, {11, 2, 12}, {7, 1, -2}, {5, 0, math.MaxInt32}, {6, 2, math.MinInt32}, {9, 1, 1 << 32}, {10, 0, -1 << 40}} {
			if d == graph.I32 && c.index != int64(int32(c.index)) {
				continue
			}
			t.Run(fmt.Sprintf("%s %d", d, c.index), func(t *testing.T) {
				eachSpread(t, func(t *testing.T, s spread) {
					l := primitives.PrepareOp{Experts: 12, Axis: s.axis, Exchange: s.exchange}
					prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
						r := primitives.Prepare(l, tr.Input("idx", d, 12, 3))
						return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, tr.Input("x", graph.F32, 12, 4)))}
					})
					p := newProblem(rng(1), l, 12, 3)
					idx := ids(p.idx, 12, 3).As(d)
					if d == graph.I64 {
						array.Data[int64](idx)[c.token*3+c.choice] = c.index
					} else {
						array.Data[int32](idx)[c.token*3+c.choice] = int32(c.index)
					}
					_, err := s.open(t, prog).Step(context.Background(), arrays{"idx": idx, "x": p.arrays(graph.F32)["x"]})
					require.ErrorContains(t, err, fmt.Sprintf("token %d, choice %d: expert %d, want 0 to 11, or -1 for none", c.token, c.choice, c.index))
					var ie *ep.IndexError
					require.True(t, errors.As(err, &ie))
					require.ErrorContains(t, err, "contract_traps_test.go:")
				})
			})
		}
	}
}

// A routing from elsewhere, as a recorded one is, is checked before it is used.
func TestContractForeignRouting(t *testing.T) {
	for _, s := range []spread{{}, {mesh: "dp=2,ep=2", tokens: "dp.ep"}, {mesh: "ep=4", tokens: "ep"}} {
		prog := parse(t, `program p(x f32[8,4], q i32[8,1,2]) {
	rows = ep_dispatch(x, q) experts=4 capacity=1
	out = ep_combine(rows, q) experts=4 capacity=1
	return out
}`)
		x := of(graph.T(graph.F32, 8, 4), linspace(32))
		run := func(route func(token int) (expert, queue int32)) ([]array.Array, error) {
			q := array.New(graph.T(graph.I32, 8, 1, 2))
			for i := range 8 {
				array.Data[int32](q)[2*i], array.Data[int32](q)[2*i+1] = route(i)
			}
			return s.open(t, prog).Step(context.Background(), arrays{"x": x, "q": q})
		}
		out, err := run(func(t int) (int32, int32) {
			if t%2 == 0 {
				return int32(t / 2), 0
			}
			return -1, -1
		})
		require.NoError(t, err)
		want := linspace(32)
		for i := range want {
			if i/4%2 == 1 {
				want[i] = 0
			}
		}
		same(t, s.String(), out[0], want)
		_, err = run(func(t int) (int32, int32) { return int32(t), 0 })
		require.ErrorContains(t, err, "want 0 to 3, or -1 for none")
		_, err = run(func(t int) (int32, int32) { return 0, int32(t) })
		require.ErrorContains(t, err, "it was not made by ep_prepare with this capacity")
	}
}

// Layers with different alignments, experts and axes use the same routing. Each derives
// its own rows from it.
func TestContractOneRoutingForSeveralLayers(t *testing.T) {
	prog := parse(t, `program p(x f32[8,4], q i32[8,1,2]) {
	a = ep_dispatch(x, q) experts=4
	b = ep_dispatch(x, q) experts=4 align=4
	c = ep_dispatch(x, q) experts=8
	d = ep_dispatch(x, q) experts=4 axis="dp"
	e = ep_dispatch(x, q) experts=4 capacity=3
	y = ep_combine(b, q) experts=4 align=4
	z = ep_combine(a, q) experts=4
	u = ep_combine(d, q) experts=4 axis="dp"
	v = ep_combine(c, q) experts=8
	w = ep_combine(e, q) experts=4 capacity=3
	return y, z, u, v, w
}`)
	for _, s := range []spread{{}, {mesh: "dp=2,ep=2", tokens: "dp.ep"}, {mesh: "ep=2,dp=2", tokens: "dp.ep"}, {mesh: "ep=4", tokens: "ep"}, {mesh: "dp=4", tokens: "dp"}} {
		in := arrays{"x": of(graph.T(graph.F32, 8, 4), linspace(32)), "q": ids([]int32{0, 0, 3, 0, 1, 0, 3, 1, 3, 2, 0, 1, 2, 0, 1, 1}, 8, 1, 2)}
		for i, got := range s.run(t, prog, in) {
			sameBits(t, fmt.Sprintf("%s: result %d", s, i), got, in["x"])
		}
	}
}

// The ranks of a group come from mesh coordinates: on a mesh of 4 × 2 the
// experts of {0,2,4,6} and {1,3,5,7} are two groups, in both orders of axes.
func TestContractGroupsComeFromTheMesh(t *testing.T) {
	for mesh, want := range map[string][2][]int{
		"expert=4,tensor=2": {{0, 2, 4, 6}, {1, 3, 5, 7}},
		"tensor=2,expert=4": {{0, 1, 2, 3}, {4, 5, 6, 7}},
	} {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		for _, g := range want {
			for _, r := range g {
				require.Equal(t, g, m.Group(r, []string{"expert"}), "%s rank %d", mesh, r)
			}
		}
		// And a layer on it is exact, tokens split over both axes or one.
		for _, tokens := range []string{"expert", "tensor.expert", "expert.tensor"} {
			p := newProblem(rng(3), primitives.PrepareOp{Experts: 4, Capacity: 5}, 16, 2)
			s := spread{mesh: mesh, tokens: tokens, axis: "expert"}
			out, dx, _, dk := p.dense()
			in := p.arrays(graph.BF16)
			same(t, mesh, s.run(t, p.program(t, s, graph.BF16), in)[0], out)
			got := s.run(t, pullback(t, p.program(t, s, graph.BF16)), in)
			same(t, mesh, got[0], dx)
			same(t, mesh, got[2], dk)
		}
	}
}

// Tracing and placing run nothing: a program for a mesh that no machine has is
// typed, placed and planned.
func TestContractPlanWithoutRanks(t *testing.T) {
	p := newProblem(rng(1), primitives.PrepareOp{Experts: 256}, 1024, 2)
	s := spread{mesh: "dp=8,ep=64", tokens: "dp.ep"}
	prog := p.program(t, s, graph.BF16)
	plan, err := gomoe.Compile(t.Context(), prog, s.config(t, prog))
	require.NoError(t, err)
	require.Equal(t, 512, plan.Mesh.Ranks())
	require.True(t, strings.Contains(plan.String(), "all_to_all"))
}
