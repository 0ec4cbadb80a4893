package pretrain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/tokenizer"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/lm"
	"github.com/gomoe/gomoe/train/report"
	"github.com/gomoe/gomoe/train/snapshot"
	"github.com/gomoe/gomoe/world"
)

// Options configures the outputs and the ranks of a run.
type Options struct {
	Out    string // folder for the model, metrics.csv, training.png and checkpoints
	Resume bool   // continue from the newest checkpoint in Out, if there is one
	// Overwrite permits overwriting a model in Out left by an earlier run without checkpoints, and removing routes of
	// another run from Record.
	Overwrite bool
	World     *world.World
	Deadline  time.Duration
	// Record is a folder for recording the experts of every step's tokens. Replay is a recorded folder: tokens go to
	// the experts recorded there, regardless of the router's choice. "" means none.
	Record, Replay string
	// Metrics is an address, such as :9100, for serving the steps to Prometheus from the first process; "" serves
	// none.
	Metrics string
	// Draw draws training.png in Out, such as picture.Draw; nil draws none.
	Draw   func(io.Writer, report.Figure) error
	Finite bool      // stop at the first kernel producing a NaN or an infinity, and name it
	Stdout io.Writer // in the first process; nil discards the output
}

// Run trains according to the settings and writes the model. When stop ends, it completes the current step and
// returns an *lm.InterruptedError. When ctx ends, it returns at once. In a job of several processes, all must call
// Run with the same settings.
func Run(ctx, stop context.Context, s *Settings, o Options) (err error) {
	job, err := o.World.Info()
	if err != nil {
		return err
	}
	if o.Stdout == nil || !job.First() {
		o.Stdout = io.Discard
	}
	tok, file, err := s.tokenizer()
	if err != nil {
		return err
	}
	settings := *s
	s = &settings
	saves := snapshot.Folder{Path: lm.Checkpoints(o.Out), Keep: s.Keep, World: o.World}
	var from *snapshot.Snapshot // only its settings are read here
	if o.Resume {
		if from, err = saves.Latest(ctx); err == nil && from != nil {
			err = from.Close()
		}
		if err != nil {
			return fmt.Errorf("pretrain: %w", err)
		}
	}
	s.warm(from)
	free := append(free(), s.context(from)...)
	m, err := s.open(tok)
	if err != nil {
		return err
	}
	made := []string{report.MetricsName, train.PictureName, safetensors.FileName, checkpoint.ConfigName}
	if file != nil {
		made = append(made, tokenizer.FileName)
	}
	if err := whole.ApartIn(o.Out, made, append(s.Data.Files, s.Path)...); err != nil {
		return fmt.Errorf("pretrain: %s: %w", s.Path, err)
	}
	if o.Replay != "" {
		if o.Record != "" && whole.Same(o.Record, o.Replay) {
			return fmt.Errorf("pretrain: %s: routes are replayed from %s and recorded into it, want another folder", s.Path, o.Record)
		}
		if err := (train.Routes{Path: o.Replay}).Has(s.Steps); err != nil {
			return fmt.Errorf("pretrain: %s: %w", s.Path, err)
		}
	}
	if (o.Record != "" || o.Replay != "") && m.Experts == 0 {
		return fmt.Errorf("pretrain: %s: the model has no layer of experts, whose choices could be recorded or replayed", s.Path)
	}
	if m.Experts == 0 && (s.Balance != usualBalance && s.Balance != 0 || s.ZLoss != usualZLoss && s.ZLoss != 0) {
		return fmt.Errorf("pretrain: %s: balance and z_loss are for layers of experts, and the model has none; leave them out", s.Path)
	}
	step := s.step(m, o)
	p, err := step.Trace(s.Mesh)
	if err != nil {
		return fmt.Errorf("pretrain: %s: %w", s.Path, err)
	}
	routes := train.Routes{Path: o.Replay, Experts: m.Experts, Of: p}
	if o.Replay != "" {
		if _, err := routes.Load(1); err != nil { // before compiling
			return fmt.Errorf("pretrain: %s: %w", s.Path, err)
		}
	}
	if o.Metrics == "" {
		o.Metrics = s.Metrics
	}
	t := lm.Training{
		Step: step, Program: p, Config: s.placed(p), Lighter: s.lighter(m, o), Out: o.Out, Seed: s.Seed, Metrics: o.Metrics, Stdout: o.Stdout,
		Loop: train.Loop{
			Remedies: train.Remedies{Lower: "rate.peak of " + s.Path, Find: "add -finite"},
			Steps:    s.Steps, Rate: s.schedule(), Every: s.EvalEvery,
			Saves: train.Saves{
				Folder: saves,
				Every:  s.SaveEvery, Resume: o.Resume, Overwrite: o.Overwrite, Facts: s.facts(), Model: shared(), Free: free,
			},
			Figures: train.Figures{Draw: o.Draw, Title: "gomoe train, mesh " + lm.Describe(s.Mesh)},
		},
	}
	t.Config.World, t.Config.Deadline, t.Config.Finite = o.World, o.Deadline, o.Finite
	loop := &t.Loop
	lm.Results(&loop.Saves, o.Out, safetensors.FileName)
	for _, folder := range []string{o.Out, o.Record} {
		if folder == "" || folder == o.Record && whole.Same(folder, o.Out) {
			continue
		}
		release, taken := lm.Own(ctx, o.World, folder)
		if taken != nil {
			return fmt.Errorf("pretrain: %w", taken)
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	if err := loop.Saves.Earlier(); err != nil {
		return fmt.Errorf("pretrain: %w", err)
	}
	src, err := s.source(stop, o.Out, tok, file)
	if err != nil {
		o.World.Interrupted(stop)
		return err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	loop.Batch, loop.Saves.Facts["text"] = src.step, src.hash
	if loop.Saves.As, err = s.saved(p.Params, src); err != nil {
		return fmt.Errorf("pretrain: %w", err)
	}
	loop.Figures.Entropy, t.Unit, t.HeldOut = src.entropy, src.unit, src.held
	if o.Replay != "" {
		loop.Saves.Facts["-replay"] = o.Replay
	}
	if o.Record != "" {
		if err := (train.Routes{Path: o.Record}).Begin(&loop.Saves, from, job.First()); err != nil {
			return fmt.Errorf("pretrain: %w", err)
		}
	}
	if err := o.World.Same(ctx, loop.Saves.Facts); err != nil {
		return err
	}
	all, active := nn.Count(p.Params, m.TopK)
	fmt.Fprintf(o.Stdout, "text: %s\n", src.about)
	fmt.Fprintf(o.Stdout, "model: %s, %d layers, %d experts of which %d per token, %d weights of which %d per token, %s\n", s.Model["model_type"], m.Layers, m.Experts, m.TopK, all, active, s.DType)
	fmt.Fprintf(o.Stdout, "mesh: %s, %d tokens per step\n", lm.Describe(s.Mesh), s.Batch*s.Length)
	if o.Replay != "" {
		other, err := routes.Other(&loop.Saves)
		if err != nil {
			return fmt.Errorf("pretrain: %s: %w", s.Path, err)
		}
		if len(other) > 0 {
			fmt.Fprintf(o.Stdout, "routes: those of %s are of another run, with %s\n", o.Replay, strings.Join(other, ", "))
		}
		loop.Batch = func(step int) (train.Parts, error) {
			all, err := src.step(step)
			if err != nil {
				return nil, err
			}
			choices, err := routes.Load(step)
			maps.Copy(all, train.Whole(choices))
			return all, err
		}
	}
	t.Begun = func(_ context.Context, b *lm.Begun) error {
		if o.Record != "" {
			loop.After = func(ctx context.Context, d *train.Done) error {
				return train.Routes{Path: o.Record}.Save(ctx, d.Index, b.Run, d.Results)
			}
		}
		return nil
	}
	t.Done = func(ctx context.Context, d *lm.Done) error {
		weights, err := d.Weights(ctx)
		if err != nil || !job.First() {
			return err
		}
		names, err := s.save(o.Out, p.Params, weights, src)
		if err != nil {
			return err
		}
		fmt.Fprintf(o.Stdout, "written: %s in %s\n", strings.Join(names, ", "), o.Out)
		return nil
	}
	if _, err = t.Run(ctx, stop); err != nil {
		err = fmt.Errorf("pretrain: %s: %w", s.Path, err)
	}
	return err
}
