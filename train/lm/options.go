package lm

import (
	"flag"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/snapshot"
	"github.com/gomoe/gomoe/world"
)

// Options holds the flags of a Command other than the model's. They are described where flags declares them.
type Options struct {
	Mesh                                           sharding.Mesh
	Data, Out, Trace, Prompt, Metrics, Device      string
	Steps, Warmup, Eval, SaveEvery, Keep, Sample   int
	Compare                                        int
	Rows, Length, Microbatches                     int
	Rate, Temperature, Clip, Decay, Balance, ZLoss float64
	Seed                                           uint64
	Limit                                          int64
	Check, Finite, Resume, Overwrite, Exact        bool
	DType, Sums                                    graph.DType
	Remat                                          nn.Remat
	Zero                                           train.Zero
	Overlap                                        lowering.Overlap
	// Facts holds the flags, including the model's, that must agree between processes and that checkpoints store.
	Facts map[string]string

	transport *string
	deadline  *time.Duration
	sizes     []string // the model's flags that must match when resuming, each with its dash
	flagged   *flag.FlagSet
	info      world.Info
	world     *world.World
	device    runtime.Device // the opened device; nil for the host
}

// Hyperparameters of AdamW.
const (
	beta1 = 0.9
	beta2 = 0.95
	eps   = 1e-8
)

// usualKeep is the default number of checkpoints to keep.
const usualKeep = 2

// flags declares the flags. The model's flags are declared before.
func (o *Options) flags(f *flag.FlagSet) (mesh, order *string) {
	mesh = f.String("mesh", "dp=2,ep=2", "`axes` of ranks: dp splits the batch, ep the batch and the experts, tp heads and expert columns; ep=0-4/5-7 instead of a size says which experts each rank has, and ep=8:64/24 gives each its share of 8, such as by memory; ep=2x4 are 8 ranks on 2 machines; dp=*,ep=2 is as long along dp as the job has ranks; empty is one rank")
	order = f.String("order", "", "the `ranks` in mesh order, the last axis varying fastest, such as 0,2,1,3; 0,1,2,… if not given")
	o.transport, o.deadline = world.TransportFlag(f), world.DeadlineFlag(f)
	f.StringVar(&o.Data, "data", "", "`files` and folders to train on, with commas between; empty is the Go standard library's source")
	f.Int64Var(&o.Limit, "limit", 0, "`bytes` of text to read at most; 0 is 16 MiB, negative no limit")
	f.StringVar(&o.Out, "out", "out/"+f.Name(), "`folder` for metrics.csv, training.png, the model (model.safetensors, config.json, tokenizer.json) and sample.txt")
	f.StringVar(&o.Trace, "trace", "", "write a trace of every training step to this `file`, for Perfetto")
	f.StringVar(&o.Metrics, "metrics", "", "`address`, such as :9100, where the first process serves step, loss, rate, load of the experts and drops to Prometheus")
	f.StringVar(&o.Prompt, "prompt", "// Package ", "`text` that the sample continues")
	f.IntVar(&o.Sample, "sample", 300, "bytes to write at the end; 0 for no sample")
	f.Float64Var(&o.Temperature, "temperature", 0.7, "of the sample")
	f.IntVar(&o.Steps, "steps", 1500, "training steps")
	f.IntVar(&o.Warmup, "warmup", 100, "steps over which the learning rate rises")
	f.Float64Var(&o.Rate, "lr", 3e-3, "peak learning `rate`")
	f.Float64Var(&o.Clip, "clip", 1, "largest global `norm` of the gradient; 0 is any")
	f.Float64Var(&o.Decay, "decay", 0.1, "weight decay of matrices")
	f.Float64Var(&o.Balance, "balance", 0.01, "`coefficient` of the load-balancing loss")
	f.Float64Var(&o.ZLoss, "z-loss", 0.001, "`coefficient` of the router's z-loss")
	f.Uint64Var(&o.Seed, "seed", 1, "of the weights, the batches and the sample")
	f.IntVar(&o.Length, "seq", 128, "`bytes` per sequence")
	f.IntVar(&o.Rows, "batch", 16, "`sequences` per step, over all ranks")
	f.IntVar(&o.Microbatches, "microbatches", 1, "number of `microbatches` per step, run in sequence to save memory; load-balancing losses are then computed per microbatch")
	f.IntVar(&o.Eval, "eval", 150, "steps between losses on held-out text; 0 for none")
	f.IntVar(&o.SaveEvery, "save-every", 0, "`steps` between checkpoints in the folder checkpoints of -out, from which -resume goes on; the last step and an interrupt leave one, too; 0 for none")
	f.IntVar(&o.Keep, "keep", usualKeep, "the newest `checkpoints` stay, and the one with the smallest held-out loss of those that -save-every and -eval have in common")
	f.BoolVar(&o.Overwrite, "overwrite", false, "write over the model that an earlier run without checkpoints has left in -out")
	f.BoolVar(&o.Resume, "resume", false, "go on from the newest checkpoint in -out, if there is one: the run ends with the bits of one that was not interrupted")
	f.BoolVar(&o.Check, "check", false, "run one step on one rank and on the mesh, compare, and exit")
	f.Func("kernels", "`name` of the kernels to use: portable (the reference), avx2, avx512, amx or neon; the best that the processor runs if not given", gomoe.UseKernels)
	f.StringVar(&o.Device, "device", "", "`device` for kernels: host, metal (Apple's GPU), or metal-emulated (the same kernels on this processor, slow, for testing); host if not given")
	f.BoolVar(&o.Finite, "finite", false, "stop at the first kernel that makes a NaN or an infinity, and name it")
	f.IntVar(&o.Compare, "compare", runtime.DefaultCompare, "`steps` between comparisons of the weights and inputs that processes have in common; 0 compares them before the first step only")
	o.DType, o.Sums = graph.F32, graph.F32
	f.Var(DTypes(&o.DType), "dtype", "element `type` to compute in, f32 or bf16; the latter keeps weights, moments, router and losses in f32")
	f.Var(Remats(&o.Remat), "remat", "`values` that the gradient recomputes to save memory: off, products (a layer without its products and exchanges) or all (of a layer)")
	f.Var(SumTypes(&o.Sums), "sums", "element `type` in which ranks add up gradients and other sums: f32, or bf16 or f16, which halve what they exchange and round")
	f.Var(Zeros(&o.Zero), "zero", "`state` split over the ranks that split the batch, to save memory: off, moments, or weights (and moments; weights are gathered where they are used)")
	f.BoolVar(&o.Exact, "exact", false, "make the loss, the weights and so the whole run bit-identical on every mesh of dp and ep, even when resumed on another; slower")
	f.TextVar(&o.Overlap, "overlap", o.Overlap, "overlap `collectives` with computation: off or collectives")
	return mesh, order
}

// DTypes, SumTypes, Remats and Zeros are settings with their values: element types to compute in and to sum in over ranks,
// and the fields Remat of nn.Options and Zero of train.Config.
func DTypes(to *graph.DType) quoted.OneOf[graph.DType] {
	return quoted.OneOf[graph.DType]{To: to, Of: []graph.DType{graph.F32, graph.BF16}}
}

func SumTypes(to *graph.DType) quoted.OneOf[graph.DType] {
	return quoted.OneOf[graph.DType]{To: to, Of: []graph.DType{graph.F32, graph.BF16, graph.F16}}
}

func Remats(to *nn.Remat) quoted.OneOf[nn.Remat] {
	return quoted.OneOf[nn.Remat]{To: to, Of: []nn.Remat{nn.RematOff, nn.RematProducts, nn.RematAll}}
}

func Zeros(to *train.Zero) quoted.OneOf[train.Zero] {
	return quoted.OneOf[train.Zero]{To: to, Of: []train.Zero{train.ZeroOff, train.ZeroMoments, train.ZeroWeights}}
}

// same sets Facts.
func (o *Options) same(f *flag.FlagSet) {
	o.Facts = map[string]string{}
	f.VisitAll(func(g *flag.Flag) {
		switch g.Name {
		case "out", "trace", "metrics", "transport", "kernels", "device": // may differ, or is compared elsewhere
		case "data", "limit": // the text itself is compared
		default:
			o.Facts["-"+g.Name] = g.Value.String()
		}
	})
}

// validate returns an error for invalid flags, naming them.
func (o *Options) validate() error {
	for _, n := range []struct {
		flag      string
		is, least int
	}{
		{"steps", o.Steps, 1}, {"warmup", o.Warmup, 0}, {"eval", o.Eval, 0}, {"save-every", o.SaveEvery, 0}, {"keep", o.Keep, 1}, {"compare", o.Compare, 0},
		{"sample", o.Sample, 0}, {"seq", o.Length, 1}, {"batch", o.Rows, 1}, {"microbatches", o.Microbatches, 1},
	} {
		if n.is < n.least {
			return fmt.Errorf("-%s %d: want at least %d", n.flag, n.is, n.least)
		}
	}
	for _, x := range []struct {
		flag  string
		is    float64
		above bool
	}{
		{"lr", o.Rate, true}, {"temperature", o.Temperature, true}, {"balance", o.Balance, false}, {"z-loss", o.ZLoss, false}, {"clip", o.Clip, false}, {"decay", o.Decay, false},
	} {
		want := "of at least 0"
		if x.above {
			want = "above 0"
		}
		if !(x.is >= 0 && x.is <= math.MaxFloat32) || x.above && x.is == 0 {
			return fmt.Errorf("-%s %g: want a finite number %s", x.flag, x.is, want)
		}
	}
	switch {
	case o.Sample > 0 && o.Prompt == "":
		return fmt.Errorf("-prompt is empty: want at least one byte to continue, or -sample 0")
	case o.Keep != usualKeep && o.SaveEvery == 0:
		return fmt.Errorf("-keep %d is for checkpoints of -save-every, which is not given", o.Keep)
	case o.Exact && o.Sums != graph.F32:
		return fmt.Errorf("-exact and -sums %s: want one of them, because sums of rounded numbers depend on the number of ranks", o.Sums)
	case o.Out == "":
		return fmt.Errorf("-out is empty: want a folder, such as -out .")
	}
	return nil
}

// divides returns an error if the batch cannot be split evenly over the mesh.
func (o *Options) divides() error {
	parts, of, err := Splits(o.Mesh, o.Exact)
	if err != nil {
		return fmt.Errorf("-mesh %s: %w", o.Mesh, err)
	}
	where := fmt.Sprintf("the %d %s in -mesh %s", parts, of, o.Mesh)
	if o.Microbatches > 1 {
		where += fmt.Sprintf(" in -microbatches %d", o.Microbatches)
	}
	return Over("batch", o.Rows, parts*o.Microbatches, where)
}

// Over returns an error if a flag's value n is not divisible by parts; where describes the parts.
func Over(flag string, n, parts int, where string) error {
	if n%parts == 0 {
		return nil
	}
	return fmt.Errorf("-%s %d does not divide over %s: want a multiple of %d, such as -%s %d", flag, n, where, parts, flag, Multiple(n, parts))
}

// Step returns the training step of a model under these options.
func (o *Options) Step(m Model) Step {
	model := nn.Options{DType: o.DType, Remat: o.Remat, Stored: func(nn.Param) (nn.Form, error) { return nn.Form{DType: graph.F32}, nil }}
	return Step{
		Forward: func(s *nn.Scope, tokens *graph.Value) *graph.Value { return m.Forward(s, tokens, true) },
		TopK:    m.Size().TopK, Rows: o.Rows, Length: o.Length, Balance: o.Balance, ZLoss: o.ZLoss,
		Train: train.Config{
			Optimizer: train.Chain(train.ClipByGlobalNorm(o.Clip), train.AdamW(train.AdamWOptions{B1: beta1, B2: beta2, Eps: eps, Decay: o.Decay})),
			Model:     model, Zero: o.Zero, Microbatches: o.Microbatches,
		},
	}
}

// Config returns the placement and execution settings of the step on a mesh.
func (o *Options) Config(m sharding.Mesh) gomoe.Config {
	every := o.Compare
	if every == 0 {
		every = -1 // before the first step only
	}
	cfg := gomoe.Config{
		World: o.world, Mesh: m, Place: Places(m, Inputs()...), Overlap: o.Overlap,
		Options: runtime.Options{Finite: o.Finite, Device: o.device, Compare: every},
	}
	if o.Sums != graph.F32 {
		cfg.Sums = o.Sums
	}
	if o.Exact {
		cfg.Exact = gomoe.ExactBlocks
	}
	return cfg
}

// saves configures checkpoints, and the settings that must match when resuming.
func (o *Options) saves() train.Saves {
	s := train.Saves{
		Folder: snapshot.Folder{Path: Checkpoints(o.Out), Keep: o.Keep}, Every: o.SaveEvery, Resume: o.Resume, Overwrite: o.Overwrite,
		Facts: o.Facts, Model: o.sizes,
		Free: strings.Fields("-check -compare -deadline -eval -finite -keep -overlap -overwrite -prompt -remat -resume -sample -save-every -temperature"),
	}
	Results(&s, o.Out, safetensors.FileName)
	return s
}

// Multiple returns a multiple of a number to recommend instead of n: the next larger one, or the next smaller one
// if the larger one would overflow an int.
func Multiple(n, of int) int {
	if n > math.MaxInt-of {
		return n / of * of
	}
	return (n + of - 1) / of * of
}

// Size is the approximate size of a model. Weights are counted in float64, so that no flag overflows them.
type Size struct {
	Layers, Experts, TopK int
	Weights               float64
	Width                 float64 // width of the activations between layers
}

// planBytes is the approximate memory of a step's program and plan per layer, regardless of size: 36 layers of the
// smallest size used 290 KB each after a garbage collection.
const planBytes = 290e3

// needs estimates a lower bound of a training step's memory in bytes on a rank of a mesh: its share of the weights
// and two moments; at least six arrays of the tokens saved per layer for the backward pass; and the logits.
func (o *Options) needs(s Size, m sharding.Mesh) float64 {
	split := 1.0 // ranks sharing the tokens
	for _, a := range m.Axes {
		if a.Name != "tp" {
			split *= float64(a.Size)
		}
	}
	tokens := float64(o.Rows) / float64(o.Microbatches) * float64(o.Length) / split
	return 4*(3*s.Weights/float64(m.Ranks())+tokens*(6*float64(s.Layers)*s.Width+Vocab)) + planBytes*float64(s.Layers)
}

// checkMemory returns an error if the model needs more memory than this process can use for its ranks of the mesh. It runs
// before tracing, and names the flag whose default value would reduce memory the most.
func (c Command) checkMemory(o *Options, m sharding.Mesh, ranks int, can memory.Limit) error {
	all := func() float64 { return float64(ranks) * o.needs(c.Model.Size(), m) }
	need := all()
	if need <= float64(can.Bytes) {
		return nil
	}
	best, what := need, "the model"
	o.flagged.Visit(func(f *flag.Flag) {
		given := f.Value.String()
		if given == "" || f.Value.Set(f.DefValue) != nil {
			return // a flag without a value
		}
		if n := all(); n < best {
			best, what = n, fmt.Sprintf("-%s %s: the model", f.Name, given)
		}
		f.Value.Set(given)
	})
	return fmt.Errorf("%s needs at least %s of memory for the %d ranks in this process, and %s can be had (%s); want less, or more processes", what, memory.Format(need), ranks, memory.Format(can.Bytes), can.By)
}
