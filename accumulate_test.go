package gomoe_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// microbatches is how many parts the batches of these tests have.
const microbatches = 4

// expertModel is a model of layers of experts.
type expertModel struct {
	layers, tokens, width, inner, experts int
	loop                                  bool // the layers are a loop, and their weights stacked
}

// weights adds the model's weights to the trace.
func (m expertModel) weights(tr *graph.Tracer) []*graph.Value {
	var w []*graph.Value
	in := func(name string, shape ...int) {
		if m.loop {
			shape = append([]int{m.layers}, shape...)
		}
		w = append(w, tr.Input(name, graph.F32, shape...))
	}
	for l := range m.layers {
		if m.loop && l > 0 {
			break
		}
		in(fmt.Sprintf("l%d_norm", l), m.width)
		in(fmt.Sprintf("l%d_router", l), m.width, m.experts)
		in(fmt.Sprintf("l%d_up", l), m.experts, m.width, m.inner)
		in(fmt.Sprintf("l%d_down", l), m.experts, m.inner, m.width)
	}
	return w
}

// layer is one layer with weights w on x f32[tokens,width].
func (m expertModel) layer(w []*graph.Value, x *graph.Value) *graph.Value {
	h := primitives.RMSNorm(x, w[0], 1e-5)
	weights, chosen, _ := primitives.Route(primitives.RouteOp{TopK: 2, Renormalize: true}, primitives.MatMul(h, w[1]), nil)
	r := primitives.Prepare(primitives.PrepareOp{Experts: m.experts, Axis: "ep"}, chosen)
	rows, rowWeights := primitives.DispatchWeighted(r, h, weights)
	y := primitives.GroupedMatMul(r, primitives.SiLU(primitives.GroupedMatMul(r, rows, w[2])), w[3])
	return primitives.Add(x, primitives.Combine(r, primitives.Mul(y, primitives.BroadcastInDim(rowWeights, y.Type.Shape, 0))))
}

// loss is what training minimises for one microbatch x f32[tokens,width].
func (m expertModel) loss(w []*graph.Value, x *graph.Value) *graph.Value {
	if m.loop {
		last, _ := graph.Scan(graph.ScanParams{}, []*graph.Value{x}, w, func(carry, w []*graph.Value) (c, y []*graph.Value) {
			return []*graph.Value{m.layer(w, carry[0])}, nil
		})
		x = last[0]
	} else {
		for ; len(w) > 0; w = w[4:] {
			x = m.layer(w[:4], x)
		}
	}
	return primitives.MulScalar(primitives.ReduceSum(primitives.Square(x)), 1/float64(x.Type.Len()))
}

// accumulate traces the losses of all microbatches and the sums of their gradients, scaled
// by 0.25. how says where the sums begin: "zeros", "inputs" acc_ and a weight's name, or
// "written out", which writes the microbatches one after another.
func (m expertModel) accumulate(t *testing.T, how string) *graph.Program {
	t.Helper()
	p, err := graph.Trace("accumulate", func(tr *graph.Tracer) []*graph.Value {
		xs := tr.Input("x", graph.F32, microbatches, m.tokens, m.width)
		w := m.weights(tr)
		var acc []*graph.Value
		for _, v := range w {
			if how == "inputs" {
				acc = append(acc, tr.Input("acc_"+v.Name, v.Type.DType, v.Type.Shape...))
			} else {
				acc = append(acc, primitives.ZerosLike(v))
			}
		}
		step := func(acc []*graph.Value, x *graph.Value) (c []*graph.Value, loss *graph.Value) {
			loss = m.loss(w, x)
			for i, g := range vjp.Gradients(loss, w...) {
				c = append(c, primitives.Add(acc[i], primitives.MulScalar(g, 0.25)))
			}
			return c, loss
		}
		if how == "written out" {
			var losses []*graph.Value
			for i := range microbatches {
				var loss *graph.Value
				acc, loss = step(acc, primitives.Reshape(primitives.SliceInDim(xs, 0, i, i+1), m.tokens, m.width))
				losses = append(losses, primitives.Reshape(loss, 1))
			}
			return append([]*graph.Value{primitives.Concatenate(0, losses...)}, acc...)
		}
		sums, losses := graph.Scan(graph.ScanParams{}, acc, []*graph.Value{xs}, func(acc, x []*graph.Value) (c, y []*graph.Value) {
			c, loss := step(acc, x[0])
			return c, []*graph.Value{loss}
		})
		return append(losses, sums...)
	})
	require.NoError(t, err)
	return p
}

// config places the model on a mesh. The sums of inputs are donated and pending.
func (m expertModel) config(t *testing.T, p *graph.Program, mesh string) gomoe.Config {
	t.Helper()
	cfg := gomoe.Config{Check: true, Place: map[string]sharding.Spec{"x": sharding.Split("", "dp.ep")}, Donate: map[string]int{}}
	if mesh != "" {
		var err error
		cfg.Mesh, err = sharding.ParseMesh(mesh)
		require.NoError(t, err)
	}
	for i, v := range p.In {
		dims, sums := []string{}, "{+dp+ep}"
		if strings.HasSuffix(v.Name, "_up") || strings.HasSuffix(v.Name, "_down") {
			dims, sums = []string{"ep"}, "{+dp}"
			if m.loop {
				dims = []string{"", "ep"}
			}
		}
		if strings.HasPrefix(v.Name, "acc_") {
			dims = append(dims, sums)
			cfg.Donate[v.Name] = i - (len(p.In)-1)/2
		}
		if v.Name != "x" {
			cfg.Place[v.Name] = sharding.Split(dims...)
		}
	}
	return cfg
}

// fillInputs returns inputs of p, of which those whose names begin with acc_ are zeros.
func fillInputs(p *graph.Program) map[string]array.Array {
	in := map[string]array.Array{}
	for k, v := range p.In {
		a := array.New(v.Type)
		if !strings.HasPrefix(v.Name, "acc_") {
			for i := range array.Data[float32](a) {
				array.Data[float32](a)[i] = float32(((i+k)*7919)%101)/101 - 0.5
			}
		}
		in[v.Name] = a
	}
	return in
}

// sums returns how many arrays the all_sums of a plan add up, and those of the bodies of its
// loops, in one step.
func sums(p *lowering.Plan) (outside, inside int) {
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if in.Name() == "all_sum" || in.Name() == "reduce_scatter" {
			outside += len(in.In)
		}
		if in.Loop != nil {
			o, i := sums(in.Loop.Body)
			inside += in.Loop.Op.Length * (o + i)
		}
	}
	return outside, inside
}

// Gradients that a loop over microbatches adds up are those of the microbatches written one
// after another, on one rank and on many, with layers written out and as a loop of their own.
// Ranks exchange gradients once in a step and not once for each microbatch; where the sums
// are pending inputs that the results take over, they do not exchange gradients at all.
func TestAccumulate(t *testing.T) {
	for _, m := range []expertModel{{2, 16, 8, 12, 4, false}, {3, 16, 8, 12, 4, true}} {
		written := m.accumulate(t, "written out")
		in := fillInputs(written)
		want, err := gomoe.Run(context.Background(), written, m.config(t, written, ""), in)
		require.NoError(t, err)
		weights := len(want) - 1
		for _, mesh := range []string{"", "dp=2", "ep=2", "dp=2,ep=2", "dp=4,ep=2", "ep=4"} {
			for _, optimize := range []gomoe.Switch{gomoe.On, gomoe.Off} {
				p := m.accumulate(t, "zeros")
				cfg := m.config(t, p, mesh)
				cfg.Optimize = optimize
				got, err := gomoe.Run(context.Background(), p, cfg, in)
				require.NoError(t, err)
				requireSums(t, want, got, mesh)

				plan, err := gomoe.Compile(t.Context(), p, cfg)
				require.NoError(t, err)
				most := weights
				if !strings.Contains(mesh, "dp") {
					most /= 2 // experts are split over ep, and their gradients are whole
				}
				if outside, inside := sums(plan); mesh != "" && (inside != 0 || outside != most) {
					t.Errorf("loop %v on %s: %d sums and %d inside of loops, want %d and none\n%s", m.loop, mesh, outside, inside, most, plan)
				}

				p = m.accumulate(t, "inputs")
				cfg = m.config(t, p, mesh)
				cfg.Optimize = optimize
				plan, err = gomoe.Compile(t.Context(), p, cfg)
				require.NoError(t, err)
				if outside, inside := sums(plan); outside+inside != 0 {
					t.Errorf("loop %v on %s: pending sums are made %d and %d times\n%s", m.loop, mesh, outside, inside, plan)
				}
				for _, d := range plan.Donated {
					require.True(t, d.InPlace || optimize == gomoe.Off, "%s is not added to where it lies\n%s", plan.In[d.In].Name, plan)
				}
			}
		}
	}
}

// A loop whose derivative is to keep everything of a layer of experts is refused with a
// remedy, since rows in expert order cannot be kept.
func TestKeepOfExperts(t *testing.T) {
	m := expertModel{3, 16, 8, 12, 4, true}
	p, err := graph.Trace("keep", func(tr *graph.Tracer) []*graph.Value {
		x, w := tr.Input("x", graph.F32, m.tokens, m.width), m.weights(tr)
		last, _ := graph.Scan(graph.ScanParams{Keep: true}, []*graph.Value{x}, w, func(carry, w []*graph.Value) (c, y []*graph.Value) {
			return []*graph.Value{m.layer(w, carry[0])}, nil
		})
		return vjp.Gradients(primitives.ReduceSum(primitives.Square(last[0])), w...)
	})
	require.NoError(t, err)
	for _, mesh := range []string{"", "ep=2"} {
		cfg := m.config(t, p, mesh)
		cfg.Place["x"] = sharding.Split("ep")
		_, err = gomoe.Compile(t.Context(), p, cfg)
		require.ErrorContains(t, err, "accumulate_test.go:")
		require.ErrorContains(t, err, "keep: the derivative would keep ")
		require.ErrorContains(t, err, "leave keep out, so that the body is computed again")
	}
}

// requireSums requires the same bits of losses, and gradients that are close.
func requireSums(t *testing.T, want, got []array.Array, where string) {
	t.Helper()
	require.True(t, array.Equal(want[0], got[0]), "%s: losses are %v, want %v", where, got[0], want[0])
	for i := range want {
		a, b := got[i].Float64s(), want[i].Float64s()
		for k := range a {
			require.InDelta(t, b[k], a[k], 1e-5, "%s: result %d", where, i)
		}
	}
}

// Pending sums stay with the ranks from one step to the next: two steps add to them, and a
// third program adds up what ranks have, and gives back zeros in the same memory.
func TestPendingBetweenSteps(t *testing.T) {
	ctx, m := context.Background(), expertModel{2, 16, 8, 12, 4, false}
	p := m.accumulate(t, "inputs")
	in := fillInputs(p)
	one := m.accumulate(t, "written out")
	want, err := gomoe.Run(ctx, one, m.config(t, one, ""), fillInputs(one))
	require.NoError(t, err)

	apply, err := graph.Trace("apply", func(tr *graph.Tracer) (out []*graph.Value) {
		for _, v := range p.In[1+(len(p.In)-1)/2:] {
			acc := tr.Input(v.Name, v.Type.DType, v.Type.Shape...)
			out = append(out, primitives.MulScalar(acc, 0.5), primitives.ZerosLike(acc))
		}
		return out
	})
	require.NoError(t, err)
	for _, mesh := range []string{"", "dp=2", "dp=2,ep=2"} {
		cfg := m.config(t, p, mesh)
		add, err := gomoe.Open(t.Context(), p, cfg)
		require.NoError(t, err)
		defer add.Close()
		donate := cfg.Donate
		cfg.Donate = map[string]int{}
		place := maps.Clone(cfg.Place)
		maps.DeleteFunc(place, func(name string, _ sharding.Spec) bool { return !strings.HasPrefix(name, "acc_") })
		cfg.Place = place
		for i, v := range apply.In {
			cfg.Donate[v.Name] = 2*i + 1
		}
		sum, err := gomoe.Open(t.Context(), apply, cfg)
		require.NoError(t, err)
		defer sum.Close()

		placed := map[string]*runtime.Array{}
		for name, a := range in {
			placed[name], err = add.Put(name, a)
			require.NoError(t, err)
		}
		for range 2 {
			for range 2 {
				out, err := add.Run(ctx, placed)
				require.NoError(t, err)
				for name, o := range donate {
					placed[name] = out[o]
				}
			}
			accs := map[string]*runtime.Array{}
			for _, v := range apply.In {
				accs[v.Name] = placed[v.Name]
			}
			if mesh != "" {
				_, err = add.Get(ctx, placed["acc_l0_norm"])
				require.ErrorContains(t, err, "ranks hold summands that are not added up over dp")
			}
			out, err := sum.Run(ctx, accs)
			require.NoError(t, err)
			for i, v := range apply.In {
				got, err := sum.Get(ctx, out[2*i])
				require.NoError(t, err)
				for k, x := range got.Float64s() { // half of what two steps add up
					require.InDelta(t, want[1+i].Float64s()[k], x, 1e-5, "%s of %s", v.Name, mesh)
				}
				placed[v.Name] = out[2*i+1]
			}
		}
	}
}
