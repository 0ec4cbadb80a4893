package primitives

import (
	"fmt"
	"math"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// RouteOp chooses each token's experts and their weights from the router's
// logits. Its weights and scores are f64 for logits in f64, and f32 for all other
// types. Of equal scores the lower expert id wins.
type RouteOp struct {
	TopK int
	// Score is the function mapping logits to scores: "" for softmax over all experts,
	// "sigmoid", or "sqrt_softplus". With "topk_softmax" the weights are the softmax
	// over the logits of the chosen experts only.
	Score string
	// Groups is the number of equal groups of consecutive experts, limiting a token to
	// experts in its best TopGroups groups. 0 means no groups.
	Groups, TopGroups int
	// GroupScore is the order of the groups: "" by the sum of a group's two best
	// selection values, or "max" by its best. A selection value is a score plus bias.
	GroupScore string
	// Renormalize divides the chosen weights by their sum plus Epsilon.
	Renormalize bool
	Epsilon     float64
	// Scale multiplies the weights; 0 means 1.
	Scale float64
}

var _ primitive = RouteOp{}

// The values of RouteOp.Score.
const (
	SigmoidScore      = "sigmoid"
	SqrtSoftplusScore = "sqrt_softplus"
	TopKSoftmaxScore  = "topk_softmax"
)

// Route returns, for logits [..,E], the weights f32[..,K] and ids i32[..,K] of
// each token's experts, best first, and all scores f32[..,E] for balancing
// losses. A bias f[E] is added when selecting experts only, and has no gradient. It
// may be nil.
func Route(r RouteOp, logits, bias *graph.Value) (weights, experts, scores *graph.Value) {
	graph.Helper()
	if logits.Rank() < 2 {
		graph.Fail("route: logits are %s, want [tokens, experts]", logits.Type)
	}
	args := []*graph.Value{flatten(logits)}
	if bias != nil {
		args = append(args, bias)
	}
	out := graph.Apply(r, args...)
	for i, v := range out {
		out[i] = unflatten(v, logits)
	}
	return out[0], out[1], out[2]
}

func (RouteOp) Name() string { return "router" }

func (r RouteOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if len(in) != 1 && len(in) != 2 {
		return nil, fmt.Errorf("%d arguments, want logits or logits, bias", len(in))
	}
	x := in[0]
	if err := floating(x); err != nil {
		return nil, err
	}
	if x.Rank() != 2 {
		return nil, fmt.Errorf("logits are %s, want [tokens, experts]", x)
	}
	experts := x.Shape[1]
	if len(in) == 2 && (in[1].Rank() != 1 || in[1].Shape[0] != experts || !in[1].DType.IsFloat()) {
		return nil, fmt.Errorf("bias is %s, want f32[%d], one per expert", in[1], experts)
	}
	if len(in) == 2 && (in[1].DType == graph.F64) != (x.DType == graph.F64) {
		return nil, fmt.Errorf("bias is %s for logits %s, want both in f64 or neither; convert one with convert_element_type", in[1], x)
	}
	if err := r.check(experts); err != nil {
		return nil, err
	}
	d := graph.F32
	if x.DType == graph.F64 {
		d = graph.F64
	}
	return []graph.Type{graph.T(d, x.Shape[0], r.TopK), graph.T(graph.I32, x.Shape[0], r.TopK), graph.T(d, x.Shape[0], experts)}, nil
}

func (r RouteOp) check(experts int) error {
	switch r.Score {
	case "", SigmoidScore, SqrtSoftplusScore, TopKSoftmaxScore:
	default:
		return fmt.Errorf("score %s, want none for softmax, %q, %q or %q", quoted.Text(r.Score), SigmoidScore, SqrtSoftplusScore, TopKSoftmaxScore)
	}
	if r.GroupScore != "" && r.GroupScore != "max" {
		return fmt.Errorf("group_score %s, want none for the sum of the two best, or \"max\"", quoted.Text(r.GroupScore))
	}
	choice := experts
	if r.Groups != 0 {
		if r.Groups < 0 || experts%r.Groups != 0 {
			return fmt.Errorf("%d experts in %d groups, want equal groups", experts, r.Groups)
		}
		if r.TopGroups < 1 || r.TopGroups > r.Groups {
			return fmt.Errorf("top_groups=%d of %d groups, want 1 to %d", r.TopGroups, r.Groups, r.Groups)
		}
		choice = experts / r.Groups * r.TopGroups
	} else if r.TopGroups != 0 || r.GroupScore != "" {
		return fmt.Errorf("top_groups and group_score need groups; set groups to their number")
	}
	if experts == 0 {
		return fmt.Errorf("logits have no columns, so that there are no experts to choose from; want a column for each expert")
	}
	if r.TopK < 1 || r.TopK > choice {
		return fmt.Errorf("top_k=%d of %d experts to choose from, want 1 to %d", r.TopK, choice, choice)
	}
	if r.Epsilon < 0 || math.IsNaN(r.Epsilon) || math.IsNaN(r.Scale) {
		return fmt.Errorf("epsilon=%v scale=%v, want a non-negative epsilon and a number", r.Epsilon, r.Scale)
	}
	return nil
}

// NaNLogit returns the error for a logit that is NaN. token is its number in the global batch.
func (RouteOp) NaNLogit(token, expert int) error {
	return fmt.Errorf("the logit of token %d for expert %d is NaN; no expert can be chosen from it", token, expert)
}

func (r RouteOp) scale() float64 {
	if r.Scale == 0 {
		return 1
	}
	return r.Scale
}

// VJP differentiates weights and scores, keeping the chosen experts fixed. It consists of
// simple primitives, so that the derivative is differentiable too.
func (r RouteOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	logits, ids := e.In[0], e.Out[1]
	weights, scores := r.smooth(logits, ids, e.Out[0].Type.DType)
	grad := vjp.Backward([]*graph.Value{weights, scores}, []*graph.Value{ct[0], ct[2]}, []*graph.Value{logits})
	out := make([]*graph.Value, len(e.In))
	out[0] = grad[0]
	return out, nil
}

// smooth returns the weights and scores, in type d, for the chosen experts ids.
func (r RouteOp) smooth(logits, ids *graph.Value, d graph.DType) (weights, scores *graph.Value) {
	x := logits
	if x.Type.DType != d {
		x = ConvertElementType(x, d)
	}
	switch r.Score {
	case SigmoidScore:
		scores = Logistic(x)
	case SqrtSoftplusScore:
		// Far below 0 the score is exp(x/2), because eˣ may underflow to 0, where a root has no
		// derivative. Each formula gets 0 where the other one applies, because 0 times an infinite
		// derivative is NaN.
		low, zero := Lt(x, FullLike(x, -40)), ZerosLike(x)
		scores = Where(low, Exp(MulScalar(Where(low, x, zero), 0.5)), Sqrt(softplus(Where(low, zero, x))))
	default:
		scores = Softmax(x, 1)
	}
	if r.Score == TopKSoftmaxScore {
		weights = Softmax(TakeAlongAxis(x, ids, 1), 1)
	} else {
		weights = TakeAlongAxis(scores, ids, 1)
	}
	if r.Renormalize && r.Epsilon == 0 && r.Score != TopKSoftmaxScore {
		// Computed from logarithms, which stay finite if the scores, or the squares of their sum, underflow.
		weights = Softmax(r.logScore(TakeAlongAxis(x, ids, 1)), 1)
	} else if r.Renormalize {
		total := AddScalar(ReduceSum(weights, 1), r.Epsilon)
		weights = Div(weights, BroadcastInDim(total, weights.Type.Shape, 0))
	}
	if r.scale() != 1 {
		weights = MulScalar(weights, r.scale())
	}
	return weights, scores
}

// logScore returns the logarithms of the scores of chosen logits, omitting for softmax the common term of a
// token's scores.
func (r RouteOp) logScore(x *graph.Value) *graph.Value {
	switch r.Score {
	case "":
		return x
	case SigmoidScore:
		return Neg(softplus(Neg(x)))
	}
	low, zero := Lt(x, FullLike(x, -40)), ZerosLike(x)
	return MulScalar(Where(low, x, Log(softplus(Where(low, zero, x)))), 0.5)
}

// softplus returns ln(1 + eˣ) without overflowing: max(x, 0) + log1p(e^-|x|). One comparison selects
// both terms, because the derivatives of a maximum and of |x| at 0 would not add up to the derivative of the sum.
func softplus(x *graph.Value) *graph.Value {
	zero := ZerosLike(x)
	above := Gt(x, zero)
	return Add(Where(above, x, zero), Log1p(Exp(Where(above, Neg(x), x))))
}

func (r RouteOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	row := []int{0, sharding.Whole}
	f := sharding.Factors{In: [][]int{row}, Out: [][]int{row, row, row}, RowWise: true}
	if len(c.In) == 2 {
		f.In = append(f.In, []int{sharding.Whole})
	}
	return c.Place(f)
}

func (r RouteOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	axes, tokens := in[0].Spec.At(0), e.Eqn.In[0].Type.Shape[0]
	return e.Emit(lowering.KernelSpec{Op: ops.Router, Out: out, In: in, Kernel: func(a *exec.Args) error {
		at, _ := a.Part(axes, tokens)
		return inFloat(route[float32](r, at), route[float64](r, at))(a)
	}})
}

func (RouteOp) Doc() graph.Doc {
	return graph.Doc{
		Args:    "logits f[T,E], bias f[E] (may be left out)",
		Results: "weights f32[T,K], experts i32[T,K], scores f32[T,E] (f64 for f64 logits)",
		Formula: "scores = score(logits); experts = top_k(scores + bias) within the best groups; weights = scale · scores[experts] / (Σ + epsilon if renormalize)",
		Params: `top_k: K; score: softmax if empty, "sigmoid", "sqrt_softplus" = sqrt(ln(1+eˣ)), or "topk_softmax" = choose by logits, softmax over the chosen; ` +
			`groups, top_groups: equal runs of experts, and how many of them a token uses; group_score: "" the sum of the two best selection values, or "max"; ` +
			"renormalize: divide the weights by their sum + epsilon; epsilon: keeps that sum from 0; scale: factor of the weights, 0 is 1",
		Notes: "Equal values go to the lower expert id; experts of other groups are never chosen, whatever their value. The bias is for selection only and has no gradient. A NaN logit is an error that names the token.",
	}
}
