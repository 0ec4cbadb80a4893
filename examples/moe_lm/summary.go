package main

import (
	"fmt"
	"io"
	"time"

	"github.com/gomoe/gomoe/internal/report"
	"github.com/gomoe/gomoe/sharding"
)

// describe returns, for example, "dp=2,ep=2, 4 ranks".
func describe(m sharding.Mesh) string {
	if m.Ranks() == 1 {
		return "1 rank"
	}
	return fmt.Sprintf("%s, %d ranks", m, m.Ranks())
}

// summarize prints the results of the training.
func summarize(w io.Writer, c config, steps []report.Step, last *outcome, unigram float64) error {
	fmt.Fprintf(w, "choices of each expert in step %d, before drops:\n", len(steps))
	if err := report.Experts(w, last.demand); err != nil {
		return err
	}
	drops, tokens := 0, 0
	var took time.Duration
	for _, s := range steps {
		drops += s.Drops
		tokens += s.Tokens
		took += s.Elapsed
	}
	if drops > 0 {
		choices := tokens * c.TopK * c.Layers
		fmt.Fprintf(w, "dropped %d of %d choices (%.1f%%), for -capacity %g\n", drops, choices, 100*float64(drops)/float64(choices), c.Capacity)
	}
	fmt.Fprintf(w, "%d steps, %d tokens in %s\n", len(steps), tokens, took.Round(100*time.Millisecond))
	loss := 0.0
	tail := steps[max(0, len(steps)-20):]
	for _, s := range tail {
		loss += s.Loss / float64(len(tail))
	}
	verdict := "below"
	if loss >= unigram {
		verdict = "not yet below"
	}
	fmt.Fprintf(w, "loss %.4f nats per byte over the last %d steps, %s the unigram entropy of %.4f\n", loss, len(tail), verdict, unigram)
	for _, s := range steps[len(steps)-1:] {
		if s.HeldOut != 0 {
			fmt.Fprintf(w, "loss %.4f on held-out text\n", s.HeldOut)
		}
	}
	return nil
}
