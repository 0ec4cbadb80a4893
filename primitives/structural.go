package primitives

import (
	"fmt"
	"strings"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// stopGradientOp returns its argument without passing a cotangent back.
type stopGradientOp struct{}

var _ pointwise = stopGradientOp{}

// StopGradient returns x without copying it. Differentiation treats the result as a
// constant, passing no cotangent to x.
func StopGradient(x *graph.Value) *graph.Value { return graph.Apply1(stopGradientOp{}, x) }

func (stopGradientOp) Name() string { return "stop_gradient" }

func (stopGradientOp) Infer(in []graph.Type) ([]graph.Type, error) { return in, arity(in, 1) }

// VJP is zero.
func (stopGradientOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (stopGradientOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), 1, 1, sharding.LinearTogether))
}

func (stopGradientOp) Pointwise() {}

func (stopGradientOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	e.Alias(out[0], in[0])
	return nil
}

func (stopGradientOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "t[..]", Formula: "y = x", Notes: "Its derivative is 0."}
}

// shardingConstraintOp places its argument according to Spec.
type shardingConstraintOp struct {
	// Spec is a placement in the syntax of sharding.ParseSpec. "" means whole on every
	// rank.
	Spec string
}

var _ primitive = shardingConstraintOp{}

// ShardingConstraint returns x, placed so that dimension i is split over the mesh axes
// named by dims[i]: "dp", "dp.ep" for two axes with the major one first, or "" for none.
// Dimensions without an entry are whole, so ShardingConstraint(x) gathers x on every rank.
// A last entry "{+dp}" or "{+dp+ep}" leaves sums over these axes pending: each rank keeps its own
// summand, even in a result of the program. Axes missing in a mesh count as axes of size 1.
func ShardingConstraint(x *graph.Value, dims ...string) *graph.Value {
	return graph.Apply1(shardingConstraintOp{sharding.Split(dims...).String()}, x)
}

func (shardingConstraintOp) Name() string { return "sharding_constraint" }

// Blocks marks a primitive taking weights in quantised blocks.
func (shardingConstraintOp) Blocks() {}

func (k shardingConstraintOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	s, err := sharding.ParseSpec(k.Spec)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for d, axes := range s.Dims {
		if d >= in[0].Rank() && len(axes) > 0 {
			return nil, fmt.Errorf("the placement %s has %d entries for %d dimensions, want at most one for each", s, len(s.Dims), in[0].Rank())
		}
		for _, a := range axes {
			if a = sharding.AxisOf(a); seen[a] {
				return nil, fmt.Errorf("the placement %s uses axis %s twice, want it once", s, a)
			}
			seen[a] = true
		}
	}
	for _, a := range s.Pending {
		if seen[a] {
			return nil, fmt.Errorf("the placement %s uses axis %s twice, want it once", s, a)
		}
		seen[a] = true
	}
	return in, nil
}

// LeavesPending marks a primitive leaving results of the program pending.
func (shardingConstraintOp) LeavesPending() {}

// VJP places the cotangent like x.
func (k shardingConstraintOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{graph.Apply1(graph.PlaceLikeOp{}, ct[0], e.In[0])}, nil
}

// Shard ignores axes missing in the mesh, so that a program runs on one rank and on
// many. Ragged rows stay on their ranks; their other dimensions may move.
func (k shardingConstraintOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	s, err := sharding.ParseSpec(k.Spec)
	if err != nil {
		return sharding.Decision{}, err
	}
	to := s.On(c.Mesh)
	to.Ragged = c.In[0].Ragged
	to, err = to.Check(c.Mesh, c.Type(0))
	if err != nil {
		return sharding.Decision{}, err
	}
	from := c.In[0]
	if want := strings.Join(from.At(0), "."); from.Ragged != nil && strings.Join(to.At(0), ".") != want {
		return sharding.Decision{}, fmt.Errorf("spec %s would move rows in expert order, whose number is known only to the run; split dimension 0 over %s, or ep_combine first", quoted.Text(k.Spec), quoted.Text(want))
	}
	dec := sharding.Decision{In: []sharding.Spec{from}, Out: []sharding.Spec{to}}
	if sharding.Free(from, to, c.Type(0)) == nil {
		dec.In[0] = to // each rank computes its shard of a constant or a broadcast
	}
	return dec, nil
}

func (k shardingConstraintOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Move(out[0], in[0])
}

func (shardingConstraintOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "t[..]", Formula: "y = x",
		Params: "spec: per dimension, with commas between, the mesh axes that split it with dots between, or _ for none; missing ones are whole; ep:even is the axis ep without its ranges of experts; at the end, such as {+dp+ep}, the axes along which sums stay pending",
		Notes:  "Moves x by all_gather, all_to_all, reduce_scatter or all_sum as needed, and by nothing where each rank has its part already. Axes that the mesh does not have count as axes of size 1, so that a program runs on every mesh."}
}

// KeepProducts is a policy of vjp.RematKeep: the gradient keeps the results of products
// with matrices, because their recomputation takes the most time.
func KeepProducts(e *graph.Eqn) bool {
	switch e.Prim.(type) {
	case dotGeneralOp, groupedMatMulOp:
		return true
	}
	return false
}

// KeepExchanges is a policy of vjp.RematKeep: the gradient keeps routings and the results of
// ep_dispatch and ep_combine. The backward pass then repeats no exchange of a layer.
func KeepExchanges(e *graph.Eqn) bool {
	switch e.Prim.(type) {
	case PrepareOp, CopiesOp, DispatchOp, CombineOp:
		return true
	}
	return false
}
