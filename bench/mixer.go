package main

import (
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// mixerWorkloads returns layers with a state, forward, and forward and backward, of a sequence of 2048 tokens and 16 heads
// of 128: the gated delta rule by itself, and layers of 1024 columns.
func mixerWorkloads() []workload {
	const seq, heads, width, hidden = 2048, 16, 128, 1024
	var ws []workload
	for _, backward := range []bool{false, true} {
		short, part := "forward", "forward"
		if backward {
			short, part = "both", "forward and backward"
		}
		add := func(name, peer string, open func(t *graph.Tracer) (out *graph.Value, args []*graph.Value, names []string)) {
			ws = append(ws, workload{
				name:  fmt.Sprintf("mixer/f32/%s/%s", peer, short),
				title: fmt.Sprintf("%s, %s, f32, T=%d, %d heads of %d", name, part, seq, heads, width),
				peer:  peer, params: map[string]any{"backward": backward, "heads": heads, "width": width, "hidden": hidden},
				tolerance: 1e-3, target: 0.5, threads: []int{2}, peers: []string{torchName},
				open: func(threads int) (*subject, error) {
					var names []string
					p, err := graph.Trace("mixer", func(t *graph.Tracer) []*graph.Value {
						out, args, compared := open(t)
						if names = []string{"out"}; !backward {
							return []*graph.Value{out}
						}
						for i := range args {
							if names = append(names, ""); i < len(compared) {
								names[1+i] = "grad_" + compared[i]
							}
						}
						ct := t.Input("ct", graph.F32, out.Type.Shape...)
						return append([]*graph.Value{out}, vjp.Backward([]*graph.Value{out}, []*graph.Value{ct}, args)...)
					})
					if err != nil {
						return nil, err
					}
					in := map[string]array.Array{}
					for i, v := range p.In {
						in[v.Name] = mixerInput(uint64(i+1), v)
					}
					if !backward {
						in["ct"] = normal(0, 1, graph.F32, p.Out[0].Type.Shape...)
					}
					return ofProgram(p, threads, in, names...)
				},
			})
		}
		add("gated delta rule", "gated_delta_rule", func(t *graph.Tracer) (*graph.Value, []*graph.Value, []string) {
			names := []string{"q", "k", "v", "decay", "rates"}
			var args []*graph.Value
			for i, name := range names {
				shape := []int{1, seq, heads, width}
				args = append(args, t.Input(name, graph.F32, shape[:4-i/3]...))
			}
			out, _ := primitives.Recurrence(args[0], args[1], args[2], args[3], primitives.RecurrenceParams{Rates: args[4]})
			return out, args, names
		})
		layer := func(name, peer string, apply func(s *nn.Scope, x *graph.Value) *graph.Value) {
			add(name, peer, func(t *graph.Tracer) (*graph.Value, []*graph.Value, []string) {
				s, x := nn.New(t, nn.Options{}), t.Input("x", graph.F32, 1, seq, hidden)
				out := apply(s, x)
				return out, append([]*graph.Value{x}, s.Values()...), []string{"x"}
			})
		}
		layer("gated delta layer", "gated_delta_layer", func(s *nn.Scope, x *graph.Value) *graph.Value {
			return nn.GatedDelta{KeyHeads: heads, ValueHeads: heads, Key: width, Value: width, Kernel: 4, Epsilon: 1e-6}.Apply(s, x, &nn.Step{})
		})
		layer("Mamba2 layer", "mamba2_layer", func(s *nn.Scope, x *graph.Value) *graph.Value {
			return nn.Mamba2{Heads: heads, Width: width, Groups: 1, State: width, Kernel: 4, ConvBias: true, Epsilon: 1e-6}.Apply(s, x, &nn.Step{})
		})
	}
	return ws
}

// mixerInput returns an argument of a layer: decays below 0, rates from 0 to 1, unit keys, and gains and steps of about 1.
func mixerInput(seed uint64, v *graph.Value) array.Array {
	shape := v.Type.Shape
	a := normal(seed, fanIn(shape[len(shape)-1]), graph.F32, shape...)
	x := array.Data[float32](a)
	for i := range x {
		switch v.Name {
		case "decay":
			x[i] = -0.1 * x[i] * x[i] * float32(shape[2])
		case "rates":
			x[i] = min(x[i]*x[i]*float32(shape[2]), 1)
		case "dt_bias", "D", "norm.weight":
			x[i]++
		}
	}
	return a
}
