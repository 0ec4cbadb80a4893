package primitives

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// stopGradientOp returns its argument and passes no cotangent back.
type stopGradientOp struct{}

var _ pointwise = stopGradientOp{}

// StopGradient returns x, which differentiation treats as a constant: x receives
// no cotangent through the result. Nothing is copied.
func StopGradient(x *graph.Value) *graph.Value { return graph.Apply1(stopGradientOp{}, x) }

func (stopGradientOp) Name() string { return "stop_gradient" }

func (stopGradientOp) Infer(in []graph.Type) ([]graph.Type, error) { return in, arity(in, 1) }

// VJP is zero.
func (stopGradientOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (stopGradientOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), 1, 1, sharding.LinearTogether))
}

// Pointwise says that the result is a constant, in any placement, if the arguments are constants.
func (stopGradientOp) Pointwise() {}

func (stopGradientOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	e.Alias(out[0], in[0])
	return nil
}

func (stopGradientOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "t[..]", Formula: "y = x", Notes: "Its derivative is 0."}
}
