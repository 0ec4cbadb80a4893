package finetune

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/convert"
	"github.com/gomoe/gomoe/data"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/lm"
	"github.com/gomoe/gomoe/train/report"
)

// Result describes the outcome of Run.
type Result struct {
	Before, After  float64 // held-out loss before and after; After is measured if the run completes
	Trained, Count int     // numbers of trained weights and of all weights of the model
	Ended          *train.Ended
}

// tuning is one call of Run.
type tuning struct {
	o        Options
	c        *checkpoint.Checkpoint
	m        *models.Model
	first    bool // this process writes the files
	adapters []nn.Adapter
	begin    map[string]array.Array // initial adapters; nil for new ones
	release  func() error           // of the folder Out
	sets     []*data.Set
	batches  *data.Batches
	held     *data.Batches // nil if there is no held-out text
}

// Run trains the model of a checkpoint. When stop ends, the current step is completed, the adapter or the model is
// written, and Run returns an *lm.InterruptedError. When ctx ends, it returns at once. In a job of several processes,
// all must call Run and share the folder Out; the first one writes.
func Run(ctx, stop context.Context, m *models.Model, c *checkpoint.Checkpoint, o Options) (r Result, err error) {
	t := &tuning{o: o, m: m, c: c}
	r, err = t.train(ctx, stop)
	if err = errors.Join(err, t.close()); err != nil {
		err = fmt.Errorf("finetune: %w", err)
	}
	return r, err
}

func (t *tuning) close() error {
	var errs []error
	for _, s := range t.sets {
		errs = append(errs, s.Close())
	}
	if t.release != nil {
		errs = append(errs, t.release())
	}
	return errors.Join(errs...)
}

func (t *tuning) say(format string, args ...any) { fmt.Fprintf(t.o.Stdout, format+"\n", args...) }

func (t *tuning) train(ctx, stop context.Context) (r Result, err error) {
	if t.o.Length == 0 {
		t.o.Length = min(usualLength, t.m.Context)
	}
	if err := t.o.check(); err != nil {
		return r, err
	}
	job, err := t.o.World.Info()
	if err != nil {
		return r, err
	}
	if t.first = job.First(); t.o.Stdout == nil || !t.first {
		t.o.Stdout = io.Discard
	}
	if err := t.adapt(); err != nil {
		return r, err
	}
	if err := t.outputs(ctx); err != nil {
		return r, err
	}
	if err := t.texts(stop); err != nil {
		t.o.World.Interrupted(stop)
		return r, err
	}
	loop := t.loop()
	if err := t.o.World.Same(ctx, loop.Saves.Facts); err != nil {
		return r, err
	}
	step := t.step()
	p, err := step.Trace(t.o.Mesh)
	if err != nil {
		return r, err
	}
	base := p.Params
	if !t.o.All {
		base = p.Frozen
	}
	if err := models.Surplus(t.c, base); err != nil {
		return r, err
	}
	if loop.Saves.As, err = t.saved(p.Params); err != nil {
		return r, err
	}
	r.Trained, _ = nn.Count(p.Params, 0)
	r.Count, _ = nn.Count(base, 0)
	if t.o.All {
		t.say("trains all %d numbers of the model", r.Trained)
	} else {
		t.say("trains %d numbers in %d adapters beside %d of the model, which stay as they are", r.Trained, len(t.adapters), r.Count)
	}
	cfg := t.o.Config
	cfg.Place, cfg.Keep = lm.Places(cfg.Mesh, inputs()...), gomoe.Off // packed copies of the weights would take as much memory as the weights
	run := lm.Training{
		Step: step, Program: p, Config: cfg, Out: t.o.Out, Loop: *loop, Seed: t.o.Seed, Metrics: t.o.Metrics, Unit: "token", Stdout: t.o.Stdout,
		Lighter: lm.Lighter{Advice: advice, Name: func(setting, value string) string {
			if setting == "microbatches" {
				return "-microbatches " + value
			}
			return "" // no flag sets it
		}},
		Begun: func(ctx context.Context, b *lm.Begun) (err error) {
			if err := t.weights(b.Run, p, b.Steps == 0); err != nil || b.Loss == nil {
				return err
			}
			if r.Before, err = b.Loss(ctx); err == nil {
				t.say("held-out loss %.4f at the beginning", r.Before)
			}
			return err
		},
		Done: func(ctx context.Context, d *lm.Done) (err error) {
			if d.Loss != nil && !d.Stopped {
				if r.After, err = d.Loss(ctx); err != nil {
					return err
				}
				t.say("held-out loss %.4f after %d steps, %.4f at the beginning", r.After, d.Steps, r.Before)
			}
			return t.write(ctx, d.Run, d.Stopped || d.Unwritten != nil)
		},
	}
	if t.held != nil {
		run.HeldOut = lm.HeldOut(t.held, t.o.Rows, 0, inputs()...)
	}
	r.Ended, err = run.Run(ctx, stop)
	return r, err
}

// outputs makes the folder for results. It returns an error if they would be mixed with the model, with an input or
// with results of another run, or if the merged model could not be written.
func (t *tuning) outputs(ctx context.Context) error {
	folder := t.c.Path
	if info, err := os.Stat(folder); err == nil && !info.IsDir() {
		folder = filepath.Dir(folder)
	}
	if whole.Same(t.o.Out, folder) {
		return fmt.Errorf("%s has the model %s, want another folder for what is made (-out)", t.o.Out, t.c.Path)
	}
	saves, result := &t.o.Saves, peft.FileName
	if t.o.All {
		result = lm.AllName
	}
	saves.Folder.Path = lm.Checkpoints(t.o.Out)
	lm.Results(saves, t.o.Out, result)
	if _, err := os.Lstat(t.o.Merge); t.o.Merge != "" && err == nil {
		return fmt.Errorf("%s is there already; remove it, or merge to another name", t.o.Merge)
	}
	made := []string{"", "train.tokens", "held-out.tokens", report.MetricsName, train.PictureName, train.RescuedName, peft.ConfigName, peft.FileName, "mlx", lm.AllName, filepath.Base(saves.Folder.Path)}
	if err := whole.ApartIn(t.o.Out, made, slices.Concat(t.o.Data, t.o.HeldOut, []string{t.o.Merge})...); err != nil {
		return err
	}
	var err error
	if t.release, err = lm.Own(ctx, t.o.World, t.o.Out); err != nil {
		return err
	}
	if err := saves.Earlier(); err != nil || t.o.Merge == "" || !t.first {
		return err
	}
	if err := convert.Check(ctx, t.o.Merge, t.c.Path, t.merging()); err != nil {
		return fmt.Errorf("the model with the adapter could not be written in the end: %w", err)
	}
	return nil
}

// usualLength is the default sequence length in tokens, unless the model was trained on shorter ones.
const usualLength = 512

// advice lists remedies if memory does not suffice.
const advice = "fewer sequences (-batch) or shorter ones (-length), more ranks along ep or tp (-mesh), a smaller -rank, or a quantised model"

// adapt finds the matrices to adapt, and reads initial adapters. Experts' adapters have no dropout.
func (t *tuning) adapt() (err error) {
	if t.o.All {
		return nil
	}
	drops := func() bool {
		return t.o.LoRA.Dropout > 0 && slices.ContainsFunc(t.adapters, func(a nn.Adapter) bool { return a.Experts == 0 })
	}
	if t.o.From == "" {
		if t.adapters, err = adaptersOf(t.m, t.c, &t.o.LoRA); err == nil && t.o.LoRA.Dropout > 0 && !drops() {
			err = fmt.Errorf("-dropout %g is for adapters of linear layers, and -targets %s names experts only; leave -dropout out, or name a linear layer", t.o.LoRA.Dropout, strings.Join(t.o.LoRA.Targets, ","))
		}
		return err
	}
	from, err := peft.Open(t.o.From, t.m.Family.Adapters)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if names := from.Changed(); len(names) > 0 {
		return fmt.Errorf("%s: the adapter changes %s itself, want adapters of matrices alone to begin with", t.o.From, strings.Join(names, ", "))
	}
	t.o.LoRA = from.LoRA
	if t.adapters, err = adaptersOf(t.m, t.c, &t.o.LoRA); err != nil {
		return fmt.Errorf("the adapter %s does not fit the model: %w", t.o.From, err)
	}
	if t.o.LoRA.Dropout > 0 && !drops() {
		t.say("the dropout of %s is not applied: its adapters are of experts only", t.o.From)
		t.o.LoRA.Dropout = 0
	}
	t.begin, err = from.Arrays(t.adapters)
	t.begin = models.Reordered(t.m, t.c, t.begin, true)
	return err
}

// texts tokenizes the texts and builds batches of them. It stops when stop ends.
func (t *tuning) texts(stop context.Context) (err error) {
	build := func(name string, sources []string) (string, error) {
		path := filepath.Join(t.o.Out, name)
		r, err := data.Build(stop, path, sources, data.Options{Tokenizer: t.o.Tokenizer, Broken: t.o.Broken, Date: t.o.Date})
		if err != nil {
			return path, err
		}
		for _, b := range r.Broken {
			t.say("passed over: %v", b)
		}
		if r.Idle > 0 {
			t.say("%s: %d conversations without a message to learn, left out", strings.Join(sources, ", "), r.Idle)
		}
		t.say("%s: %d documents, %d tokens", strings.Join(sources, ", "), r.Documents, r.Tokens)
		return path, nil
	}
	open := func(name string, sources []string, o data.Order) (*data.Batches, error) {
		path, err := build(name, sources)
		if err != nil {
			return nil, err
		}
		set, err := data.Open(path)
		if err != nil {
			return nil, err
		}
		t.sets = append(t.sets, set)
		if set.Vocab() > t.m.Vocab {
			return nil, fmt.Errorf("the tokenizer has %d tokens, and the model's table %d", set.Vocab(), t.m.Vocab)
		}
		return set.Batches(o)
	}
	if t.o.Length > t.m.Context {
		return fmt.Errorf("sequences of %d tokens, and the model takes %d: want at most as many (-length)", t.o.Length, t.m.Context)
	}
	order := data.Order{Rows: t.o.Rows, Length: t.o.Length, Seed: t.o.Seed, Whole: true}
	if t.batches, err = open("train.tokens", t.o.Data, order); err != nil {
		return err
	}
	if some, err := t.batches.Predicts(); err != nil {
		return err
	} else if !some {
		return fmt.Errorf("%s: there is no token to learn: texts have one token, completions are empty, or the assistant says nothing", strings.Join(t.o.Data, ", "))
	}
	if len(t.o.HeldOut) == 0 {
		return nil
	}
	order.InTurn = true
	t.held, err = open("held-out.tokens", t.o.HeldOut, order)
	return err
}

// options returns the options for tracing the model.
func (t *tuning) options() nn.Options {
	o := nn.Options{DType: models.DType(t.c), Stored: models.Stored(t.c)}
	if t.o.All {
		o.Stored = func(p nn.Param) (nn.Form, error) {
			w, err := models.Find(t.c, p)
			if err == nil && (!w.Type.DType.IsFloat() || w.Type.DType.IsBlock() || w.Type.DType.IsF8()) {
				err = fmt.Errorf("%s: %s is %s, of which all weights cannot be trained; train adapters, or convert the model", t.c.Path, p.Name, w.Type)
			}
			return nn.Form{DType: graph.F32}, err
		}
		return o
	}
	o.LoRA = &t.o.LoRA
	if t.o.LoRA.Dropout > 0 {
		o.Key = func(t *graph.Tracer) *graph.Value { return t.Input(keyInput, graph.U32, 2) }
	}
	return o
}

// step returns the training step.
func (t *tuning) step() lm.Step {
	optimizer := train.Chain(train.ClipByGlobalNorm(t.o.Clip), train.AdamW(train.AdamWOptions{B2: 0.999, Decay: t.o.Decay}))
	return lm.Step{
		Forward: t.forward, TopK: t.m.TopK, Rows: t.o.Rows, Length: t.o.Length,
		Train: train.Config{Optimizer: optimizer, Model: t.options(), Microbatches: t.o.Microbatches},
	}
}

// weights loads the model's weights, and the initial adapters when a run starts.
func (t *tuning) weights(run *train.Run, program *train.Program, begins bool) error {
	put := program.Frozen
	if t.o.All && begins {
		put = program.Params
	}
	for _, p := range put {
		w, err := models.Find(t.c, p)
		switch {
		case err != nil:
		case p.Frozen && p.Type.DType == w.Type.DType: // used in place, in the mapped files
			err = run.Lend(p.Name, w.Loan(t.c))
		default:
			err = run.Put(p.Name, filler(w))
			w.Drop(t.c)
		}
		if err != nil {
			return err
		}
	}
	if !begins || t.begin == nil {
		return nil
	}
	for name, fill := range train.Whole(t.begin) {
		if err := run.Put(name, fill); err != nil {
			return err
		}
	}
	return nil
}

// filler returns a function that copies a parameter from files, converting it to the wanted element type.
func filler(w *models.Weight) func(runtime.Part) error {
	return func(p runtime.Part) error {
		if p.Type.DType == w.Type.DType {
			return w.Fill(p)
		}
		stored := runtime.Part{Rank: p.Rank, Whole: w.Type, Start: p.Start, Array: array.New(p.Type.With(w.Type.DType))}
		if err := w.Fill(stored); err != nil {
			return err
		}
		return array.Convert(p.Array, stored.Array)
	}
}

// facts returns the settings stored in checkpoints, by the names of their flags.
func (t *tuning) facts() map[string]string {
	f := map[string]string{
		"model": t.m.Family.Name, "-mesh": t.o.Mesh.String(), "-steps": fmt.Sprint(t.o.Steps), "-batch": fmt.Sprint(t.o.Rows), "-length": fmt.Sprint(t.o.Length),
		"-lr": fmt.Sprint(t.o.Rate), "-warmup": fmt.Sprint(t.o.Warm), "-decay": fmt.Sprint(t.o.Decay), "-clip": fmt.Sprint(t.o.Clip), "-seed": fmt.Sprint(t.o.Seed),
		"-data": strings.Join(t.o.Data, ","), "tokens": fmt.Sprint(t.sets[0].Tokens()), "-all": fmt.Sprint(t.o.All), "-exact": fmt.Sprint(t.o.Exact != 0), "-date": cmp.Or(t.o.Date, data.DefaultDate()).Format(time.DateOnly), "-microbatches": fmt.Sprint(max(1, t.o.Microbatches)),
	}
	if !t.o.All {
		l := t.o.LoRA
		f["weights"] = sampled(t.c.Tensors)
		f["-rank"], f["-alpha"], f["-dropout"], f["-targets"] = fmt.Sprint(l.Rank), fmt.Sprint(l.Alpha), fmt.Sprint(l.Dropout), strings.Join(slices.Sorted(slices.Values(l.Targets)), ",")
	}
	return f
}

// sampled returns a hash identifying the weights. It covers a few bytes of each tensor only, so it is fast for
// models of any size.
func sampled(tensors []tensor.Tensor) string {
	const part = 64
	h := sha256.New()
	for _, t := range tensors {
		fmt.Fprintln(h, t.Name, t.Type)
		middle := t.Mem[len(t.Mem)/2:]
		h.Write(middle[:min(part, len(middle))])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// loop returns the training loop.
func (t *tuning) loop() *train.Loop {
	l := &train.Loop{Steps: t.o.Steps, Rate: train.Cosine(t.o.Rate, t.o.Warm, t.o.Steps, 0.1), Every: t.o.Every, Saves: t.o.Saves, Figures: t.o.Figures, Remedies: train.Remedies{Lower: "-lr", Find: "add -finite"}}
	l.Saves.Facts, l.Saves.Model, l.Saves.Free = t.facts(), []string{"model", "-all", "-rank", "-targets"}, nil
	if l.Figures.Title == "" {
		l.Figures.Title = "Fine-tuning " + filepath.Base(t.c.Path)
	}
	drops := !t.o.All && t.o.LoRA.Dropout > 0
	l.Batch = func(step int) (train.Parts, error) {
		in := lm.Parts(t.batches.Step(int64(step-1)), t.o.Rows, inputs()...)
		if drops {
			key, err := array.Of([]uint32{uint32(t.o.Seed), uint32(step)}, 2)
			if err != nil {
				return nil, err
			}
			in[keyInput] = train.Whole(map[string]array.Array{keyInput: key})[keyInput]
		}
		return in, nil
	}
	return l
}

// keyInput is the input u32[2] of a step with dropout.
const keyInput = "key"

// inputs lists the arrays of a batch used by every program here, each [rows,length].
func inputs() []string { return append(lm.Inputs(), data.Positions, data.Documents) }

// forward traces the model over sequences of documents that do not attend to each other.
func (t *tuning) forward(s *nn.Scope, tokens *graph.Value) *graph.Value {
	input := func(name string) *graph.Value { return s.Tracer().Input(name, graph.I32, tokens.Type.Shape...) }
	positions := input(data.Positions)
	return t.m.Forward(s, tokens, &nn.Step{At: positions, Bias: data.Apart(input(data.Documents), graph.F32)})
}
