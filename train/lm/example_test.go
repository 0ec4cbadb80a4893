package lm_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/data/text"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/lm"
)

// A model that looks at one byte learns which byte follows it. A Command does this for a program of its own, with flags.
func Example() {
	step := lm.Step{
		Forward: func(s *nn.Scope, tokens *graph.Value) *graph.Value {
			x := nn.Embedding{Vocab: lm.Vocab, Width: 16}.Apply(s.In("embed", ""), tokens)
			y, _ := nn.MoE{Experts: 4, Width: 16, Route: primitives.RouteOp{TopK: 2}}.Apply(s.In("moe", ""), x)
			return nn.Linear{Out: lm.Vocab}.Apply(s.In("head", ""), primitives.Add(x, y))
		},
		TopK: 2, Rows: 4, Length: 16, Balance: 0.01,
		Train: train.Config{Optimizer: train.AdamW(train.AdamWOptions{})},
	}
	var cfg gomoe.Config // one rank
	p, err := step.Trace(cfg.Mesh)
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg.Place = lm.Places(cfg.Mesh, lm.Inputs()...)
	corpus, err := lm.NewBytes(&text.Corpus{Train: []byte(strings.Repeat("go, go, go! ", 50))}, step.Rows, step.Length, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	ended, err := (&lm.Training{
		Step: step, Program: p, Config: cfg, Seed: 1, Unit: "byte",
		Loop: train.Loop{Steps: 50, Rate: train.Constant(0.01), Batch: corpus.Parts},
	}).Run(context.Background(), context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	loss, _ := ended.History.Loss()
	fmt.Println("steps:", ended.Steps, " below the entropy of single bytes:", ended.Last.Loss < corpus.Entropy && loss > 0)
	// Output: steps: 50  below the entropy of single bytes: true
}
