package primitives

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// StopGradientOp returns its argument and passes no cotangent back.
type StopGradientOp struct{}

var _ pointwise = StopGradientOp{}

// StopGradient returns x, which differentiation treats as a constant: x receives
// no cotangent through the result. Nothing is copied.
func StopGradient(x *graph.Value) *graph.Value { return graph.Apply1(StopGradientOp{}, x) }

func (StopGradientOp) Name() string { return "stop_gradient" }

func (StopGradientOp) Infer(in []graph.Type) ([]graph.Type, error) { return in, arity(in, 1) }

// VJP is zero.
func (StopGradientOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (StopGradientOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), 1, 1, sharding.LinearTogether))
}

// Pointwise says that the result is a constant, in any placement, if the arguments are constants.
func (StopGradientOp) Pointwise() {}

func (StopGradientOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	e.Alias(out[0], in[0])
	return nil
}

func (StopGradientOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "t[..]", Formula: "y = x", Notes: "Its derivative is 0."}
}
