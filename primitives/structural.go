package primitives

import (
	"fmt"
	"strings"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
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

func (stopGradientOp) Pointwise() {}

func (stopGradientOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	e.Alias(out[0], in[0])
	return nil
}

func (stopGradientOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "t[..]", Formula: "y = x", Notes: "Its derivative is 0."}
}

// shardingConstraintOp places its argument as Spec says.
type shardingConstraintOp struct {
	// Spec is a placement in the form that sharding.ParseSpec reads. "" means whole on
	// every rank.
	Spec string
}

var _ primitive = shardingConstraintOp{}

// ShardingConstraint returns x, placed so that dimension i is split over the mesh axes
// that dims[i] names: "dp", or "dp.ep" for two axes, of which the first is the major
// one, or "" for none. Dimensions without an entry are whole, so ShardingConstraint(x)
// gathers x on every rank. An entry "{+dp}" or "{+dp+ep}", which comes last, says that sums
// over these axes are pending, also where the value is a result of the program: each rank
// then keeps its own summand. Axes that a mesh does not have count as axes of size 1.
func ShardingConstraint(x *graph.Value, dims ...string) *graph.Value {
	return graph.Apply1(shardingConstraintOp{sharding.Split(dims...).String()}, x)
}

func (shardingConstraintOp) Name() string { return "sharding_constraint" }

// Blocks says that the argument may be weights in quantised blocks.
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

// LeavesPending says that the result may leave the program as a pending sum.
func (shardingConstraintOp) LeavesPending() {}

// VJP brings the cotangent to where x lies.
func (k shardingConstraintOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{graph.Apply1(graph.PlaceLikeOp{}, ct[0], e.In[0])}, nil
}

// Shard leaves out the axes that the mesh does not have: the same program runs
// on one rank and on many. Ragged rows stay where they are; their other
// dimensions may move.
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
		dec.In[0] = to // each rank makes its part of a constant or a broadcast
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

// PlaceLike returns x, placed as like, which has the same shape. Only the placement of like
// is used, not its elements. A gradient that goes to where the optimizer's moments lie is the
// usual case: where these are split over the ranks that hold the weight, its pending sum is
// added up by reduce_scatter, and each rank gets its part.
func PlaceLike(x, like *graph.Value) *graph.Value { return graph.Apply1(graph.PlaceLikeOp{}, x, like) }

// Barrier returns the values x unchanged. Nothing merges across it: no pass replaces
// what is computed from the results by what is computed from x. What is computed from
// one result is computed after all of x are there. It costs nothing in a run. vjp.Remat
// uses barriers to compute values a second time in the backward pass.
func Barrier(x ...*graph.Value) []*graph.Value {
	graph.Helper()
	if len(x) == 0 {
		graph.Fail("barrier: no values, want at least one")
	}
	out := make([]*graph.Value, len(x))
	for i, v := range x {
		args := []*graph.Value{v}
		for j, w := range x {
			if j != i {
				args = append(args, w)
			}
		}
		out[i] = graph.Apply1(graph.BarrierOp{}, args...)
	}
	return out
}

// KeepProducts is a policy of vjp.RematKeep: the gradient keeps the results of products
// with matrices, which take the most time to compute again.
func KeepProducts(e *graph.Eqn) bool {
	switch e.Prim.(type) {
	case dotGeneralOp, groupedMatMulOp:
		return true
	}
	return false
}

// KeepExchanges is a policy of vjp.RematKeep: the gradient keeps routings and what
// ep_dispatch and ep_combine bring to experts and home. The backward pass then repeats
// no exchange between ranks of a layer.
func KeepExchanges(e *graph.Eqn) bool {
	switch e.Prim.(type) {
	case PrepareOp, CopiesOp, DispatchOp, CombineOp:
		return true
	}
	return false
}
