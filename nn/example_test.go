package nn_test

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// A model is a function of a scope. Tracing it lists its parameters.
func Example() {
	model := func(s *nn.Scope, tokens *graph.Value) *graph.Value {
		x := nn.Embedding{Vocab: 256, Width: 16}.Apply(s.In("embed", ""), tokens)
		moe := nn.MoE{Experts: 4, Width: 32, Route: primitives.RouteOp{TopK: 2, Renormalize: true}}
		y, _ := moe.Apply(s.In("mlp", ""), nn.RMSNorm{Epsilon: 1e-5}.Apply(s.In("norm", ""), x))
		return nn.Linear{Out: 256}.Apply(s.In("head", ""), primitives.Add(x, y))
	}
	var params []nn.Param
	_, err := graph.Trace("model", func(t *graph.Tracer) []*graph.Value {
		s := nn.New(t, nn.Options{})
		logits := model(s, t.Input("tokens", graph.I32, 2, 8))
		params = s.Params()
		return []*graph.Value{logits}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(nn.Summary(params))
	all, active := nn.Count(params, 2)
	fmt.Println(all, "parameters, of which a token uses", active)
	// Output:
	// embed.weight f32[256,16]
	// norm.weight f32[16]
	// mlp.gate.weight f32[4,16]
	// mlp.experts.*.gate_proj.weight f32[4@ep,32@tp,16]
	// mlp.experts.*.up_proj.weight f32[4@ep,32@tp,16]
	// mlp.experts.*.down_proj.weight f32[4@ep,16,32@tp]
	// head.weight f32[256,16]
	// 14416 parameters, of which a token uses 11344
}

// A tree has the numbers of every part of a model.
func ExampleNewTree() {
	var params []nn.Param
	_, err := graph.Trace("model", func(t *graph.Tracer) []*graph.Value {
		s := nn.New(t, nn.Options{})
		x := nn.Embedding{Vocab: 256, Width: 16}.Apply(s.In("embed", ""), t.Input("tokens", graph.I32, 2, 8))
		for l := range 3 {
			layer := s.In(fmt.Sprintf("layers.%d", l), "")
			moe := nn.MoE{Experts: 4, Width: 32, Route: primitives.RouteOp{TopK: 2}}
			y, _ := moe.Apply(layer.In("mlp", ""), nn.RMSNorm{Epsilon: 1e-5}.Apply(layer.In("norm", ""), x))
			x = primitives.Add(x, y)
		}
		params = s.Params()
		return []*graph.Value{x}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(nn.NewTree(params, 2))
	// Output:
	// embed.weight  4096  f32[256,16]
	// layers  18672, of which a token uses 9456
	//   0 to 2, each  6224, of which a token uses 3152
	//     norm.weight  16  f32[16]
	//     mlp  6208, of which a token uses 3136
	//       gate.weight  64  f32[4,16]
	//       experts.*  6144, of which a token uses 3072
	//         gate_proj.weight  2048, of which a token uses 1024  f32[4,32,16]
	//         up_proj.weight  2048, of which a token uses 1024  f32[4,32,16]
	//         down_proj.weight  2048, of which a token uses 1024  f32[4,16,32]
}
