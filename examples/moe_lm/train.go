package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gomoe/gomoe/internal/text"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/train/report"
	"github.com/gomoe/gomoe/world"
)

// train runs the training that the command line asks for. However it ends, the
// metrics and the plot contain all completed steps.
func train(ctx, stop context.Context, c config, o options, corpus *text.Corpus, stdout io.Writer) (err error) {
	unigram, bits := corpus.UnigramEntropy()
	all, active := c.count()
	fmt.Fprintf(stdout, "text: %s\n", corpus)
	fmt.Fprintf(stdout, "byte-unigram entropy: %.4f nats (%.3f bits) per byte\n", unigram, bits)
	fmt.Fprintf(stdout, "model: %d layers, %d experts of which %d per token, %d weights of which %d per token\n", c.Layers, c.Experts, c.TopK, all, active)
	fmt.Fprintf(stdout, "mesh: %s %s, %d tokens per step, computing in %s\n", describe(o.mesh), where(o.info), c.Batch*c.Seq, c.DType.DType)

	if o.info.First() {
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			return fmt.Errorf("-out: %w", err)
		}
		for _, name := range modelFiles() { // find out before the training
			f, err := whole.Create(filepath.Join(o.out, name))
			if err != nil {
				return fmt.Errorf("-out: %w", err)
			}
			f.Discard()
		}
	}
	opts := o.session()
	if o.trace != "" {
		if opts.Trace, err = runtime.CreateTrace(tracePath(o)); err != nil {
			return fmt.Errorf("-trace: %w", err)
		}
		defer func() { err = also(err, opts.Trace.Close()) }()
	}
	saves, err := openSaves(ctx, c, o, stdout)
	if err != nil {
		return err
	}
	defer func() { err = also(err, saves.Close()) }()
	tr, err := newTrainer(c, o.mesh, o.seed, opts, false, saves.from)
	if err != nil {
		return err
	}
	defer func() { err = also(err, tr.Close()) }()

	history, last, interrupted, err := loop(ctx, stop, c, o, tr, saves, corpus, stdout)
	if err != nil {
		// Report the error at once: whoever ends this process because another rank
		// has failed may not wait for the figure.
		fmt.Fprintln(os.Stderr, "moe_lm:", err)
		err = &reported{err}
	}
	if history.Count > 0 && o.info.First() {
		figure := report.Figure{Title: "moe_lm, mesh " + describe(o.mesh), Steps: history.Points(), Unigram: unigram}
		err = also(err, figure.SavePNG(filepath.Join(o.out, "training.png")))
	}
	if err != nil {
		return err
	}
	if interrupted {
		fmt.Fprintf(stdout, "interrupted after %d of %d steps\n", max(saves.done, history.Last.Index), o.steps)
	}
	if history.Count == 0 && saves.done == 0 {
		return nil
	}
	if err := summarize(stdout, c, history, last, unigram); err != nil {
		return err
	}
	weights, err := tr.weights(ctx)
	if err != nil {
		return err
	}
	written := append([]string{"metrics.csv", "training.png"}, modelFiles()...)
	if o.info.First() {
		if err := c.save(o.out, weights); err != nil {
			return err
		}
	}
	if o.sample > 0 && o.info.First() {
		if err := sample(ctx, stop, c, o, weights, stdout); err != nil {
			return err
		}
		written = append(written, "sample.txt")
	}
	fmt.Fprintf(stdout, "written: %s in %s\n", strings.Join(written, ", "), o.out)
	return nil
}

// also returns err joined with more errors, or err itself if there are no more.
func also(err error, more ...error) error {
	if m := errors.Join(more...); m != nil {
		return errors.Join(err, m)
	}
	return err
}

// reported is an error that was already written to standard error.
type reported struct{ error }

func (r *reported) Unwrap() error { return r.error }

// loop trains step by step and reports each step. It returns what the completed steps have reported,
// also together with an error, the outcome of the last step, and whether stop has
// ended the training. All processes do the same steps: when stop has ended in one
// process, all processes end.
func loop(ctx, stop context.Context, c config, o options, tr *trainer, saves *saves, corpus *text.Corpus, stdout io.Writer) (history *report.History, last *outcome, interrupted bool, err error) {
	history = &report.History{}
	var heldBytes, heldTargets []int32
	if o.every > 0 {
		if heldBytes, heldTargets, err = corpus.HeldBatch(c.Batch, c.Seq); err != nil {
			return history, nil, false, fmt.Errorf("-seq %d, -eval %d: %w", c.Seq, o.every, err)
		}
	}
	metrics, err := saves.metrics(history)
	if err != nil {
		return history, nil, false, err
	}
	progress := report.NewProgress(stdout, report.ProgressOptions{})
	defer func() {
		if closed := errors.Join(progress.Close(), metrics.Close()); err == nil { // else it may be the same error
			err = closed
		}
	}()

	for n := saves.done + 1; n <= o.steps; n++ {
		if interrupted, err = c.any(ctx, stop.Err() != nil); err != nil || interrupted {
			return history, last, interrupted, also(err, saves.save(ctx, n-1, tr, metrics))
		}
		began := time.Now()
		bytes, targets, err := corpus.Batch(n, c.Batch, c.Seq)
		if err != nil {
			return history, last, false, fmt.Errorf("-seq %d: %w", c.Seq, err)
		}
		lr := rate(n, o.steps, o.warmup, o.lr)
		res, err := tr.train(ctx, n, lr, bytes, targets)
		if err != nil {
			return history, last, false, explain(n, err)
		}
		s := res.report(n, o.steps, c.Batch*c.Seq, lr, time.Since(began))
		if o.every > 0 && (n%o.every == 0 || n == o.steps) && res.finite() {
			if s.HeldOut, err = tr.heldOut(ctx, heldBytes, heldTargets); err != nil {
				return history, last, false, explain(n, err)
			}
		}
		history.Add(s)
		last = res
		if err := errors.Join(progress.Step(s), metrics.Step(s)); err != nil {
			return history, last, false, err
		}
		if !res.finite() {
			return history, last, false, fmt.Errorf("step %d: loss %v, gradient norm %v: %s", n, res.loss, res.norm, diverged)
		}
		if o.save > 0 && (n%o.save == 0 || n == o.steps) {
			if err := saves.save(ctx, n, tr, metrics); err != nil {
				return history, last, false, err
			}
		}
	}
	return history, last, false, nil
}

// any reports whether any process passes yes.
func (c config) any(ctx context.Context, yes bool) (bool, error) {
	if c.world == nil {
		return yes, nil
	}
	return c.world.Any(ctx, yes)
}

// where says where the mesh's ranks are.
func where(i world.Info) string {
	if i.Mode == world.PerProcess {
		return fmt.Sprintf("in %d processes over %s", i.Size, i.Transport)
	}
	return "in this process"
}

// tracePath returns the file of this process's trace. Each process has its own file,
// with its rank before the extension.
func tracePath(o options) string {
	if o.info.Mode != world.PerProcess {
		return o.trace
	}
	ext := filepath.Ext(o.trace)
	return fmt.Sprintf("%s.%d%s", strings.TrimSuffix(o.trace, ext), o.info.Rank, ext)
}

const diverged = "training has diverged; lower -lr, or add -finite to see which kernel made the first NaN or infinity"

// explain says at which step training failed. If numbers that are not finite are the
// reason, it also says what to do. Weights may become infinite or NaN after a loss
// that is not finite; a router is then the first to notice.
func explain(n int, err error) error {
	var failed *runtime.Error
	var number *runtime.NotFinite
	switch {
	case errors.As(err, &number):
		return fmt.Errorf("step %d: training has diverged; lower -lr: %w", n, err)
	case errors.As(err, &failed) && failed.Name == "router":
		return fmt.Errorf("step %d: %s: %w", n, diverged, err)
	}
	return fmt.Errorf("step %d: %w", n, err)
}
