package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/data/text"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/report"
	"github.com/gomoe/gomoe/train/snapshot"
	"github.com/gomoe/gomoe/world"
)

// learn runs the training that the command line asks for. However it ends, the
// metrics and the plot contain all completed steps.
func learn(ctx, stop context.Context, c config, o options, corpus *text.Corpus, stdout io.Writer) (err error) {
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
	loop := &train.Loop{
		Steps: o.steps, Rate: train.Cosine(o.lr, o.warmup, o.steps, 0.1), Tokens: c.Batch * c.Seq, Every: o.every,
		Saves:    o.saves(),
		Figures:  train.Figures{Folder: o.out, Title: "moe_lm, mesh " + describe(o.mesh), Entropy: unigram},
		Remedies: train.Remedies{Lower: "-lr", Find: "add -finite"},
		// Report the error at once: whoever ends this process because another rank
		// has failed may not wait for the figure.
		Failed: func(err error) { fmt.Fprintln(os.Stderr, "moe_lm:", err) },
	}
	if o.metrics != "" && o.info.First() {
		if loop.Figures.Listen, err = net.Listen("tcp", o.metrics); err != nil {
			return fmt.Errorf("-metrics: %w", err)
		}
		defer loop.Figures.Listen.Close()
		fmt.Fprintf(stdout, "metrics: http://%s/metrics\n", loop.Figures.Listen.Addr())
	}
	if err := loop.Saves.Earlier(); err != nil {
		return err
	}
	tr, err := newTrainer(c, o.mesh, opts, false)
	if err != nil {
		return err
	}
	defer func() { err = also(err, tr.Close()) }()
	var held []*train.Evaluation
	if o.every > 0 {
		held = append(held, tr.eval)
	}
	fmt.Fprintf(stdout, "memory: %s\n", tr.Memory(o.save > 0, held...))
	loop.Batch = func(step int) (map[string]array.Array, error) {
		bytes, targets, err := corpus.Batch(step, c.Batch, c.Seq)
		if err != nil {
			return nil, fmt.Errorf("-seq %d: %w", c.Seq, err)
		}
		return c.batch(bytes, targets)
	}
	if o.every > 0 {
		bytes, targets, err := corpus.HeldBatch(c.Batch, c.Seq)
		if err != nil {
			return fmt.Errorf("-seq %d, -eval %d: %w", c.Seq, o.every, err)
		}
		loop.HeldOut = func(ctx context.Context) (float64, error) { return tr.heldOut(ctx, bytes, targets) }
	}
	begun, err := loop.Begin(ctx, tr.Run, o.seed)
	if err != nil {
		return err
	}
	switch {
	case begun.Path != "":
		fmt.Fprintf(stdout, "resumed after step %d, from %s", begun.Steps, begun.Path)
		if begun.Changed != nil {
			fmt.Fprintf(stdout, ", with %s", strings.Join(begun.Changed, ", "))
		}
		fmt.Fprintln(stdout)
	case o.resume:
		fmt.Fprintf(stdout, "no checkpoint in %s, so the run begins with step 1\n", loop.Saves.Folder.Path)
	}
	progress := report.NewProgress(stdout, report.ProgressOptions{})
	loop.Figures.Progress = progress.Step
	done, err := loop.Run(ctx, stop, tr.Run)
	err = also(err, progress.Close())
	if err != nil {
		return &reported{err}
	}
	if done.Stopped {
		fmt.Fprintf(stdout, "interrupted after %d of %d steps\n", done.Steps, o.steps)
	}
	if done.Steps == 0 {
		return nil
	}
	if err := summarize(stdout, c, done, unigram); err != nil {
		return err
	}
	weights, err := tr.Weights(ctx)
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

// saves says where checkpoints are, and which settings a run that goes on must have.
func (o options) saves() train.Saves {
	return train.Saves{
		Folder: snapshot.Folder{Path: filepath.Join(o.out, "checkpoints"), Keep: o.keep}, Every: o.save, Resume: o.resume,
		Facts: o.same, Model: strings.Fields("-width -layers -heads -ffn -experts -top-k"),
		Free: strings.Fields("-check -compare -deadline -eval -finite -keep -overlap -prompt -remat -resume -sample -save-every -temperature"),
	}
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
