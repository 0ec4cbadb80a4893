package finetune

import (
	"github.com/gomoe/gomoe/data"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/train/lm"
)

// keyInput is the input u32[2] of a step with dropout.
const keyInput = "key"

// inputs lists the arrays of a batch used by every program here, each [rows,length].
func inputs() []string { return append(lm.Inputs(), data.Positions, data.Documents) }

// forward traces the model over sequences of documents that do not attend to each other.
func (t *tuning) forward(s *nn.Scope, tokens *graph.Value) *graph.Value {
	input := func(name string) *graph.Value { return s.Tracer().Input(name, graph.I32, tokens.Type.Shape...) }
	positions := input(data.Positions)
	return t.m.Forward(s, tokens, &nn.Step{At: positions, Bias: data.Apart(input(data.Documents), graph.F32)})
}
