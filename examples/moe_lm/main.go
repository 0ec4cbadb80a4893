package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/gomoe/gomoe/internal/report"
	"github.com/gomoe/gomoe/internal/text"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

func main() {
	// The first Ctrl-C ends the run after the step in progress, with everything
	// that it has so far; a second one ends it at once.
	stop, restore := signal.NotifyContext(context.Background(), os.Interrupt)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-stop.Done()
		restore()
		again, _ := signal.NotifyContext(context.Background(), os.Interrupt)
		<-again.Done()
		cancel()
	}()
	err := run(ctx, stop, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "moe_lm:", err)
		os.Exit(1)
	}
}

// options are the flags beside the model's sizes.
type options struct {
	mesh, data, out, trace, prompt string
	steps, warmup, every, sample   int
	lr, temperature                float64
	seed                           uint64
	limit                          int64
	check, finite                  bool
}

func parse(args []string, stderr io.Writer) (config, options, error) {
	c := config{Vocab: 256}
	var o options
	f := flag.NewFlagSet("moe_lm", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.mesh, "mesh", "dp=2,ep=2", "ranks as axes: dp splits the batch, ep the batch and the experts, tp heads and expert columns")
	f.StringVar(&o.data, "data", "", "files and folders to train on, with commas between; empty is the Go standard library's source")
	f.StringVar(&o.out, "out", "out/moe_lm", "folder for metrics.csv, training.png and sample.txt")
	f.StringVar(&o.trace, "trace", "", "write a trace of every step to this file, for Perfetto")
	f.StringVar(&o.prompt, "prompt", "// Package ", "what the sample at the end continues")
	f.IntVar(&o.steps, "steps", 300, "training steps")
	f.IntVar(&o.warmup, "warmup", 30, "steps over which the learning rate rises")
	f.IntVar(&o.every, "eval", 50, "steps between losses on held-out text; 0 for none")
	f.IntVar(&o.sample, "sample", 300, "bytes to write at the end")
	f.Float64Var(&o.lr, "lr", 3e-3, "peak learning rate")
	f.Float64Var(&o.temperature, "temperature", 0.7, "of the sample")
	f.Uint64Var(&o.seed, "seed", 1, "of the weights, the batches and the sample")
	f.Int64Var(&o.limit, "limit", 0, "bytes of text to read at most; 0 is 16 MiB")
	f.BoolVar(&o.check, "check", false, "run one step on one rank and on the mesh, compare, and exit")
	f.BoolVar(&o.finite, "finite", false, "stop at the first kernel that makes a NaN or an infinity, and name it")
	f.IntVar(&c.Width, "width", 128, "model width")
	f.IntVar(&c.Layers, "layers", 4, "layers")
	f.IntVar(&c.Heads, "heads", 4, "attention heads")
	f.IntVar(&c.FFN, "ffn", 256, "width of an expert")
	f.IntVar(&c.Experts, "experts", 8, "experts per layer")
	f.IntVar(&c.TopK, "top-k", 2, "experts per token")
	f.IntVar(&c.Seq, "seq", 128, "bytes per sequence")
	f.IntVar(&c.Batch, "batch", 16, "sequences per step, over all ranks")
	f.Float64Var(&c.Capacity, "capacity", 0, "capacity of an expert as a factor of an even share; 0 drops nothing")
	f.Float64Var(&c.Balance, "balance", 0.01, "coefficient of the load-balancing loss")
	f.Float64Var(&c.ZLoss, "z-loss", 0.001, "coefficient of the router's z-loss")
	f.Float64Var(&c.Clip, "clip", 1, "largest global norm of the gradient")
	f.Float64Var(&c.Decay, "decay", 0.1, "weight decay of matrices")
	if err := f.Parse(args); err != nil {
		return c, o, err
	}
	if f.NArg() > 0 {
		return c, o, fmt.Errorf("argument %q: all settings are flags; see -help", f.Arg(0))
	}
	if o.steps < 1 || o.warmup < 0 || o.every < 0 || o.sample < 0 || !(o.temperature > 0) || !(o.lr > 0) {
		return c, o, fmt.Errorf("-steps %d -warmup %d -eval %d -sample %d -temperature %g -lr %g: want at least one step, and no negative number", o.steps, o.warmup, o.every, o.sample, o.temperature, o.lr)
	}
	return c, o, c.validate()
}

// run does what the command line says. It ends early, but in order, when stop
// ends, and at once when ctx does.
func run(ctx, stop context.Context, args []string, stdout, stderr io.Writer) error {
	c, o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	m, err := sharding.ParseMesh(o.mesh)
	if err != nil {
		return err
	}
	corpus, err := text.Load(ctx, text.Options{Data: o.data, Limit: o.limit, Seed: o.seed})
	if err != nil {
		return err
	}
	if o.check {
		return check(ctx, stdout, c, m, o.seed, o.lr, corpus)
	}
	unigram, bits := corpus.UnigramEntropy()
	all, active := c.count()
	fmt.Fprintf(stdout, "text: %s\n", corpus)
	fmt.Fprintf(stdout, "byte-unigram entropy: %.4f nats (%.3f bits) per byte\n", unigram, bits)
	fmt.Fprintf(stdout, "model: %d layers, %d experts of which %d per token, %d weights of which %d per token\n", c.Layers, c.Experts, c.TopK, all, active)
	fmt.Fprintf(stdout, "mesh: %s, %d ranks in this process, %d tokens per step\n", m, m.Ranks(), c.Batch*c.Seq)
	return train(ctx, stop, c, o, m, corpus, unigram, stdout)
}

func train(ctx, stop context.Context, c config, o options, m sharding.Mesh, corpus *text.Corpus, unigram float64, stdout io.Writer) (err error) {
	opts := runtime.Options{Finite: o.finite}
	if o.trace != "" {
		f, err := os.Create(o.trace)
		if err != nil {
			return err
		}
		opts.Trace = runtime.NewTrace(f)
		defer func() { err = errors.Join(err, opts.Trace.Close(), f.Close()) }()
	}
	tr, err := newTrainer(c, m, o.seed, opts, false)
	if err != nil {
		return err
	}
	defer tr.Close()
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	metrics, err := report.CreateMetrics(filepath.Join(o.out, "metrics.csv"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, metrics.Close()) }()

	heldBytes, heldTargets, err := corpus.HeldBatch(c.Batch, c.Seq)
	if err != nil {
		return err
	}
	progress := report.NewProgress(stdout, report.ProgressOptions{})
	var steps []report.Step
	var last *outcome
	for n := 1; n <= o.steps && stop.Err() == nil; n++ {
		began := time.Now()
		bytes, targets, err := corpus.Batch(n, c.Batch, c.Seq)
		if err != nil {
			return err
		}
		lr := rate(n, o.steps, o.warmup, o.lr)
		res, err := tr.train(ctx, n, lr, bytes, targets)
		if err != nil {
			return err
		}
		s := res.report(n, o.steps, c.Batch*c.Seq, lr, time.Since(began))
		if o.every > 0 && (n%o.every == 0 || n == o.steps) {
			if s.HeldOut, err = tr.heldOut(ctx, heldBytes, heldTargets); err != nil {
				return err
			}
		}
		steps, last = append(steps, s), res
		if err := errors.Join(progress.Step(s), metrics.Step(s), res.finite(n)); err != nil {
			return err
		}
	}
	if err := progress.Close(); err != nil {
		return err
	}
	return finish(ctx, stop, c, o, m, tr, steps, last, unigram, stdout)
}

// finish writes the plot and prints what the run came to, and a sample.
func finish(ctx, stop context.Context, c config, o options, m sharding.Mesh, tr *trainer, steps []report.Step, last *outcome, unigram float64, stdout io.Writer) error {
	if stop.Err() != nil {
		fmt.Fprintf(stdout, "interrupted after %d of %d steps\n", len(steps), o.steps)
	}
	figure := report.Figure{Title: fmt.Sprintf("moe_lm, mesh %s", m), Steps: steps, Unigram: unigram}
	if err := figure.SavePNG(filepath.Join(o.out, "training.png")); err != nil {
		return err
	}
	if last == nil {
		return nil
	}
	if err := report.Experts(stdout, last.demand); err != nil {
		return err
	}
	loss := 0.0
	tail := steps[max(0, len(steps)-20):]
	for _, s := range tail {
		loss += s.Loss / float64(len(tail))
	}
	fmt.Fprintf(stdout, "loss %.4f nats per byte over the last %d steps, unigram entropy %.4f\n", loss, len(tail), unigram)
	weights, err := tr.weights()
	if err != nil {
		return err
	}
	w, err := newWriter(c, weights)
	if err != nil {
		return err
	}
	defer w.Close()
	sample, err := w.write(ctx, o.prompt, o.sample, o.temperature, o.seed)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "sample:\n%s%s\n", o.prompt, strings.ToValidUTF8(sample, "?"))
	fmt.Fprintf(stdout, "written: %s with metrics.csv, training.png and sample.txt\n", o.out)
	return os.WriteFile(filepath.Join(o.out, "sample.txt"), []byte(o.prompt+sample), 0o644)
}
