package pretrain

import (
	"fmt"
	"maps"
	"strings"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/strictjson"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/lm"
	"github.com/gomoe/gomoe/train/snapshot"
)

// step returns the training step. If o asks for it, the step also records or replays choices of experts.
func (s *Settings) step(m *models.Model, o Options) lm.Step {
	step := lm.Step{
		Forward: func(scope *nn.Scope, tokens *graph.Value) *graph.Value { return m.Forward(scope, tokens, &nn.Step{}) },
		TopK:    m.TopK, Rows: s.Batch, Length: s.Length, Balance: s.Balance, ZLoss: s.ZLoss,
		Train: train.Config{
			Optimizer: s.optimizer(), Model: s.options(), Zero: s.Zero,
			Even: s.Even, Stochastic: s.Optimizer.Stochastic, Microbatches: s.Microbatches,
		},
	}
	switch {
	case o.Replay != "":
		step.Before = train.Replayed
	case o.Record != "":
		step.Before = train.Recorded
	}
	if o.Record != "" {
		step.After = train.Choices
	}
	return step
}

// placed returns the configuration of a step on the mesh, without its weights.
func (s *Settings) placed(p *train.Program) gomoe.Config {
	inputs := lm.Inputs()
	for _, in := range p.In {
		if strings.HasPrefix(in.Name, train.ChoicesPrefix) {
			inputs = append(inputs, in.Name)
		}
	}
	cfg := gomoe.Config{Mesh: s.Mesh, Place: lm.Places(s.Mesh, inputs...)}
	if s.Sums != graph.F32 {
		cfg.Sums = s.Sums
	}
	if s.Exact {
		cfg.Exact = gomoe.ExactBlocks
	}
	return cfg
}

// lighter names the settings that may reduce the memory of a step.
func (s *Settings) lighter(m *models.Model, o Options) lm.Lighter {
	narrow := *s
	narrow.DType = graph.BF16
	return lm.Lighter{Narrow: narrow.step(m, o), Name: func(setting, value string) string {
		if setting == "microbatches" {
			return fmt.Sprintf("%q: %s", setting, value)
		}
		return fmt.Sprintf("%q: %q", setting, value)
	}}
}

// options returns the element types of computation and weights. Biases used for choosing experts are f32.
func (s *Settings) options() nn.Options {
	return nn.Options{DType: s.DType, Remat: s.Remat, Masters: s.Masters, Stored: func(p nn.Param) (nn.Form, error) {
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
		inner := train.Where(func(p nn.Param) bool {
			return len(p.Type.Shape) > 1 && !strings.Contains(p.Name, "embed_tokens") && !strings.HasPrefix(p.Name, "lm_head")
		})
		last = train.Chain(train.On(inner, train.Muon(train.MuonOptions{LikeAdam: true, Decay: o.Decay, Moments: o.Moments})), train.On(train.Not(inner), adam))
	}
	return train.Chain(train.ClipByGlobalNorm(o.Clip), last)
}

// warm sets the number of warmup steps if the settings leave it open. A resumed run uses the number of its checkpoint
// from, even if its total has changed; a new run uses a tenth of its steps, so that a short run reaches its full rate.
func (s *Settings) warm(from *snapshot.Snapshot) {
	if s.Rate.Warmup >= 0 {
		return
	}
	s.Rate.Warmup = min(usualWarmup, s.Steps/10)
	if from == nil {
		return
	}
	var rate struct {
		Warmup *int `json:"warmup"`
	}
	if strictjson.Unmarshal([]byte(from.Facts["rate"]), &rate) == nil && rate.Warmup != nil {
		s.Rate.Warmup = *rate.Warmup
	}
}

// context keeps the context length of a resumed run's checkpoint, unless the settings give one or its sequences are
// longer. It returns the settings that may therefore differ from the checkpoint's.
func (s *Settings) context(from *snapshot.Snapshot) []string {
	const name = "max_position_embeddings"
	if _, ok := s.Model[name]; ok || from == nil {
		return nil
	}
	var model map[string]any
	if strictjson.Unmarshal([]byte(from.Facts["model"]), &model) == nil {
		if n, ok := model[name].(float64); ok && n > float64(s.Length) {
			s.Model = maps.Clone(s.Model)
			s.Model[name] = n
		}
	}
	return []string{"model." + name}
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
