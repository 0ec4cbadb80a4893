package gomoe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/late"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// depth is how many layers the tests' models have.
const depth = 5

// layered traces a model of layers x + gelu(x·w)·c, whose last layers carry on, with a
// loss that also reads what each layer returns. x has the given rows, and how says how the
// layers are written.
func layered(t *testing.T, rows int, how string) *graph.Program {
	t.Helper()
	layer := func(x, w, c *graph.Value) (*graph.Value, *graph.Value) {
		h := primitives.GELU(primitives.MatMul(x, w))
		return primitives.Add(x, primitives.Mul(h, primitives.BroadcastTo(c, h.Type.Shape...))), primitives.ReduceSum(h, 0)
	}
	p, err := graph.Trace("model", func(tr *graph.Tracer) []*graph.Value {
		x, c := tr.Input("x", graph.F32, rows, 4), tr.Input("c", graph.F32, 4)
		var weights []*graph.Value
		w := tr.Input("w", graph.F32, depth, 4, 4)
		for i := range depth {
			one := primitives.Slice(w, []int{i, 0, 0}, []int{i + 1, 4, 4})
			weights = append(weights, primitives.Reshape(one, 4, 4))
		}
		var seen *graph.Value
		switch how {
		case "written out":
			var parts []*graph.Value
			for _, w := range weights {
				var s *graph.Value
				x, s = layer(x, w, c)
				parts = append(parts, primitives.Reshape(s, 1, 4))
			}
			seen = primitives.Concatenate(0, parts...)
		default:
			params, xs := graph.ScanParams{Keep: how == "keep"}, []*graph.Value{w}
			if how == "table" {
				params.Tables, xs = [][]*graph.Value{weights}, nil
			}
			out, each := graph.Scan(params, []*graph.Value{x}, xs, func(carry, w []*graph.Value) ([]*graph.Value, []*graph.Value) {
				h, s := layer(carry[0], w[0], c)
				return []*graph.Value{h}, []*graph.Value{s}
			})
			x, seen = out[0], each[0]
		}
		loss := primitives.Add(primitives.ReduceSum(primitives.Square(x)), primitives.ReduceSum(primitives.Square(seen)))
		return []*graph.Value{loss, x, seen}
	})
	require.NoError(t, err)
	return p
}

func layeredInputs(rows int) map[string]array.Array {
	fill := func(shape ...int) array.Array {
		a := array.New(graph.T(graph.F32, shape...))
		for i := range array.Data[float32](a) {
			array.Data[float32](a)[i] = float32((i*7919)%101)/101 - 0.5
		}
		return a
	}
	return map[string]array.Array{"x": fill(rows, 4), "c": fill(4), "w": fill(depth, 4, 4)}
}

// TestScanEqualsWrittenOut compares loops over layers with the same layers written out:
// the results have the same bits, on one rank and on several, with all ways to give the
// weights and both ways to differentiate; gradients are close.
// The parts of 7 rows differ in size between ranks.
func TestScanEqualsWrittenOut(t *testing.T) {
	ctx := context.Background()
	run := func(p *graph.Program, cfg gomoe.Config, in map[string]array.Array) []array.Array {
		cfg.Check = true
		out, err := gomoe.Run(ctx, p, cfg, in)
		require.NoError(t, err, "%s", p)
		return out
	}
	for _, c := range []struct {
		mesh string
		rows int
	}{{"", 8}, {"dp=2", 8}, {"dp=2,tp=2", 8}, {"dp=2", 7}, {"dp=5,tp=2", 7}} {
		cfg, in := gomoe.Config{}, layeredInputs(c.rows)
		if c.mesh != "" {
			m, err := sharding.ParseMesh(c.mesh)
			require.NoError(t, err)
			cfg.Mesh, cfg.Place = m, map[string]sharding.Spec{"x": sharding.Split("dp")}
		}
		for _, optimize := range []gomoe.Switch{gomoe.On, gomoe.Off} {
			cfg.Optimize = optimize
			plain := layered(t, c.rows, "written out")
			grad, err := vjp.Grad(plain, "x", "c", "w")
			require.NoError(t, err)
			want, wantGrad := run(plain, cfg, in), run(grad, cfg, in)
			for _, how := range []string{"stacked", "table", "keep"} {
				t.Run(fmt.Sprintf("%s/%s/%d/%v", how, c.mesh, c.rows, optimize), func(t *testing.T) {
					p := layered(t, c.rows, how)
					got := run(p, cfg, in)
					for i := range want {
						if !array.Equal(got[i], want[i]) {
							t.Errorf("result %d differs: %v, want %v", i, got[i], want[i])
						}
					}
					g, err := vjp.Grad(p, "x", "c", "w")
					require.NoError(t, err)
					require.NoError(t, graph.Check(g))
					again, err := gomoe.Parse("", g.String())
					require.NoError(t, err)
					require.Equal(t, g.String(), again.String())
					got = run(g, cfg, in)
					for i := range wantGrad {
						a, b := got[i].Float64s(), wantGrad[i].Float64s()
						for k := range a {
							require.InDelta(t, b[k], a[k], 1e-5*max(1, b[k]), "gradient result %d", i)
						}
					}
				})
			}
		}
	}
}

// TestScanOnDevice runs loops, also one inside another, on a device that runs some of the
// instructions: the results are the host's.
func TestScanOnDevice(t *testing.T) {
	ctx, in := context.Background(), layeredInputs(8)
	p, err := vjp.Grad(layered(t, 8, "stacked"), "x", "c", "w")
	require.NoError(t, err)
	want, err := gomoe.Run(ctx, p, gomoe.Config{}, in)
	require.NoError(t, err)
	for _, host := range []string{"", "gelu", "dot_general"} {
		d := &late.Device{Why: func(p *lowering.Plan, i int) string {
			if host != "" && strings.Contains(p.Instrs[i].Name(), host) {
				return "a test"
			}
			return ""
		}}
		got, err := gomoe.Run(ctx, p, gomoe.Config{Check: true, Options: runtime.Options{Device: d}}, in)
		require.NoError(t, err)
		for i := range want {
			if !array.Equal(got[i], want[i]) {
				t.Errorf("host %q: result %d differs from the host's", host, i)
			}
		}
		require.Positive(t, d.Count().Done)
	}
	plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Target: &late.Device{}})
	require.NoError(t, err)
	require.Contains(t, plan.String(), "(host: the host runs the loop, and its body says what the target runs)")
}

// TestScanNamesTheIteration looks for the iteration in errors and in traces, and runs loops
// with all that sessions can watch.
func TestScanNamesTheIteration(t *testing.T) {
	ctx, in := context.Background(), layeredInputs(8)
	p := layered(t, 8, "stacked")
	for i := range 16 {
		array.Data[float32](in["w"])[3*16+i] = math.MaxFloat32
	}
	in["x"].Fill(3)
	in["c"].Fill(0)
	_, err := gomoe.Run(ctx, p, gomoe.Config{Options: runtime.Options{Finite: true}}, in)
	var at *runtime.Error
	require.True(t, errors.As(err, &at))
	require.Equal(t, "scan", at.Name)
	require.ErrorContains(t, err, "iteration 3: scan_test.go:")

	var log bytes.Buffer
	trace := runtime.NewTrace(&log)
	_, err = gomoe.Run(ctx, p, gomoe.Config{Options: runtime.Options{Trace: trace, Poison: true}}, layeredInputs(8))
	require.NoError(t, err)
	require.NoError(t, trace.Close())
	for i := range depth {
		require.Contains(t, log.String(), fmt.Sprintf(`"iteration":%d`, i))
	}
	require.Contains(t, log.String(), fmt.Sprintf(`"iterations":%d`, depth))
}

// TestScanAllocatesNothing runs steps of a loop whose arrays are used again.
func TestScanAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	j, err := gomoe.Open(t.Context(), layered(t, 8, "stacked"), gomoe.Config{Options: runtime.Options{Threads: 1}})
	require.NoError(t, err)
	defer j.Close()
	in := map[string]*runtime.Array{}
	for name, a := range layeredInputs(8) {
		in[name], err = j.Put(name, a)
		require.NoError(t, err)
	}
	out := make([]*runtime.Array, len(j.Plan().Out))
	step := func() { require.NoError(t, j.RunInto(ctx, in, out)) }
	step()
	step()
	if n := testing.AllocsPerRun(20, step); n > 0 {
		t.Errorf("%v allocations in a step, want none", n)
	}
}

// TestScanPendingSums counts the sums between ranks in the derivative of a loop: that of a
// constant is added up after the loop, those of the layers' weights in every iteration.
func TestScanPendingSums(t *testing.T) {
	p, err := vjp.Grad(layered(t, 8, "stacked"), "c")
	require.NoError(t, err)
	m, err := sharding.ParseMesh("dp=2")
	require.NoError(t, err)
	plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": sharding.Split("dp")}, Check: true})
	require.NoError(t, err)
	inside := 0
	for _, c := range plan.Report(1).Comm.Collectives {
		if c.Times > 0 {
			inside++
			require.Equal(t, depth, c.Times)
		}
	}
	// What each layer returns is a sum over tokens, in the first loop.
	if inside != 1 {
		t.Errorf("%d collectives in bodies of loops, want 1:\n%s", inside, plan)
	}
}

// TestScanPlacement places loops: a dimension of iterations that is split is refused, and
// what is carried is brought to one placement. On the second mesh the parts of what is
// carried, and of the slices of an array, differ in size between ranks.
func TestScanPlacement(t *testing.T) {
	m, err := sharding.ParseMesh("a=2,b=2")
	require.NoError(t, err)
	parse := func(src string) *graph.Program {
		p, err := gomoe.Parse("p.graph", src)
		require.NoError(t, err)
		return p
	}
	p := parse(`program p(x f32[4,4], w f32[2,4,4]) {
	y f32[4,4] = scan(x, w) length=2 carry=1 body=program b(x f32[4,4], w f32[4,4]) {
		t f32[4,4] = transpose(x) permutation=[1,0]
		z f32[4,4] = add(t, w)
		return z
	}
	return y
}`)
	_, err = gomoe.Place(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"w": sharding.Split("a")}})
	require.ErrorContains(t, err, "p.graph:2: scan(")
	require.ErrorContains(t, err, "split over a in dimension 0, along which the loop takes one slice for each iteration; split another dimension, or gather it with sharding_constraint")
	in := map[string]array.Array{"x": array.New(p.In[0].Type), "w": array.New(p.In[1].Type)}
	for i := range 16 {
		array.Data[float32](in["x"])[i], array.Data[float32](in["w"])[i] = float32(i), float32(3*i%7)
	}
	want, err := gomoe.Run(context.Background(), p, gomoe.Config{}, in)
	require.NoError(t, err)
	other, err := sharding.ParseMesh("a=2,b=3")
	require.NoError(t, err)
	for _, place := range []map[string]sharding.Spec{{"x": sharding.Split("a")}, {"x": sharding.Split("a", "b")}, {"w": sharding.Split("", "b")}, {"w": sharding.Split("", "b", "a"), "x": sharding.Split("a", "b")}} {
		for _, mesh := range []sharding.Mesh{m, other} {
			got, err := gomoe.Run(context.Background(), p, gomoe.Config{Mesh: mesh, Place: place, Check: true}, in)
			require.NoError(t, err)
			if !array.Equal(got[0], want[0]) {
				t.Errorf("placed as %v on %s: %v, want %v", place, mesh, got[0], want[0])
			}
		}
	}
}

// A loop without results is left out, with Optimize and without.
func TestScanWithoutResults(t *testing.T) {
	p, err := gomoe.Parse("p.graph", "program f(w f32[2,3]) {\n\tscan(w) length=2 body=program b(w f32[3]) {\n\t\treturn\n\t}\n\treturn w\n}\n")
	require.NoError(t, err)
	for _, optimize := range []gomoe.Switch{gomoe.On, gomoe.Off} {
		got, err := gomoe.Run(t.Context(), p, gomoe.Config{Optimize: optimize}, map[string]array.Array{"w": array.New(graph.T(graph.F32, 2, 3))})
		require.NoError(t, err)
		require.Equal(t, make([]float64, 6), got[0].Float64s())
	}
}
