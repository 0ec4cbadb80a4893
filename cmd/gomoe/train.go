package main

import (
	"context"
	"errors"
	"flag"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe/pretrain"
	"github.com/gomoe/gomoe/train/picture"
	"github.com/gomoe/gomoe/world"
)

func (t *tool) trainCommand() *ffcli.Command {
	fs := t.flags("train")
	r := training{tool: t}
	fs.StringVar(&r.out, "out", "out/train", "`folder` for the model (model.safetensors, config.json, tokenizer), metrics.csv, training.png and checkpoints")
	fs.StringVar(&r.mesh, "mesh", "", "`axes` of ranks instead of those of the settings: dp splits the batch, ep the batch and the experts, tp heads and columns; dp=*,ep=2 is as long along dp as the job has ranks")
	fs.IntVar(&r.steps, "steps", 0, "training `steps` instead of those of the settings")
	fs.BoolVar(&r.overwrite, "overwrite", false, "write over the model that an earlier run without checkpoints has left in -out, and remove the routes of another run in -record")
	fs.BoolVar(&r.resume, "resume", false, "go on from the newest checkpoint in -out, if there is one; the settings' save_every leaves them")
	fs.StringVar(&r.record, "record", "", "`folder` into which the experts of every step's tokens are written, for -replay")
	fs.StringVar(&r.replay, "replay", "", "`folder` of -record: tokens go to the experts that are written there, whatever the router would choose")
	fs.StringVar(&r.metrics, "metrics", "", "`address`, such as :9100, where the first process serves step, loss, rate, load of the experts and drops to Prometheus")
	fs.BoolVar(&r.finite, "finite", false, "stop at the first kernel that makes a NaN or an infinity, and name it")
	r.transport, r.deadline = world.TransportFlag(fs), world.DeadlineFlag(fs)
	kernelsFlag(fs)
	return &ffcli.Command{
		Name: "train", ShortUsage: "gomoe train SETTINGS.json [-out out/train] [-mesh dp=2,ep=2] [-resume]", FlagSet: fs,
		ShortHelp: "Train a model from nothing.",
		LongHelp: "SETTINGS.json says the architecture, the text, the mesh and the optimiser; {} trains a small Mixtral on the source of the Go\n" +
			"standard library. docs/training.md has all settings. Under gomoe launch, mpirun and others all ranks take part. The first\n" +
			"Ctrl-C or SIGTERM ends the run after the current step, a second one at once.",
		Exec: func(ctx context.Context, args []string) error {
			path, err := onePath(fs, args, "a file of settings")
			if err != nil {
				return err
			}
			fs.Visit(func(f *flag.Flag) { r.meshed = r.meshed || f.Name == "mesh" })
			return r.run(ctx, path)
		},
	}
}

// training holds the flags of gomoe train.
type training struct {
	*tool
	out, mesh      string
	record, replay string
	metrics        string
	finite         bool
	steps          int
	resume, meshed bool
	overwrite      bool
	transport      *string
	deadline       *time.Duration
}

func (r *training) run(stop context.Context, path string) (err error) {
	switch {
	case r.steps < 0:
		return usagef("-steps %d: want at least 1, or 0 for those of the settings", r.steps)
	case r.out == "":
		return usagef("-out is empty: want a folder, such as -out .")
	}
	s, err := pretrain.Read(path)
	if err != nil {
		return err
	}
	if r.meshed {
		if err := s.Place(r.mesh); err != nil {
			return err
		}
	}
	if r.steps > 0 {
		s.Steps = r.steps
	}
	var w world.World
	defer func() { err = errors.Join(err, w.Close()) }()
	ctx := context.WithoutCancel(stop) // the end of stop ends the run in order
	if err := w.Setup(stop, world.Config{Mesh: &s.Mesh, Transport: *r.transport, Deadline: *r.deadline}); err != nil {
		return err
	}
	return pretrain.Run(ctx, stop, s, pretrain.Options{Out: r.out, Resume: r.resume, Overwrite: r.overwrite, World: &w, Deadline: *r.deadline, Record: r.record, Replay: r.replay, Metrics: r.metrics, Draw: picture.Draw, Finite: r.finite, Stdout: r.stdout})
}
