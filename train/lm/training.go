package lm

import (
	"cmp"
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
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/report"
	"github.com/gomoe/gomoe/world"
)

// Training configures a run: a step, its inputs, and its outputs.
type Training struct {
	Step    Step
	Program *train.Program // traced from Step
	// Config places the batch and configures the ranks and the execution of the step, and of its evaluation.
	Config  gomoe.Config
	Lighter Lighter // in case that memory does not suffice
	Out     string  // folder for metrics.csv, training.png and, in the folder checkpoints, checkpoints; "" writes none. It must exist; see Own
	// Loop runs the steps. Training.Run sets its Tokens, its HeldOut, the folders of its Figures and Saves, and its
	// Figures.Progress if the program has not.
	Loop train.Loop
	Seed uint64 // for the initial state
	// HeldOut measures the loss on held-out text with Step.Evaluation; nil if there is no such text.
	HeldOut func(context.Context, *train.Evaluation) (float64, error)
	// Metrics is an address, such as :9100, for serving the steps to Prometheus from the first process; "" serves
	// none.
	Metrics string
	Unit    string    // name of a token, such as byte
	Stdout  io.Writer // in the first process; nil discards the output
	// Begun is called after the initial state is set, before the first step. Done is called after the last step, also
	// if stop or Ended.Unwritten has ended the run, provided that at least one step is done. All processes call them.
	// nil does nothing.
	Begun func(context.Context, *Begun) error
	Done  func(context.Context, *Done) error
}

// Begun is a run with its initial state set.
type Begun struct {
	*train.Run
	train.Begun
	// Loss measures the current loss on held-out text; nil if there is no such text.
	Loss func(context.Context) (float64, error)
}

// Done is a run with its steps completed.
type Done struct {
	*train.Run
	*train.Ended
	Loss func(context.Context) (float64, error)
}

// InterruptedError reports a run ended by stop before its last step, in this process or another one. It wraps
// context.Canceled.
type InterruptedError struct {
	Done, Steps int  // steps completed, including earlier runs, and steps of the whole run
	Saved       bool // in a checkpoint, for resuming
}

func (i *InterruptedError) Error() string {
	rest := ", of which there is no checkpoint"
	if i.Saved {
		rest = "; give -resume to go on from there"
	}
	return fmt.Sprintf("interrupted after %d of %d steps%s", i.Done, i.Steps, rest)
}

func (i *InterruptedError) Unwrap() error { return context.Canceled }

// Own makes the folder of a run, if it is missing, and makes the job the only writer of it until release is called. A
// program calls it before it writes anything to the folder, such as tokens. It is an error if another run writes to
// the folder; see whole.Own. In a job of several processes, all must call it, and none returns before the first one
// owns the folder.
func Own(ctx context.Context, w *world.World, folder string) (release func() error, err error) {
	job, err := w.Info()
	if err != nil {
		return nil, err
	}
	release = func() error { return nil }
	if err = whole.Folder(folder); err == nil && job.First() {
		var owned func() error
		if owned, err = whole.Own(folder); err == nil {
			release = owned
		}
	}
	failed, elsewhere := w.Any(ctx, err != nil)
	if elsewhere == nil && failed && err == nil {
		elsewhere = &world.ElsewhereError{What: "could not write to " + folder}
	}
	if err = cmp.Or(err, elsewhere); err != nil {
		return nil, errors.Join(err, release())
	}
	return release, nil
}

// Run trains until all steps are done or stop ends. When stop ends, the current step is completed, and Run returns
// an *InterruptedError in addition to the outcome. When ctx ends, Run returns at once. While Run compiles and sets
// the initial state, the end of stop also ends it at once, with stop's cause. In a job of several processes, all
// must call it.
func (t *Training) Run(ctx, stop context.Context) (ended *train.Ended, err error) {
	loop := &t.Loop
	loop.Tokens = t.Step.Rows * t.Step.Length
	if t.Out != "" {
		loop.Figures.Folder, loop.Saves.Folder.Path = t.Out, Checkpoints(t.Out)
	}
	job, err := t.Config.World.Info()
	if err != nil {
		return nil, err
	}
	first := job.First() // this process writes for all of them
	if t.Stdout == nil || !first {
		t.Stdout = io.Discard
	}
	say := func(format string, args ...any) { fmt.Fprintf(t.Stdout, format+"\n", args...) }
	if err := loop.Saves.Earlier(); err != nil {
		return nil, err
	}
	if t.Metrics != "" && first {
		if loop.Figures.Listen, err = net.Listen("tcp", t.Metrics); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
		defer loop.Figures.Listen.Close()
		say("metrics: http://%s/metrics", loop.Figures.Listen.Addr())
	}
	run, err := train.Open(stop, t.Program, t.Config)
	if err != nil {
		return nil, t.Step.Lighter(stop, err, t.Config, t.Lighter)
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	var evaluations []*train.Evaluation
	if t.HeldOut != nil {
		cfg := t.Config
		cfg.Trace, cfg.Finite, cfg.Compare = nil, false, 0 // only for steps, as are recorded choices
		cfg.Place = maps.Clone(cfg.Place)
		maps.DeleteFunc(cfg.Place, func(name string, _ sharding.Spec) bool { return strings.HasPrefix(name, train.ChoicesPrefix) })
		held, wrong := run.Evaluation(stop, "evaluate", cfg, t.Step.Evaluation)
		if wrong != nil {
			return nil, wrong
		}
		defer func() { err = errors.Join(err, held.Close()) }()
		loop.HeldOut = func(ctx context.Context) (float64, error) { return t.HeldOut(ctx, held) }
		evaluations = append(evaluations, held)
	}
	if err := loop.Saves.Meet(ctx, run); err != nil {
		return nil, err
	}
	mem, can := run.Memory(&loop.Saves, evaluations...), memory.Available()
	if loop.Figures.Folder != "" && loop.Figures.Draw != nil {
		mem.Process += report.PictureBytes // at the end of the run
	}
	say("memory: %s", mem)
	if need := mem.State + mem.Step; need > can.Bytes {
		return nil, t.Step.Lighter(stop, &gomoe.TooLargeError{
			Program: t.Program.Name, Need: need, Can: can.Bytes, By: can.By, Ranks: mem.Ranks, Of: max(1, t.Config.Mesh.Ranks()), Inputs: true,
		}, t.Config, t.Lighter)
	}
	if loop.Saves.Apart() {
		say("checkpoints: hosts do not share %s, so each keeps what its ranks hold", loop.Saves.Folder.Path)
	}
	begun, err := loop.Begin(stop, run, t.Seed)
	if err != nil {
		return nil, err
	}
	switch {
	case begun.Path != "":
		with := ""
		if len(begun.Changed) > 0 {
			with = ", with " + strings.Join(begun.Changed, ", ")
		}
		say("resumed after step %d, from %s%s", begun.Steps, begun.Path, with)
	case loop.Saves.Resume:
		say("no checkpoint in %s, so the run begins with step 1", loop.Saves.Folder.Path)
	}
	if t.Begun != nil {
		if err := t.Begun(ctx, &Begun{run, begun, loop.HeldOut}); err != nil {
			return nil, err
		}
	}
	end := func() error { return nil }
	if loop.Figures.Progress == nil {
		progress := report.NewProgress(t.Stdout, report.ProgressOptions{})
		loop.Figures.Progress, loop.Figures.Earlier, end = progress.Step, progress.Earlier, progress.Close
	}
	if ended, err = loop.Run(ctx, stop, run); err != nil && ended.Unwritten == nil {
		return ended, errors.Join(err, end())
	}
	err = errors.Join(err, end(), t.summarize(ended)) // the model is written in any case
	if t.Done != nil && ended.Steps > 0 {
		write := func() error { return t.Done(ctx, &Done{run, ended, loop.HeldOut}) }
		if first {
			err = errors.Join(err, loop.Saves.Rescue(ended.Unwritten, write))
		} else {
			err = errors.Join(err, write())
		}
	}
	if !ended.Stopped && ended.Unwritten == nil {
		return ended, err
	}
	// The launcher may kill all ranks after the first one exits with an error, while another is still writing. If
	// writing takes longer than the deadline, the others exit before it.
	t.Config.World.Any(ctx, false)
	if err == nil {
		err = &InterruptedError{ended.Steps, loop.Steps, ended.Steps > 0 && loop.Saves.Every > 0}
	}
	return ended, err
}

// summarize prints a summary of the training.
func (t *Training) summarize(e *train.Ended) error {
	say, h := func(format string, args ...any) { fmt.Fprintf(t.Stdout, format+"\n", args...) }, &e.History
	if e.Last != nil && len(e.Last.Demand) > 0 { // else an earlier run has done all steps, or there are no experts
		say("choices of each expert in step %d, before drops:", h.Last.Index)
		if err := report.Experts(t.Stdout, e.Last.Demand); err != nil {
			return err
		}
		choices := int64(0)
		for _, layer := range e.Last.Demand {
			for _, n := range layer {
				choices += n * int64(h.Count)
			}
		}
		if h.Drops > 0 {
			say("dropped %d of %d choices (%.1f%%)", h.Drops, choices, 100*float64(h.Drops)/float64(choices))
		}
	}
	if h.Count == 0 {
		return nil // an earlier run has done all steps, and its metrics are gone
	}
	loss, of := h.Loss()
	verdict := ""
	if entropy := t.Loop.Figures.Entropy; entropy != 0 {
		verdict = fmt.Sprintf(", below the unigram entropy of %.4f", entropy)
		if loss >= entropy {
			verdict = ", not yet" + verdict[1:]
		}
	}
	say("%d steps, %d tokens in %s", h.Count, h.Tokens, h.Elapsed.Round(100*time.Millisecond))
	say("loss %.4f nats per %s over the last %d steps%s", loss, t.Unit, of, verdict)
	if h.Last.HeldOut != 0 {
		say("loss %.4f on held-out text", h.Last.HeldOut)
	}
	if t.Loop.Saves.Every == 0 {
		return nil
	}
	step, least, err := t.Loop.Saves.Folder.Best()
	if err == nil && step >= 0 && step < h.Last.Index {
		say("the best checkpoint is that of step %d, with a loss of %.4f on held-out text", step, least)
	}
	return err
}

// Checkpoints returns the folder of checkpoints in Training.Out.
func Checkpoints(out string) string { return filepath.Join(out, "checkpoints") }

// Describe returns, for example, "dp=2,ep=2, 4 ranks".
func Describe(m sharding.Mesh) string {
	if m.Ranks() == 1 {
		return "1 rank"
	}
	return fmt.Sprintf("%s, %d ranks", m, m.Ranks())
}
