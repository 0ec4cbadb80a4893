package pretrain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/report"
	"github.com/gomoe/gomoe/train/snapshot"
	"github.com/gomoe/gomoe/world"
)

// Options say where a run leaves what it makes, and on which ranks it is.
type Options struct {
	Out      string // the folder of the model, of metrics.csv and training.png, and of checkpoints
	Resume   bool   // go on from the newest checkpoint in Out, if there is one
	World    *world.World
	Deadline time.Duration
	// Record is a folder into which the experts of every step's tokens are written, Replay one of which they are read:
	// tokens then go to these experts, whatever the router would choose. "" is none.
	Record, Replay string
	// Metrics is an address, such as :9100, where the first process serves the steps to Prometheus; "" is none.
	Metrics string
	Finite  bool      // stop at the first kernel that makes a NaN or an infinity, and name it
	Stdout  io.Writer // of the first process; nil is nowhere
}

// Run trains as the settings say, and writes the model. The step that has begun when stop ends is the last one; the run
// ends at once when ctx ends. In a job of several processes all of them call Run with the same settings.
func Run(ctx, stop context.Context, s *Settings, o Options) (err error) {
	first := true
	if o.World != nil {
		info, err := o.World.Info()
		if err != nil {
			return err
		}
		first = info.First()
	}
	if o.Stdout == nil || !first {
		o.Stdout = io.Discard
	}
	tok, file, err := s.tokenizer()
	if err != nil {
		return err
	}
	settings := *s
	s = &settings
	m, err := s.open(tok)
	if err != nil {
		return err
	}
	if (o.Record != "" || o.Replay != "") && m.Experts == 0 {
		return fmt.Errorf("pretrain: %s: the model has no experts, whose choices could be recorded or replayed", s.Path)
	}
	p, err := s.trace(m, o)
	if err != nil {
		return fmt.Errorf("pretrain: %s: %w", s.Path, err)
	}
	loop := &train.Loop{
		Remedies: train.Remedies{Lower: "rate.peak of " + s.Path, Find: "add -finite"},
		Steps:    s.Steps, Rate: s.schedule(), Tokens: s.Batch * s.Length, Every: s.EvalEvery,
		Saves: train.Saves{
			Folder: snapshot.Folder{Path: filepath.Join(o.Out, "checkpoints"), Keep: s.Keep, World: o.World},
			Every:  s.SaveEvery, Resume: o.Resume, Facts: s.facts(), Model: []string{"model", "dtype"}, Free: free(),
		},
	}
	if err := errors.Join(loop.Saves.Earlier(), whole.Folder(o.Out)); err != nil {
		return fmt.Errorf("pretrain: %w", err)
	}
	src, err := s.source(ctx, o.Out, tok, file)
	if err != nil {
		return err
	}
	defer func() { err = also(err, src.close()) }()
	loop.Batch, loop.Saves.Facts["text"] = src.step, src.hash
	if o.Replay != "" {
		loop.Saves.Facts["-replay"] = o.Replay
	}
	if o.World != nil {
		if err := o.World.Same(ctx, loop.Saves.Facts); err != nil {
			return err
		}
	}
	all, active := nn.Count(p.Params, m.TopK)
	fmt.Fprintf(o.Stdout, "text: %s\n", src.about)
	fmt.Fprintf(o.Stdout, "model: %s, %d layers, %d experts of which %d per token, %d weights of which %d per token, %s\n", s.Model["model_type"], m.Layers, m.Experts, m.TopK, all, active, s.DType)
	fmt.Fprintf(o.Stdout, "mesh: %s, %d tokens per step\n", describe(s), loop.Tokens)

	if o.Metrics == "" {
		o.Metrics = s.Metrics
	}
	if o.Metrics != "" && first {
		if loop.Figures.Listen, err = net.Listen("tcp", o.Metrics); err != nil {
			return fmt.Errorf("pretrain: metrics: %w", err)
		}
		defer loop.Figures.Listen.Close()
		fmt.Fprintf(o.Stdout, "metrics: http://%s/metrics\n", loop.Figures.Listen.Addr())
	}
	cfg := s.placed(p)
	cfg.World, cfg.Deadline, cfg.Options.Finite = o.World, o.Deadline, o.Finite
	run, err := train.Open(p, cfg)
	if err != nil {
		return fmt.Errorf("pretrain: %s: %w", s.Path, train.Lightest(err, p, cfg, s.lighter(m, o)))
	}
	defer func() { err = also(err, run.Close()) }()
	var evaluations []*train.Evaluation
	if src.held != nil {
		held, wrong := run.Evaluation("evaluate", gomoe.Config{Place: s.places(), Exact: cfg.Exact, Sums: cfg.Sums}, func(scope *nn.Scope) []*graph.Value {
			loss, of, _ := s.forward(scope, m, nil)
			return []*graph.Value{loss.Named("loss"), of.Named(train.WeightResult)}
		})
		if wrong != nil {
			return fmt.Errorf("pretrain: %s: %w", s.Path, wrong)
		}
		defer func() { err = also(err, held.Close()) }()
		loop.HeldOut = func(ctx context.Context) (float64, error) { return held.Scalar(ctx, "loss", src.held) }
		evaluations = append(evaluations, held)
	}
	fmt.Fprintf(o.Stdout, "memory: %s\n", run.Memory(s.SaveEvery > 0, evaluations...))
	if o.Replay != "" {
		loop.Batch = func(step int) (map[string]array.Array, error) {
			all, err := src.step(step)
			if err != nil {
				return nil, err
			}
			choices, err := train.Routes{Path: o.Replay, Experts: m.Experts}.Load(step)
			if err == nil {
				maps.Copy(choices, all)
			}
			return choices, err
		}
	}
	if o.Record != "" {
		loop.After = func(ctx context.Context, d *train.Done) error {
			return train.Routes{Path: o.Record}.Save(ctx, d.Index, run, d.Results)
		}
	}
	begun, err := loop.Begin(ctx, run, s.Seed)
	if err != nil {
		return fmt.Errorf("pretrain: %w", err)
	}
	if begun.Path != "" {
		with := ""
		if len(begun.Changed) > 0 {
			with = ", with " + strings.Join(begun.Changed, ", ")
		}
		fmt.Fprintf(o.Stdout, "resumed after step %d, from %s%s\n", begun.Steps, begun.Path, with)
	}
	progress := report.NewProgress(o.Stdout, report.ProgressOptions{})
	loop.Figures.Progress, loop.Figures.Folder, loop.Figures.Entropy = progress.Step, o.Out, src.entropy
	loop.Figures.Title = "gomoe train, mesh " + describe(s)
	done, err := loop.Run(ctx, stop, run)
	if err = also(err, progress.Close()); err != nil {
		return err
	}
	if done.Stopped {
		fmt.Fprintf(o.Stdout, "interrupted after %d of %d steps\n", done.Steps, s.Steps)
	}
	if done.History.Count > 0 {
		loss, of := done.History.Loss()
		fmt.Fprintf(o.Stdout, "loss %.4f nats per %s over the last %d steps\n", loss, src.unit, of)
		if held := done.History.Last.HeldOut; held != 0 {
			fmt.Fprintf(o.Stdout, "loss %.4f on held-out text\n", held)
		}
	}
	if done.Steps == 0 {
		return nil
	}
	weights, err := run.Weights(ctx)
	if err != nil || !first {
		return err
	}
	names, err := s.save(o.Out, p.Params, weights, src)
	if err != nil {
		return fmt.Errorf("pretrain: %w", err)
	}
	fmt.Fprintf(o.Stdout, "written: %s in %s\n", strings.Join(names, ", "), o.Out)
	return nil
}

// describe returns, for example, "dp=2,ep=2, 4 ranks".
func describe(s *Settings) string {
	if s.Mesh.Ranks() == 1 {
		return "1 rank"
	}
	return fmt.Sprintf("%s, %d ranks", s.Mesh, s.Mesh.Ranks())
}

// also returns err joined with more errors, or err itself if there are no more.
func also(err error, more ...error) error {
	if m := errors.Join(more...); m != nil {
		return errors.Join(err, m)
	}
	return err
}
