package finetune

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/data"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/train"
)

// Result is what Run has done.
type Result struct {
	Before, After  float64 // the held-out loss; After is measured if the run came to its end
	Trained, Count int     // numbers that are trained, and all of the model's
	Ended          *train.Ended
}

// tuning is one use of Run.
type tuning struct {
	o        Options
	c        *checkpoint.Checkpoint
	m        *models.Model
	first    bool // in this process it is written
	adapters []nn.Adapter
	begin    map[string]array.Array // the adapters to begin with; nil for new ones
	sets     []*data.Set
	batches  *data.Batches
	held     *data.Batches // nil without held-out text
	program  *train.Program
	run      *train.Run
	eval     *train.Evaluation
}

// Run trains the model of a checkpoint. When stop ends, the step that has begun is completed and saved; when ctx ends, Run
// returns at once. In a job of several processes all of them call it and see the folder Out; the first one writes.
func Run(ctx, stop context.Context, m *models.Model, c *checkpoint.Checkpoint, o Options) (r Result, err error) {
	t := &tuning{o: o, m: m, c: c, first: true}
	r, err = t.train(ctx, stop)
	if err = errors.Join(err, t.close()); err != nil {
		err = fmt.Errorf("finetune: %w", err)
	}
	return r, err
}

func (t *tuning) close() error {
	var errs []error
	if t.eval != nil {
		errs = append(errs, t.eval.Close())
	}
	if t.run != nil {
		errs = append(errs, t.run.Close())
	}
	for _, s := range t.sets {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

func (t *tuning) say(format string, args ...any) error {
	if !t.first || t.o.Say == nil {
		return nil
	}
	return t.o.Say(fmt.Sprintf(format, args...))
}

func (t *tuning) train(ctx, stop context.Context) (r Result, err error) {
	if err := t.o.check(); err != nil {
		return r, err
	}
	if t.o.World != nil {
		info, err := t.o.World.Info()
		if err != nil {
			return r, err
		}
		t.first = info.First()
	}
	if t.o.Merge != "" {
		if _, err := os.Lstat(t.o.Merge); err == nil {
			return r, fmt.Errorf("%s is there already; remove it, or merge to another name", t.o.Merge)
		}
	}
	if err := t.adapt(); err != nil {
		return r, err
	}
	if err := t.texts(); err != nil {
		return r, err
	}
	loop := t.loop()
	if err := loop.Saves.Earlier(); err != nil {
		return r, err
	}
	if t.o.World != nil {
		if err := t.o.World.Same(ctx, loop.Saves.Facts); err != nil {
			return r, err
		}
	}
	if err := t.trace(&r); err != nil {
		return r, err
	}
	begun, err := loop.Begin(ctx, t.run, t.o.Seed)
	if err != nil {
		return r, err
	}
	if err := t.weights(begun.Steps == 0); err != nil {
		return r, err
	}
	if begun.Steps > 0 {
		if err := t.say("resumed after step %d, from %s%s", begun.Steps, begun.Path, with(begun.Changed)); err != nil {
			return r, err
		}
	}
	if loop.HeldOut != nil {
		if r.Before, err = loop.HeldOut(ctx); err != nil {
			return r, err
		}
		if err := t.say("held-out loss %.4f at the beginning", r.Before); err != nil {
			return r, err
		}
	}
	r.Ended, err = loop.Run(ctx, stop, t.run)
	if err != nil || r.Ended.Stopped {
		return r, err
	}
	if loop.HeldOut != nil {
		if r.After, err = loop.HeldOut(ctx); err != nil {
			return r, err
		}
		if err := t.say("held-out loss %.4f after %d steps, %.4f at the beginning", r.After, r.Ended.Steps, r.Before); err != nil {
			return r, err
		}
	}
	return r, t.write(ctx)
}

func with(changed []string) string {
	if len(changed) == 0 {
		return ""
	}
	return ", with " + strings.Join(changed, ", ")
}

// adapt finds the adapters, and reads those to begin with.
func (t *tuning) adapt() (err error) {
	if t.o.All {
		return nil
	}
	if t.o.From == "" {
		t.adapters, err = adaptersOf(t.m, t.c, &t.o.LoRA)
		return err
	}
	from, err := peft.Open(t.o.From)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	t.o.LoRA = from.LoRA
	if t.adapters, err = adaptersOf(t.m, t.c, &t.o.LoRA); err != nil {
		return err
	}
	t.begin, err = from.Arrays(t.adapters)
	t.begin = models.Reordered(t.m, t.c, t.begin, true)
	return err
}

// texts makes the tokens, and the batches of them.
func (t *tuning) texts() (err error) {
	if err := os.MkdirAll(t.o.Out, 0o755); err != nil {
		return err
	}
	build := func(name string, sources []string) (string, error) {
		path := filepath.Join(t.o.Out, name)
		r, err := data.Build(path, sources, data.Options{Tokenizer: t.o.Tokenizer, Broken: t.o.Broken})
		if err != nil {
			return path, err
		}
		for _, b := range r.Broken {
			if err := t.say("passed over: %v", b); err != nil {
				return path, err
			}
		}
		return path, t.say("%s: %d documents, %d tokens", strings.Join(sources, ", "), r.Documents, r.Tokens)
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
		return fmt.Errorf("sequences of %d tokens, and the model was trained for %d", t.o.Length, t.m.Context)
	}
	order := data.Order{Rows: t.o.Rows, Length: t.o.Length, Seed: t.o.Seed, Whole: true}
	if t.batches, err = open("train.tokens", t.o.Data, order); err != nil || len(t.o.HeldOut) == 0 {
		return err
	}
	order.InTurn = true
	t.held, err = open("held-out.tokens", t.o.HeldOut, order)
	return err
}

// options are those that the model is traced with.
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

// trace makes the step and the program of the held-out loss, and says what they take.
func (t *tuning) trace(r *Result) (err error) {
	ts := []train.Transform{train.AdamW(train.AdamWOptions{B2: 0.999, Decay: t.o.Decay})}
	if t.o.Clip > 0 {
		ts = append([]train.Transform{train.ClipByGlobalNorm(t.o.Clip)}, ts...)
	}
	t.program, err = train.Trace("step", train.Config{Optimizer: train.Chain(ts...), Model: t.options()}, func(s *nn.Scope) (*graph.Value, []*graph.Value) {
		loss := mean(losses(s, t.m, t.o.Rows, t.o.Length))
		return loss, []*graph.Value{loss.Named("loss")}
	})
	if err != nil {
		return err
	}
	base := t.program.Params
	if !t.o.All {
		base = t.program.Frozen
	}
	if err := models.Surplus(t.c, base); err != nil {
		return err
	}
	r.Trained, _ = nn.Count(t.program.Params, 0)
	r.Count, _ = nn.Count(base, 0)
	cfg := t.o.Config
	cfg.Place, cfg.Keep = places(), gomoe.Off // copies of weights would take as much memory as the weights
	if t.run, err = train.Open(t.program, cfg); err != nil {
		return tooLarge(err)
	}
	if err := t.fits(*r); err != nil || t.held == nil {
		return err
	}
	t.eval, err = t.run.Evaluation("heldout", cfg, func(s *nn.Scope) []*graph.Value {
		sum, count := losses(s, t.m, t.o.Rows, t.o.Length)
		return []*graph.Value{sum.Named("sum"), count.Named("count")}
	})
	return err
}

// weights puts the model's weights, and in the first run the adapters to begin with.
func (t *tuning) weights(begins bool) error {
	put := t.program.Frozen
	if t.o.All && begins {
		put = t.program.Params
	}
	for _, p := range put {
		w, err := models.Find(t.c, p)
		if err == nil {
			err = t.run.Put(p.Name, filler(w))
		}
		if err != nil {
			return err
		}
	}
	if !begins || t.begin == nil {
		return nil
	}
	for name, a := range t.begin {
		if err := t.run.Put(name, copier(a)); err != nil {
			return err
		}
	}
	return nil
}

// filler returns what copies a parameter from files in the element type that is wanted.
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

// copier returns what copies parts of an array.
func copier(a array.Array) func(runtime.Part) error {
	return func(p runtime.Part) error {
		return runtime.ReadAt(strings.NewReader(string(a.Bytes())), 0)(p)
	}
}

// facts are the settings that checkpoints keep.
func (t *tuning) facts() map[string]string {
	f := map[string]string{
		"model": t.m.Family, "mesh": t.o.Mesh.String(), "steps": fmt.Sprint(t.o.Steps), "batch": fmt.Sprint(t.o.Rows), "length": fmt.Sprint(t.o.Length),
		"rate": fmt.Sprint(t.o.Rate), "warm": fmt.Sprint(t.o.Warm), "decay": fmt.Sprint(t.o.Decay), "clip": fmt.Sprint(t.o.Clip), "seed": fmt.Sprint(t.o.Seed),
		"data": strings.Join(t.o.Data, " "), "all": fmt.Sprint(t.o.All), "exact": fmt.Sprint(t.o.Exact),
	}
	if !t.o.All {
		l := t.o.LoRA
		f["rank"], f["alpha"], f["dropout"], f["targets"] = fmt.Sprint(l.Rank), fmt.Sprint(l.Alpha), fmt.Sprint(l.Dropout), strings.Join(slices.Sorted(slices.Values(l.Targets)), ",")
	}
	return f
}

// loop returns what does the steps.
func (t *tuning) loop() *train.Loop {
	l := &train.Loop{Steps: t.o.Steps, Rate: train.Cosine(t.o.Rate, t.o.Warm, t.o.Steps, 0.1), Tokens: t.o.Rows * t.o.Length, Every: t.o.Every, Saves: t.o.Saves, Figures: t.o.Figures, Remedies: train.Remedies{Lower: "-lr"}}
	l.Saves.Folder.Path = filepath.Join(t.o.Out, "checkpoints")
	l.Saves.Facts, l.Saves.Model, l.Saves.Free = t.facts(), []string{"model", "all", "rank", "targets"}, nil
	l.Figures.Folder = t.o.Out
	if l.Figures.Title == "" {
		l.Figures.Title = "Fine-tuning " + filepath.Base(t.c.Path)
	}
	drops := !t.o.All && t.o.LoRA.Dropout > 0
	l.Batch = func(step int) (map[string]array.Array, error) {
		in, err := batch(t.batches.Step(int64(step-1)), t.o.Rows)
		if err == nil && drops {
			in[keyInput], err = array.Of([]uint32{uint32(t.o.Seed), uint32(step)}, 2)
		}
		return in, err
	}
	if t.held != nil {
		l.HeldOut = t.heldOut
	}
	return l
}

// heldOut returns the loss on the held-out text.
func (t *tuning) heldOut(ctx context.Context) (float64, error) {
	sum, count, n := 0.0, 0.0, int(t.held.Sequences())
	for done := 0; done < n; done += t.o.Rows {
		in, err := batch(t.held.Step(int64(done/t.o.Rows)), n-done)
		if err != nil {
			return 0, err
		}
		out, err := t.eval.Run(ctx, in)
		if err != nil {
			return 0, err
		}
		for name, to := range map[string]*float64{"sum": &sum, "count": &count} {
			a, err := t.eval.Job.Get(ctx, out[name])
			if err != nil {
				return 0, err
			}
			*to += a.Float64s()[0]
		}
	}
	if count == 0 {
		return 0, errors.New("the held-out text has no token that is to be predicted")
	}
	return sum / count, nil
}
