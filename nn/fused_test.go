package nn_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// ramp returns an array of numbers that differ.
func ramp(t graph.Type, from float32) array.Array {
	a := array.New(t)
	for i := range array.Data[float32](a) {
		array.Data[float32](a)[i] = (from + float32(i*7%23) - 11) / 23
	}
	return a
}

// Fused segments are the layers by themselves, with the same gradients, also where ranks have parts of each.
func TestFused(t *testing.T) {
	const in, blocks = 6, 2
	out := []int{8, 4, 4}
	model := func(name string, layers func(s *nn.Scope, x *graph.Value) []*graph.Value) (*graph.Program, []nn.Param) {
		var params []nn.Param
		p, err := graph.Trace(name, func(tr *graph.Tracer) []*graph.Value {
			s := nn.New(tr, nn.Options{})
			ys := layers(s, tr.Input("x", graph.F32, 2, 3, in))
			params = s.Params()
			loss := primitives.Full(tr, 0, graph.F32)
			for _, y := range ys {
				loss = primitives.Add(loss, primitives.ReduceSum(primitives.Mul(primitives.Tanh(y), y), 0, 1, 2))
			}
			grads := vjp.Gradients(loss, s.Values()...)
			return append(append(slices.Clone(ys), loss), grads...)
		})
		require.NoError(t, err)
		return p, params
	}
	run := func(p *graph.Program, params []nn.Param, mesh string, arrays map[string]array.Array) []array.Array {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		job, err := gomoe.Open(t.Context(), p, gomoe.Config{Mesh: m, Place: nn.Places(params, m)})
		require.NoError(t, err)
		defer job.Close()
		arrays["x"] = ramp(graph.T(graph.F32, 2, 3, in), 2)
		got, err := job.Step(context.Background(), arrays)
		require.NoError(t, err)
		return got
	}
	apart, apartParams := model("apart", func(s *nn.Scope, x *graph.Value) (ys []*graph.Value) {
		for i, n := range out {
			ys = append(ys, nn.Linear{Out: n, Bias: true}.Apply(s.In(fmt.Sprint(i), ""), x))
		}
		return ys
	})
	each := map[string]array.Array{}
	for i, n := range out {
		each[fmt.Sprintf("%d.weight", i)] = ramp(graph.T(graph.F32, n, in), float32(i))
		each[fmt.Sprintf("%d.bias", i)] = ramp(graph.T(graph.F32, n), float32(3+i))
	}
	want := run(apart, apartParams, "", each)

	// joined has the rows of segments as Fused has them.
	joined := func(kind string, from func(i int) array.Array) array.Array {
		var all []float32
		for b := range blocks {
			for i, n := range out {
				all = append(all, array.Data[float32](from(i).Rows(b*n/blocks, (b+1)*n/blocks))...)
			}
		}
		shape := []int{blocks, 16 / blocks}
		if kind == "weight" {
			shape = append(shape, in)
		}
		a, err := array.Of(all, shape...)
		require.NoError(t, err)
		return a
	}
	fused, params := model("fused", func(s *nn.Scope, x *graph.Value) []*graph.Value {
		return nn.Fused{Out: out, Blocks: blocks, Bias: true}.Apply(s.In("qkv", ""), x)
	})
	for _, mesh := range []string{"", "tp=2"} {
		got := run(fused, params, mesh, map[string]array.Array{
			"qkv.weight": joined("weight", func(i int) array.Array { return each[fmt.Sprintf("%d.weight", i)] }),
			"qkv.bias":   joined("bias", func(i int) array.Array { return each[fmt.Sprintf("%d.bias", i)] }),
		})
		for i := range 4 {
			off, _ := array.MaxDiff(want[i], got[i])
			require.Less(t, off, 1e-5, "%q: result %d", mesh, i)
		}
		for k, kind := range []string{"weight", "bias"} {
			grads := joined(kind, func(i int) array.Array { return want[4+2*i+k] })
			off, _ := array.MaxDiff(grads, got[4+k])
			require.Less(t, off, 1e-5, "%q: gradient of %s", mesh, kind)
		}
	}
	_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		return nn.Fused{Out: []int{4, 3}, Blocks: 2}.Apply(nn.New(tr, nn.Options{}), tr.Input("x", graph.F32, 2, 4))
	})
	require.ErrorContains(t, err, "segments of [4 3] rows in 2 blocks, want blocks of equal size")
}
