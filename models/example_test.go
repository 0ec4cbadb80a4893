package models_test

import (
	"fmt"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
)

// A model is opened and traced: its parameters are those of the files.
func Example() {
	c, err := checkpoint.Open("testdata/olmoe")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	m, err := models.Open(c)
	if err != nil {
		fmt.Println(err)
		return
	}
	var params []nn.Param
	_, err = graph.Trace("model", func(t *graph.Tracer) []*graph.Value {
		s := nn.New(t, nn.Options{DType: models.DType(c), Stored: models.Stored(c)})
		logits := m.Forward(s, t.Input("tokens", graph.I32, 1, 8), &nn.Step{})
		params = s.Params()
		return []*graph.Value{logits}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	all, active := nn.Count(params, m.TopK)
	fmt.Println(m.Family.Name, m.Layers, "layers,", all, "parameters, of which a token uses", active)
	fmt.Println(params[11].Name, params[11].Type)
	// Output:
	// olmoe 2 layers, 16016 parameters, of which a token uses 8336
	// model.layers.0.mlp.experts.*.up_proj.weight f32[8,16,16]
}
