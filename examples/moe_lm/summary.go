package main

import (
	"fmt"
	"io"
	"time"

	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/report"
)

// describe returns, for example, "dp=2,ep=2, 4 ranks".
func describe(m sharding.Mesh) string {
	if m.Ranks() == 1 {
		return "1 rank"
	}
	return fmt.Sprintf("%s, %d ranks", m, m.Ranks())
}

// summarize prints the results of the training.
func summarize(w io.Writer, c config, done *train.Ended, unigram float64) error {
	h := &done.History
	if last := done.Last; last != nil { // else an earlier run has done all steps
		fmt.Fprintf(w, "choices of each expert in step %d, before drops:\n", h.Last.Index)
		if err := report.Experts(w, last.Demand); err != nil {
			return err
		}
	}
	if h.Drops > 0 {
		choices := h.Tokens * c.TopK * c.Layers
		fmt.Fprintf(w, "dropped %d of %d choices (%.1f%%), for -capacity %g\n", h.Drops, choices, 100*float64(h.Drops)/float64(choices), c.Capacity)
	}
	if h.Count == 0 {
		return nil // an earlier run has taken all steps, and its metrics are gone
	}
	fmt.Fprintf(w, "%d steps, %d tokens in %s\n", h.Count, h.Tokens, h.Elapsed.Round(100*time.Millisecond))
	loss, of := h.Loss()
	verdict := "below"
	if loss >= unigram {
		verdict = "not yet below"
	}
	fmt.Fprintf(w, "loss %.4f nats per byte over the last %d steps, %s the unigram entropy of %.4f\n", loss, of, verdict, unigram)
	if h.Last.HeldOut != 0 {
		fmt.Fprintf(w, "loss %.4f on held-out text\n", h.Last.HeldOut)
	}
	return nil
}
