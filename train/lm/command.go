package lm

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/data/text"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/interrupt"
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/tokenizer"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/report"
	"github.com/gomoe/gomoe/train/snapshot"
	"github.com/gomoe/gomoe/world"
)

// Vocab is the vocabulary size of a Command's model: bytes.
const Vocab = 256

// Command is a program training its own model on the bytes of a text. Its flags are those declared by the model and
// by Options.
type Command struct {
	Name  string
	Usage string // printed by -help before the flags
	Model Model
	// Masters rounds parameters to the type of -dtype where the model uses them, as layers of package nn require.
	// Otherwise parameters are f32, and the model rounds them itself.
	Masters bool
	// Draw draws training.png in the -out folder, such as picture.Draw; nil draws none.
	Draw func(io.Writer, report.Figure) error
}

// Model is the model trained by a Command.
type Model interface {
	// Flags declares the model's flags and returns the names of the flags which determine its size. A run resumes only
	// from a checkpoint of the same size.
	Flags(f *flag.FlagSet) (sizes []string)
	// Validate returns an error, naming the flags, if the model is invalid or does not fit the mesh.
	Validate(m sharding.Mesh) error
	// Size estimates the size of the model, before tracing.
	Size() Size
	// Forward returns logits f32[B,S,Vocab] for bytes i32[B,S], computing in Scope.DType. drop is true during
	// training; if it is false, no expert may drop a token.
	Forward(s *nn.Scope, bytes *graph.Value, drop bool) *graph.Value
	// Config returns the entries of the model's config.json. Name returns a parameter's name in model.safetensors,
	// with a star for the number of an expert; transposed is set if files store [out,in] for a parameter [in,out].
	Config(o *Options) map[string]any
	Name(param string) (name string, transposed bool)
}

// help is the text requested by -help, as an error.
type help struct{ text string }

func (h *help) Error() string { return h.text }

// Parse parses a command line into the options and the model's flags.
func (c Command) Parse(args []string) (*Options, error) {
	o := &Options{}
	f := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	for _, name := range c.Model.Flags(f) {
		o.sizes = append(o.sizes, "-"+name)
	}
	mesh, order := o.flags(f)
	f.SetOutput(io.Discard) // for a mistake, print one line, not all flags
	f.Usage = func() {}
	switch err := f.Parse(args); {
	case err == flag.ErrHelp:
		var text bytes.Buffer
		text.WriteString(c.Usage)
		f.SetOutput(&text)
		f.PrintDefaults()
		return o, &help{text.String()}
	case err != nil:
		return o, fmt.Errorf("%w; see -help", err)
	case f.NArg() > 0:
		return o, fmt.Errorf("argument %s: all settings are flags, and switches are given as -check or -check=false; see -help", quoted.Name(f.Arg(0)))
	}
	var err error
	free := strings.Contains(*mesh, "=*")
	if o.Mesh, err = world.ParseMesh(*mesh, nil); err == nil && free {
		*mesh = o.Mesh.String() // stored in checkpoints
	}
	o.same(f)
	if err == nil {
		o.Mesh, err = o.Mesh.Ordered(*order)
	}
	if err == nil {
		err = o.validate()
	}
	if err == nil {
		err = c.Model.Validate(sharding.Mesh{})
	}
	if err == nil {
		if err = errors.Join(o.divides(), c.Model.Validate(o.Mesh)); err != nil && free {
			err = &world.MisfitError{Err: err}
		}
	}
	o.flagged = f
	return o, err
}

// Run executes a command line. When stop ends, it finishes the current step and returns early; when ctx ends, it
// returns at once. A Command can run only once.
func (c Command) Run(ctx, stop context.Context, args []string, stdout io.Writer) (err error) {
	o, err := c.Parse(args)
	var h *help
	if errors.As(err, &h) {
		_, err := io.WriteString(stdout, h.text)
		return err
	}
	if err != nil {
		return err
	}
	var w world.World
	defer w.Close()
	if err := w.Setup(stop, world.Config{Mesh: &o.Mesh, Transport: *o.transport, Deadline: *o.deadline}); err != nil {
		return err
	}
	if o.info, err = w.Info(); err != nil {
		return err
	}
	if err := c.checkMemory(o, o.Mesh, len(o.info.Local), memory.Available()); err != nil {
		return err
	}
	if o.Check {
		if err := c.checkMemory(o, sharding.Mesh{}, 1, memory.Available()); err != nil {
			return err
		}
	}
	if o.world = &w; !o.info.First() {
		stdout = io.Discard // only the first rank prints
	}
	device, err := gomoe.OpenDevice(ctx, o.Device)
	if err != nil {
		return fmt.Errorf("-device: %w", err)
	}
	if device != nil {
		o.device = device
		defer func() { err = errors.Join(err, device.Close()) }()
	}
	read, err := text.Load(stop, text.Options{Data: o.Data, Limit: o.Limit, Seed: o.Seed})
	if err != nil {
		return err
	}
	corpus, err := NewBytes(read, o.Rows, o.Length, o.Eval > 0 && !o.Check)
	if err != nil {
		return fmt.Errorf("-seq %d: %w", o.Length, err)
	}
	o.Facts["text"] = corpus.Hash()
	if err := w.Same(ctx, o.Facts); err != nil {
		return err
	}
	if o.Check {
		return c.check(stop, stdout, o, corpus)
	}
	return c.train(ctx, stop, o, corpus, stdout)
}

// train runs the training. However it ends, the metrics and the picture contain all completed steps.
func (c Command) train(ctx, stop context.Context, o *Options, corpus *Bytes, stdout io.Writer) (err error) {
	step := c.step(o)
	p, err := step.Trace(o.Mesh)
	if err != nil {
		return err
	}
	c.describe(stdout, o, corpus, p.Params)
	t := Training{
		Step: step, Program: p, Config: o.Config(o.Mesh), Lighter: c.lighter(o), Out: o.Out, Seed: o.Seed, Metrics: o.Metrics, Unit: "byte", Stdout: stdout,
		Loop: train.Loop{
			Steps: o.Steps, Rate: train.Cosine(o.Rate, o.Warmup, o.Steps, 0.1), Every: o.Eval, Batch: corpus.Parts,
			Saves:    o.saves(),
			Figures:  train.Figures{Draw: c.Draw, Title: c.Name + ", mesh " + Describe(o.Mesh), Entropy: corpus.Entropy},
			Remedies: train.Remedies{Lower: "-lr", Find: "add -finite"},
		},
		Done: func(ctx context.Context, d *Done) error { return c.finish(ctx, stop, o, d, p.Params, stdout) },
	}
	if t.Loop.Saves.As, err = c.saved(o, p.Params); err != nil {
		return err
	}
	// Report the error before drawing the picture: the launcher may kill this process if another rank has failed.
	failed := false
	t.Loop.Failed = func(err error) {
		failed = true
		fmt.Fprintf(os.Stderr, "%s: %s\n", c.Name, quoted.Message(err.Error()))
	}
	if o.Eval > 0 {
		t.HeldOut = func(ctx context.Context, e *train.Evaluation) (float64, error) {
			return e.Scalar(ctx, "loss", corpus.Held)
		}
	}
	release, err := Own(ctx, o.world, o.Out)
	if err != nil {
		return fmt.Errorf("-out: %w", err)
	}
	defer func() { err = errors.Join(err, release()) }()
	if o.info.First() {
		made := append(modelFiles(), report.MetricsName, train.PictureName, sampleName)
		if err := whole.ApartIn(o.Out, made, strings.Split(o.Data, ",")...); err != nil {
			return fmt.Errorf("-out: %w", err)
		}
		for _, name := range modelFiles() { // find write errors before training
			f, err := whole.Create(filepath.Join(o.Out, name))
			if err != nil {
				return fmt.Errorf("-out: %w", err)
			}
			f.Discard()
		}
	}
	if o.Trace != "" {
		if err := whole.Apart(o.tracePath(), strings.Split(o.Data, ",")...); err != nil {
			return fmt.Errorf("-trace: %w", err)
		}
		if t.Config.Trace, err = runtime.CreateTrace(o.tracePath()); err != nil {
			return fmt.Errorf("-trace: %w", err)
		}
		defer func() { err = errors.Join(err, t.Config.Trace.Close()) }()
	}
	if _, err = t.Run(ctx, stop); err != nil && failed {
		return &reported{err}
	}
	return err
}

// step returns the training step.
func (c Command) step(o *Options) Step {
	s := o.Step(c.Model)
	s.Train.Model.Masters = c.Masters
	return s
}

// describe prints a summary of the text, the model and the mesh.
func (c Command) describe(w io.Writer, o *Options, corpus *Bytes, params []nn.Param) {
	where := "in this process"
	if o.info.Mode == world.PerProcess {
		where = fmt.Sprintf("in %d processes over %s", o.info.Size, o.info.Transport)
	}
	_, bits := corpus.UnigramEntropy()
	size, named := c.Model.Size(), slices.Clone(params)
	for i, p := range params {
		named[i].Name, _ = c.Model.Name(p.Name) // marks experts' parameters by a star
	}
	all, active := nn.Count(named, size.TopK)
	fmt.Fprintf(w, "text: %s\n", corpus)
	fmt.Fprintf(w, "byte-unigram entropy: %.4f nats (%.3f bits) per byte\n", corpus.Entropy, bits)
	fmt.Fprintf(w, "model: %d layers, %d experts of which %d per token, %d weights of which %d per token\n", size.Layers, size.Experts, size.TopK, all, active)
	fmt.Fprintf(w, "mesh: %s %s, %d tokens per step, computing in %s\n", Describe(o.Mesh), where, o.Rows*o.Length, o.DType)
}

// lighter names the flags that may reduce the memory of the step.
func (c Command) lighter(o *Options) Lighter {
	narrow := *o
	narrow.DType = graph.BF16
	return Lighter{Narrow: c.step(&narrow), Name: func(setting, value string) string { return "-" + setting + " " + value }}
}

// finish saves the model and generates a sample.
func (c Command) finish(ctx, stop context.Context, o *Options, d *Done, params []nn.Param, stdout io.Writer) error {
	weights, err := d.Weights(ctx)
	if err != nil || !o.info.First() {
		return err
	}
	written, err := c.Save(o, params, weights)
	if err != nil {
		return err
	}
	if d.Unwritten == nil {
		written = append([]string{"metrics.csv", "training.png"}, written...)
	}
	if o.Sample > 0 {
		if err := c.sample(ctx, stop, o, weights, stdout); err != nil {
			return err
		}
		written = append(written, sampleName)
	}
	fmt.Fprintf(stdout, "written: %s in %s\n", strings.Join(written, ", "), o.Out)
	return nil
}

// Save writes the model to Options.Out and returns the names of the files. weights maps parameter names to arrays.
func (c Command) Save(o *Options, params []nn.Param, weights map[string]array.Array) ([]string, error) {
	var tensors []tensor.Source
	for _, p := range params {
		name, transposed := c.Model.Name(p.Name)
		tensors = append(tensors, Tensors(name, weights[p.Name], transposed)...)
	}
	tok, err := tokenizer.Bytes()
	if err != nil {
		return nil, err
	}
	return WriteModel(o.Out, tensors, c.Model.Config(o), map[string][]byte{tokenizer.FileName: tok})
}

// saved describes checkpoints as a model, for opening them.
func (c Command) saved(o *Options, params []nn.Param) (*snapshot.Model, error) {
	tok, err := tokenizer.Bytes()
	if err != nil {
		return nil, err
	}
	return SavedModel(params, c.Model.Name, c.Model.Config(o), map[string][]byte{tokenizer.FileName: tok})
}

// modelFiles returns the names of a model's files.
func modelFiles() []string {
	return []string{safetensors.FileName, checkpoint.ConfigName, tokenizer.FileName}
}

// tracePath returns the path of this process's trace. With several processes, each inserts its rank before the
// extension.
func (o *Options) tracePath() string {
	if o.info.Mode != world.PerProcess {
		return o.Trace
	}
	ext := filepath.Ext(o.Trace)
	return fmt.Sprintf("%s.%d%s", strings.TrimSuffix(o.Trace, ext), o.info.Rank, ext)
}

// reported is an error already written to standard error.
type reported struct{ error }

func (r *reported) Unwrap() error { return r.error }

// Main runs a Command as a whole program, using the program's arguments, and does not return. The first Ctrl-C or
// SIGTERM, which batch systems send before killing, ends training after the current step and keeps all results so
// far; the program then ends by that signal. A second one ends it at once.
func Main(c Command) {
	stop := interrupt.Context()
	stdout := &whole.Output{To: os.Stdout}
	err := c.Run(context.Background(), stop, os.Args[1:], stdout)
	if err == nil && stdout.Err != nil {
		err = fmt.Errorf("standard output: %w", stdout.Err)
	}
	if said := (*reported)(nil); err != nil && !errors.As(err, &said) {
		fmt.Fprintf(os.Stderr, "%s: %s\n", c.Name, quoted.Message(err.Error()))
	}
	interrupt.Exit(stop, interrupt.Status(stop, err, world.Status(err)))
}
