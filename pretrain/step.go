package pretrain

import (
	"strings"

	"github.com/gomoe/gomoe/data"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	pr "github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train"
)

// inputs are the arrays of a batch that the programs have.
func inputs() []string { return []string{data.Tokens, data.Targets, data.Weights} }

// places returns where batches lie: sequences are split over all axes but tp.
func (s *Settings) places() map[string]sharding.Spec {
	places := map[string]sharding.Spec{}
	for _, name := range inputs() {
		places[name] = sharding.Spec{Dims: [][]string{s.axes()}}
	}
	return places
}

// forward returns the mean loss of a microbatch in nats per token, how many tokens it is of, and what the model's layers
// of experts say. prepare, unless it is nil,
// is given the scope before the model.
func (s *Settings) forward(scope *nn.Scope, m *models.Model, prepare func(*nn.Scope)) (loss, of *graph.Value, routed []nn.Routed) {
	t := scope.Tracer()
	rows := s.Batch / s.Microbatches
	tokens, targets := t.Input(data.Tokens, graph.I32, rows, s.Length), t.Input(data.Targets, graph.I32, rows, s.Length)
	weights := t.Input(data.Weights, graph.F32, rows, s.Length)
	if prepare != nil {
		prepare(scope)
	}
	logits := m.Forward(scope, tokens, &nn.Step{})
	sum, of := pr.ReduceSum(pr.Mul(pr.CrossEntropy(logits, targets), weights)), pr.ReduceSum(weights)
	return pr.Div(sum, pr.Max(of, pr.FullLike(of, 1))), of, scope.Routed()
}

// trace traces the step. Its results are loss, and, for models with experts, balance f32[] and demand and counts
// i32[layers,experts]. As o says, it also returns choices, or takes them.
func (s *Settings) trace(m *models.Model, o Options) (*train.Program, error) {
	return train.Trace("train_step", train.Config{
		Optimizer: s.optimizer(), Model: s.options(), Zero: train.Zero(strings.TrimPrefix(s.Zero, "off")), Batch: s.axes(),
		Even: s.Even, Stochastic: s.Optimizer.Stochastic, Microbatches: s.Microbatches,
	}, func(scope *nn.Scope) (*graph.Value, []*graph.Value) {
		var prepare func(*nn.Scope)
		switch {
		case o.Replay != "":
			prepare = train.Replayed
		case o.Record != "":
			prepare = train.Recorded
		}
		loss, of, routed := s.forward(scope, m, prepare)
		total, results := loss, []*graph.Value{loss.Named("loss")}
		if s.Microbatches > 1 {
			results = append(results, of.Named(train.WeightResult))
		}
		if len(routed) > 0 {
			var balance, z, demand, counts []*graph.Value
			for _, r := range routed {
				balance, z = append(balance, pr.LoadBalanceLoss(r.Scores, r.Demand, m.TopK)), append(z, pr.RouterZLoss(r.Logits))
				demand, counts = append(demand, pr.Reshape(r.Demand, 1, m.Experts)), append(counts, pr.Reshape(r.Counts, 1, m.Experts))
			}
			even := mean(balance)
			total = pr.Add(loss, pr.Add(pr.MulScalar(even, s.Balance), pr.MulScalar(mean(z), s.ZLoss)))
			results = append(results, even.Named("balance"), pr.Concatenate(0, demand...).Named("demand"), pr.Concatenate(0, counts...).Named("counts"))
			if o.Record != "" {
				results = append(results, train.Choices(scope)...)
			}
		}
		return total, results
	})
}

func mean(xs []*graph.Value) *graph.Value {
	sum := xs[0]
	for _, x := range xs[1:] {
		sum = pr.Add(sum, x)
	}
	return pr.MulScalar(sum, 1/float64(len(xs)))
}

// options say in which type the model is calculated and has its weights. Biases by which experts are chosen are f32.
func (s *Settings) options() nn.Options {
	remat := nn.Remat(strings.TrimPrefix(s.Remat, "off"))
	return nn.Options{DType: s.DType, Remat: remat, Masters: s.Masters, Stored: func(p nn.Param) (nn.Form, error) {
		if s.Masters || strings.HasSuffix(p.Name, "e_score_correction_bias") {
			return nn.Form{DType: graph.F32}, nil
		}
		return nn.Form{DType: s.DType}, nil
	}}
}

func (s *Settings) optimizer() train.Transform {
	o := s.Optimizer
	adam := train.AdamW(train.AdamWOptions{Decay: o.Decay, Moments: o.Moments})
	var last train.Transform
	switch o.Name {
	case "adamw":
		last = adam
	case "lion":
		last = train.Lion(train.LionOptions{Decay: o.Decay, Moments: o.Moments})
	case "adafactor":
		last = train.Adafactor(train.AdafactorOptions{Decay: o.Decay})
	case "sgd":
		last = train.SGD(train.SGDOptions{Momentum: 0.9, Decay: o.Decay, Moments: o.Moments})
	case "muon":
		inner := func(p nn.Param) bool {
			return train.Matrices(p) && !strings.Contains(p.Name, "embed_tokens") && !strings.HasPrefix(p.Name, "lm_head")
		}
		last = train.Chain(train.On(inner, train.Muon(train.MuonOptions{LikeAdam: true, Decay: o.Decay, Moments: o.Moments})), train.On(train.Not(inner), adam))
	}
	return train.Chain(train.ClipByGlobalNorm(o.Clip), last)
}

func (s *Settings) schedule() train.Schedule {
	r := s.Rate
	switch r.Name {
	case "linear":
		return train.Linear(r.Peak, r.Warmup, s.Steps, r.Floor)
	case "wsd":
		return train.WSD(r.Peak, r.Warmup, min(r.Decay, s.Steps), s.Steps, r.Floor)
	case "constant":
		return train.Constant(r.Peak)
	}
	return train.Cosine(r.Peak, r.Warmup, s.Steps, r.Floor)
}
