package lm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/data"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train"
)

// Step is a training step of a language model. B is the number of sequences, S the number of tokens in each.
type Step struct {
	// Forward returns the logits [B,S,V] of tokens i32[B,S]. It may declare additional inputs. MoE layers other than
	// nn.MoE report their routing using nn.Scope.Report.
	Forward func(s *nn.Scope, tokens *graph.Value) *graph.Value
	TopK    int // experts per token, in models with experts
	// Rows is the number of sequences per batch, over all ranks and microbatches; Length is the number of tokens per
	// sequence.
	Rows, Length   int
	Balance, ZLoss float64 // coefficients of the router losses, which are averaged over layers
	// Train configures the optimiser, the model, sharding of state, and microbatches.
	Train train.Config
	// Before, if not nil, is called with the scope before tracing the model of a training step. After returns
	// additional results. See train.Recorded and train.Choices.
	Before func(*nn.Scope)
	After  func(*nn.Scope) []*graph.Value
}

// Inputs names the arrays of a batch used by every step, each [B,S]: tokens and targets i32, and weights of the
// targets, f32.
func Inputs() []string { return []string{data.Tokens, data.Targets, data.Weights} }

// Axes returns the mesh axes splitting a batch: all except tp, and including dp and ep even if the mesh lacks them.
func Axes(m sharding.Mesh) []string {
	var axes []string
	for _, a := range m.Axes {
		if a.Name != "tp" {
			axes = append(axes, a.Name)
		}
	}
	for _, name := range []string{"dp", "ep"} {
		if !slices.Contains(axes, name) {
			axes = append(axes, name)
		}
	}
	return axes
}

// Splits returns the number of parts into which a batch must split evenly, and describes them: the ranks along dp and
// ep, or the blocks of an exact run, of which each rank has some. It is an error if the mesh has axes other than dp, ep
// and tp.
func Splits(m sharding.Mesh, exact bool) (parts int, of string, err error) {
	parts, of = 1, "ranks along dp and ep"
	if exact {
		parts, of = gomoe.ExactBlocks, "blocks of exact sums"
	}
	for _, a := range m.Axes {
		switch {
		case a.Name != "dp" && a.Name != "ep" && a.Name != "tp":
			return 0, "", fmt.Errorf("axis %s, want dp (splits the batch), ep (the batch and the experts) or tp (heads and expert columns)", a.Name)
		case a.Name != "tp" && !exact:
			parts *= a.Size
		}
	}
	return parts, of, nil
}

// Places returns the placements of a batch's arrays on a mesh.
func Places(m sharding.Mesh, inputs ...string) map[string]sharding.Spec {
	places := map[string]sharding.Spec{}
	for _, name := range inputs {
		places[name] = sharding.Spec{Dims: [][]string{m.Evenly(Axes(m))}}
	}
	return places
}

// Loss returns the weighted mean of -log(p) of the targets, in nats per token, and the sum of the weights, both
// f32[]. logits are [B,S,V], targets and weights [B,S]. The mean is 0 if all weights are 0.
func Loss(logits, targets, weights *graph.Value) (mean, of *graph.Value) {
	each := primitives.CrossEntropy(primitives.ConvertElementType(logits, graph.F32), targets)
	sum, of := primitives.ReduceSum(primitives.Mul(each, weights)), primitives.ReduceSum(weights)
	return primitives.Div(sum, primitives.Max(of, primitives.FullLike(of, 1))), of
}

// loss traces the model and its loss for one microbatch.
func (c Step) loss(s *nn.Scope, before func(*nn.Scope)) (mean, of *graph.Value) {
	t, rows := s.Tracer(), c.Rows/max(1, c.Train.Microbatches)
	tokens, targets := t.Input(data.Tokens, graph.I32, rows, c.Length), t.Input(data.Targets, graph.I32, rows, c.Length)
	weights := t.Input(data.Weights, graph.F32, rows, c.Length)
	if before != nil {
		before(s)
	}
	return Loss(c.Forward(s, tokens), targets, weights)
}

// Trace traces the step for a mesh. Its results are loss and, for models with experts, balance, both f32[], and
// demand and counts i32[layers,experts].
func (c Step) Trace(m sharding.Mesh) (*train.Program, error) {
	parts := max(1, c.Train.Microbatches)
	if pairs := float64(c.Rows/parts) * float64(c.Length) * float64(c.TopK); pairs > math.MaxInt32 {
		return nil, fmt.Errorf("batch of %d sequences of %d tokens in %d microbatches: a microbatch has %.0f pairs of a token and one of its experts, want at most %d: a smaller batch, shorter sequences or more microbatches",
			c.Rows, c.Length, parts, pairs, math.MaxInt32)
	}
	cfg := c.Train
	cfg.Batch = Axes(m)
	return train.Trace("train_step", cfg, func(s *nn.Scope) (*graph.Value, []*graph.Value) {
		loss, of := c.loss(s, c.Before)
		total, results := loss, []*graph.Value{loss.Named("loss")}
		if cfg.Microbatches > 1 {
			results = append(results, of.Named(train.WeightResult))
		}
		if routed := s.Routed(); len(routed) > 0 {
			var balance, z, demand, counts []*graph.Value
			for _, r := range routed {
				balance, z = append(balance, primitives.LoadBalanceLoss(r.Scores, r.Demand, c.TopK)), append(z, primitives.RouterZLoss(r.Logits))
				demand, counts = append(demand, primitives.Reshape(r.Demand, 1, r.Demand.Dim(0))), append(counts, primitives.Reshape(r.Counts, 1, r.Counts.Dim(0)))
			}
			even := mean(balance)
			if c.Balance != 0 || c.ZLoss != 0 {
				total = primitives.Add(loss, primitives.Add(primitives.MulScalar(even, c.Balance), primitives.MulScalar(mean(z), c.ZLoss)))
			}
			results = append(results, even.Named("balance"), primitives.Concatenate(0, demand...).Named("demand"), primitives.Concatenate(0, counts...).Named("counts"))
		}
		if c.After != nil {
			results = append(results, c.After(s)...)
		}
		return total, results
	})
}

// Evaluation traces only the loss, for held-out text; see train.Run.Evaluation.
func (c Step) Evaluation(s *nn.Scope) []*graph.Value {
	loss, of := c.loss(s, nil)
	return []*graph.Value{loss.Named("loss"), of.Named(train.WeightResult)}
}

func mean(xs []*graph.Value) *graph.Value {
	sum := xs[0]
	for _, x := range xs[1:] {
		sum = primitives.Add(sum, x)
	}
	return primitives.MulScalar(sum, 1/float64(len(xs)))
}

// Lighter is how a program's user lets a step need less memory.
type Lighter struct {
	// Name returns a setting as the user gives it, or "" if the user cannot change it: remat, microbatches, zero, sums
	// or dtype. nil names none.
	Name   func(setting, value string) string
	Narrow Step   // the step with dtype bf16
	Advice string // other advice; "" means none
}

// Lighter extends a *gomoe.TooLargeError of the step, placed by cfg, with the settings that need less memory, and with the
// advice. It returns other errors unchanged. If ctx ends, it returns the cause.
func (c Step) Lighter(ctx context.Context, err error, cfg gomoe.Config, by Lighter) error {
	setting := func(name string, c Step, cfg gomoe.Config) gomoe.Setting {
		return gomoe.Setting{Name: name, Program: func() (*graph.Program, gomoe.Config, error) {
			p, err := c.Trace(cfg.Mesh)
			if err != nil {
				return nil, cfg, err
			}
			cfg, err := p.Placed(cfg)
			return p.Program, cfg, err
		}}
	}
	var all []gomoe.Setting
	add := func(name, value string, c Step, cfg gomoe.Config) {
		if by.Name == nil {
			return
		}
		if given := by.Name(name, value); given != "" {
			all = append(all, setting(given, c, cfg))
		}
	}
	for _, remat := range []nn.Remat{nn.RematProducts, nn.RematAll} {
		other := c
		other.Train.Model.Remat = remat
		add("remat", string(remat), other, cfg)
	}
	for _, n := range []int{2, 8} {
		other := c
		other.Train.Microbatches = n * max(1, c.Train.Microbatches)
		if parts, _, err := Splits(cfg.Mesh, cfg.Exact != 0); err == nil && c.Rows%(parts*other.Train.Microbatches) == 0 {
			add("microbatches", fmt.Sprint(other.Train.Microbatches), other, cfg)
		}
	}
	for _, zero := range []train.Zero{train.ZeroMoments, train.ZeroWeights} {
		other := c
		other.Train.Zero = zero
		add("zero", string(zero), other, cfg)
	}
	sums := cfg
	sums.Sums = graph.BF16
	add("sums", "bf16", c, sums)
	add("dtype", "bf16", by.Narrow, cfg)
	err = gomoe.Lighter(ctx, err, setting("", c, cfg), all)
	var tooLarge *gomoe.TooLargeError
	if by.Advice != "" && errors.As(err, &tooLarge) {
		err = fmt.Errorf("%w; what changes it: %s", err, by.Advice)
	}
	return err
}
