package train_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train"
)

// masked is a model on rows x f32[B,T,8] of which mask f32[B,T] says what counts, cut into so many parts.
type masked struct {
	rows, tokens, parts int
	options             nn.Options
	drop, even          float64
	zero                train.Zero
}

func (c masked) forward(s *nn.Scope) (*graph.Value, []*graph.Value) {
	b := c.rows / max(c.parts, 1)
	x, mask := s.Tracer().Input("x", graph.F32, b, c.tokens, 8), s.Tracer().Input("mask", graph.F32, b, c.tokens)
	scale := s.Tracer().Input("scale", graph.F32) // the same for all rows
	train.Recorded(s)
	y := primitives.ConvertElementType(x, s.DType())
	var demand, counts []*graph.Value
	for l := range 2 {
		h, r := nn.MoE{Experts: 4, Width: 16, Route: primitives.RouteOp{TopK: 2, Renormalize: true}, Bias: "bias"}.Apply(s.In(fmt.Sprintf("layers.%d", l), ""), y)
		y = primitives.Add(y, s.Dropout(h, c.drop))
		demand, counts = append(demand, primitives.Reshape(r.Demand, 1, 4)), append(counts, primitives.Reshape(r.Counts, 1, 4))
	}
	of := primitives.ReduceSum(mask)
	d := primitives.Square(primitives.Sub(primitives.ConvertElementType(y, graph.F32), primitives.Reverse(x, 2)))
	d = primitives.Mul(d, primitives.BroadcastInDim(mask, d.Type.Shape, 0, 1))
	loss := primitives.Mul(primitives.Div(primitives.ReduceSum(d), of), scale)
	return loss, append(train.Choices(s), loss.Named("loss"), of.Named(train.WeightResult), primitives.Concatenate(0, demand...).Named("demand"), primitives.Concatenate(0, counts...).Named("counts"))
}

func (c masked) config(t *testing.T, axes string) gomoe.Config {
	t.Helper()
	mesh, err := sharding.ParseMesh(axes)
	require.NoError(t, err)
	rows := sharding.Split("dp.ep").On(mesh)
	return gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"x": rows, "mask": rows}}
}

func (c masked) trace(t *testing.T) *train.Program {
	t.Helper()
	p, err := train.Trace("step", train.Config{
		Optimizer: train.Chain(train.ClipByGlobalNorm(1), train.AdamW(train.AdamWOptions{})), Model: c.options, Even: c.even,
		Zero: c.zero, Batch: []string{"dp", "ep"}, Microbatches: c.parts,
	}, c.forward)
	require.NoError(t, err)
	return p
}

func (c masked) batch(step int) map[string]array.Array {
	x, mask := array.New(graph.T(graph.F32, c.rows, c.tokens, 8)), array.New(graph.T(graph.F32, c.rows, c.tokens))
	for i, d := 0, array.Data[float32](x); i < len(d); i++ {
		d[i] = float32((i*i+31*i*step+7*step)%97)/48.5 - 1
	}
	for i, d := 0, array.Data[float32](mask); i < len(d); i++ {
		d[i] = float32(min(1, (i*7+step)%5)) * float32(1+i/(len(d)/4)) // parts of the batch count differently
	}
	return map[string]array.Array{"x": x, "mask": mask, "scale": array.Scalar(float32(1.5))}
}

// learn does three steps and returns their losses, all results of the last one, and the state; held is a loss on another batch.
func (c masked) learn(t *testing.T, axes string) (losses []float64, held float64, results, state map[string]array.Array) {
	t.Helper()
	ctx := context.Background()
	run, err := train.Open(t.Context(), c.trace(t), c.config(t, axes))
	require.NoError(t, err)
	defer run.Close()
	eval, err := run.Evaluation(t.Context(), "held", c.config(t, axes), func(s *nn.Scope) []*graph.Value { _, r := c.forward(s); return r })
	require.NoError(t, err)
	defer eval.Close()
	require.NoError(t, run.Init(t.Context(), 1))
	for step := 1; step <= 3; step++ {
		in := c.batch(step)
		if c.options.Key != nil {
			in["key"] = array.New(graph.T(graph.U32, 2))
			array.Data[uint32](in["key"])[0] = uint32(step)
		}
		out, err := run.Step(ctx, step, 0.01, in)
		require.NoError(t, err)
		results = map[string]array.Array{}
		for name, a := range out {
			results[name], err = a.Get()
			require.NoError(t, err)
		}
		losses = append(losses, results["loss"].Float64s()[0])
	}
	held, err = eval.Scalar(ctx, "loss", c.batch(100))
	require.NoError(t, err)
	state = map[string]array.Array{}
	for name, a := range run.State() {
		state[name], err = a.Get()
		require.NoError(t, err)
	}
	return losses, held, results, state
}

// A batch in parts trains as a whole one does, where parts count differently, on every mesh and with ZeRO; experts get the
// same tokens, and choices are written in the order of the whole batch. The same run has the same bits again.
func TestMicrobatches(t *testing.T) {
	c := masked{rows: 16, tokens: 4, even: 0.01}
	losses, held, results, state := c.learn(t, "")
	for _, axes := range []string{"", "ep=2", "dp=2,ep=2"} {
		for _, zero := range []train.Zero{train.ZeroOff, train.ZeroMoments, train.ZeroWeights} {
			if axes == "" && zero != train.ZeroOff || axes == "ep=2" && zero == train.ZeroWeights {
				continue
			}
			m := c
			m.parts, m.zero = 4, zero
			gotLosses, gotHeld, got, gotState := m.learn(t, axes)
			where := fmt.Sprintf("mesh %q, zero %q", axes, zero)
			for i := range losses {
				require.InEpsilon(t, losses[i], gotLosses[i], 1e-5, "%s, step %d", where, i+1)
			}
			require.InEpsilon(t, held, gotHeld, 1e-5, where)
			require.Equal(t, slices.Sorted(maps.Keys(results)), slices.Sorted(maps.Keys(got)))
			for name, want := range results {
				switch {
				case strings.HasPrefix(name, "chosen/"):
					require.Equal(t, want.Bytes(), got[name].Bytes(), "%s of %s", name, where)
				case !want.Type.DType.IsFloat():
					require.True(t, array.Equal(want, got[name]), "%s of %s is\n%v\nwant\n%v", name, where, got[name], want)
				default:
					require.InEpsilon(t, want.Float64s()[0], got[name].Float64s()[0], 1e-5, "%s of %s", name, where)
				}
			}
			for name, want := range state {
				a, b := want.Float64s(), gotState[name].Float64s()
				for i := range a {
					if math.Abs(a[i]-b[i]) > 2e-4 { // of three steps of 0.01, where gradients are near 0
						t.Fatalf("%s of %s: element %d is %v, want %v", name, where, i, b[i], a[i])
					}
				}
			}
			again, _, _, _ := m.learn(t, axes)
			require.Equal(t, gotLosses, again, where)
		}
	}
}

// Microbatches drop other elements, and a run with the same keys is the same on every mesh.
func TestMicrobatchesDrop(t *testing.T) {
	c := masked{rows: 8, tokens: 4, parts: 2, drop: 0.5, options: nn.Options{Key: func(t *graph.Tracer) *graph.Value { return t.Input("key", graph.U32, 2) }}}
	want, _, _, _ := c.learn(t, "")
	got, _, _, _ := c.learn(t, "dp=2,ep=2")
	for i := range want {
		require.InEpsilon(t, want[i], got[i], 1e-5)
	}
	p := c.trace(t)
	text := p.String()
	if !strings.Contains(text, "random_fold_in") {
		t.Errorf("microbatches do not draw numbers of their own:\n%s", text)
	}
}

// sums counts the arrays with dimensions that ranks add up in a step outside of loops, and inside of them.
func sums(p *lowering.Plan) (outside, inside int) {
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if in.Name() == "all_sum" || in.Name() == "reduce_scatter" {
			for _, b := range in.In {
				if p.Bufs[b].Type.Rank() > 1 {
					outside++
				}
			}
		}
		if in.Loop != nil {
			o, i := sums(in.Loop.Body)
			inside += o + i
		}
	}
	return outside, inside
}

// A step in parts takes little more than the memory of one part and of the gradients, and ranks exchange every gradient once.
func TestMicrobatchesTake(t *testing.T) {
	plan := func(c masked, axes string) *lowering.Plan {
		p := c.trace(t)
		cfg, err := p.Placed(c.config(t, axes))
		require.NoError(t, err)
		l, err := gomoe.Compile(t.Context(), p.Program, cfg)
		require.NoError(t, err)
		return l
	}
	for _, dtype := range []graph.DType{graph.F32, graph.BF16} {
		for _, axes := range []string{"", "dp=2,ep=2"} {
			o := nn.Options{DType: dtype}
			whole, one, parts := plan(masked{rows: 64, tokens: 128, options: o}, axes), plan(masked{rows: 8, tokens: 128, options: o}, axes), plan(masked{rows: 64, tokens: 128, parts: 8, options: o}, axes)
			w, a, b := whole.Report(1).Mem.Arena, one.Report(1).Mem.Arena, parts.Report(1).Mem.Arena
			if b > a+a/4 || b > w/4 {
				t.Errorf("%s on %q: the arena is %d bytes in parts, %d for one part alone, %d for the whole batch", dtype, axes, b, a, w)
			}
			if outside, inside := sums(parts); inside > 0 || (outside == 0) != (axes == "") {
				t.Errorf("%s on %q: %d sums and %d inside of the loop, want none there\n%s", dtype, axes, outside, inside, parts)
			}
		}
	}
}

// What cannot be cut is an error that says what is wanted.
func TestMicrobatchErrors(t *testing.T) {
	adam := train.AdamW(train.AdamWOptions{})
	x := func(s *nn.Scope) *graph.Value {
		return nn.Linear{Out: 3}.Apply(s.In("a", ""), s.Tracer().Input("x", graph.F32, 2, 3))
	}
	for want, c := range map[string]struct {
		n int
		f func(*nn.Scope) (*graph.Value, []*graph.Value)
	}{
		"step: -1 microbatches, want at least 0": {-1, nil},
		"result y f32[2,3] of the model: want numbers f32[]": {2, func(s *nn.Scope) (*graph.Value, []*graph.Value) {
			y := x(s)
			return primitives.ReduceSum(y), []*graph.Value{y.Named("y")}
		}},
		"the model has no inputs but its parameters": {2, func(s *nn.Scope) (*graph.Value, []*graph.Value) {
			return primitives.ReduceSum(s.Param("a", "", nn.Init{}, nil, 2)), nil
		}},
	} {
		_, err := train.Trace("step", train.Config{Optimizer: adam, Microbatches: c.n}, c.f)
		require.ErrorContains(t, err, want)
	}
	c := masked{rows: 8, tokens: 4, parts: 2}
	run, err := train.Open(t.Context(), c.trace(t), c.config(t, ""))
	require.NoError(t, err)
	defer run.Close()
	require.NoError(t, run.Init(t.Context(), 1))
	c.rows = 9
	_, err = run.Step(context.Background(), 1, 0.1, c.batch(1))
	require.ErrorContains(t, err, "mask is f32[9,4], want f32[8,4]")
}
