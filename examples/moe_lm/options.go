package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/world"
)

// options are the flags other than the model's sizes.
type options struct {
	mesh                         sharding.Mesh
	data, out, trace, prompt     string
	metrics                      string // the address for Prometheus
	transport                    *string
	device                       string
	deadline                     *time.Duration
	steps, warmup, every, sample int
	compare, save, keep          int
	lr, temperature              float64
	seed                         uint64
	limit                        int64
	check, finite, resume        bool
	same                         map[string]string // the flags that have to be the same in all processes
	info                         world.Info        // where this process is in the job
	on                           runtime.Device    // the device of that name, nil for the host
}

const usage = `moe_lm trains a byte-level mixture-of-experts language model on a mesh of ranks, in
this process or in one each.

  moe_lm                     four ranks, the Go standard library's source
  moe_lm -mesh dp=1,ep=8     the same model, placed otherwise
  moe_lm -check              one rank against the mesh
  moe_lm -data notes,b.txt   on files and folders of yours
  moe_lm -dtype bf16         mixed precision: products of bf16, weights of f32
  moe_lm -device metal       kernels on Apple's GPU, on a Mac

  moe_lm -save-every 100 -resume    go on where an earlier run ended, however it ended
  gomoe launch -n 4 -- moe_lm       four processes; mpirun, torchrun and mlx.launch start them, too

The first Ctrl-C or SIGTERM ends a run in order, a second one at once. The flags:

`

// parse reads the command line. Help is an error of type *help.
func parse(args []string) (config, options, error) {
	c := config{Vocab: 256, DType: dtype{graph.F32}}
	var o options
	var mesh, order string
	f := flag.NewFlagSet("moe_lm", flag.ContinueOnError)
	f.StringVar(&mesh, "mesh", "dp=2,ep=2", "`axes` of ranks: dp splits the batch, ep the batch and the experts, tp heads and expert columns; ep=0-4/5-7 instead of a size says which experts each rank has, and ep=8:64/24 gives each its share of 8, such as by memory; ep=2x4 are 8 ranks on 2 machines; empty is one rank")
	f.StringVar(&order, "order", "", "the `ranks` in the order in which they take the places of the mesh, the last axis fastest, such as 0,2,1,3; 0,1,2,… if not given")
	o.transport = world.TransportFlag(f)
	o.deadline = world.DeadlineFlag(f)
	f.StringVar(&o.data, "data", "", "`files` and folders to train on, with commas between; empty is the Go standard library's source")
	f.StringVar(&o.out, "out", "out/moe_lm", "`folder` for metrics.csv, training.png, the model (model.safetensors, config.json, tokenizer.json) and sample.txt")
	f.StringVar(&o.trace, "trace", "", "write a trace of every training step to this `file`, for Perfetto")
	f.StringVar(&o.metrics, "metrics", "", "`address`, such as :9100, where the first process serves step, loss, rate, load of the experts and drops to Prometheus")
	f.StringVar(&o.prompt, "prompt", "// Package ", "`text` that the sample continues")
	f.IntVar(&o.steps, "steps", 1500, "training steps")
	f.IntVar(&o.warmup, "warmup", 100, "steps over which the learning rate rises")
	f.IntVar(&o.every, "eval", 150, "steps between losses on held-out text; 0 for none")
	f.IntVar(&o.save, "save-every", 0, "`steps` between checkpoints in the folder checkpoints of -out, from which -resume goes on; the last step and an interrupt leave one, too; 0 for none")
	f.IntVar(&o.keep, "keep", 2, "the newest `checkpoints` stay")
	f.BoolVar(&o.resume, "resume", false, "go on from the newest checkpoint in -out, if there is one: the run ends with the bits of one that was not interrupted")
	f.IntVar(&o.sample, "sample", 300, "bytes to write at the end; 0 for no sample")
	f.Float64Var(&o.lr, "lr", 3e-3, "peak learning `rate`")
	f.Float64Var(&o.temperature, "temperature", 0.7, "of the sample")
	f.Uint64Var(&o.seed, "seed", 1, "of the weights, the batches and the sample")
	f.Int64Var(&o.limit, "limit", 0, "`bytes` of text to read at most; 0 is 16 MiB, negative no limit")
	f.BoolVar(&o.check, "check", false, "run one step on one rank and on the mesh, compare, and exit")
	f.Func("kernels", "`name` of the kernels to use: portable (the reference), avx2, avx512, amx or neon; the best that the processor runs if not given", gomoe.UseKernels)
	f.StringVar(&o.device, "device", "", "`what` runs kernels: host, metal (Apple's GPU), or metal-emulated (the same kernels on this processor, slowly: for tests); the host if not given")
	f.BoolVar(&o.finite, "finite", false, "stop at the first kernel that makes a NaN or an infinity, and name it")
	f.IntVar(&o.compare, "compare", runtime.DefaultCompare, "`steps` between comparisons of the weights and inputs that processes have in common; 0 compares them before the first step only")
	f.Var(&c.DType, "dtype", "element `type` to compute in, f32 or bf16; the latter keeps weights, moments, router and losses in f32")
	f.IntVar(&c.Width, "width", 128, "`columns` of the model")
	f.IntVar(&c.Layers, "layers", 4, "layers")
	f.IntVar(&c.Heads, "heads", 4, "attention heads")
	f.IntVar(&c.FFN, "ffn", 256, "`columns` of an expert")
	f.IntVar(&c.Experts, "experts", 8, "experts per layer")
	f.IntVar(&c.TopK, "top-k", 2, "experts per token")
	f.IntVar(&c.Seq, "seq", 128, "`bytes` per sequence")
	f.IntVar(&c.Batch, "batch", 16, "`sequences` per step, over all ranks")
	f.IntVar(&c.Micro, "microbatches", 1, "`parts` into which a step cuts the batch, one after the other, so that it takes the memory of one; losses that balance experts are then those of a part")
	f.Float64Var(&c.Capacity, "capacity", 0, "capacity of an expert as a `factor` of an even share; 0 drops nothing")
	f.Float64Var(&c.Balance, "balance", 0.01, "`coefficient` of the load-balancing loss")
	f.Float64Var(&c.ZLoss, "z-loss", 0.001, "`coefficient` of the router's z-loss")
	f.Float64Var(&c.Clip, "clip", 1, "largest global `norm` of the gradient")
	f.Float64Var(&c.Decay, "decay", 0.1, "weight decay of matrices")
	f.StringVar(&c.Remat, "remat", rematOff, "`what` the gradient computes again to save memory: off, products (a layer without its products and exchanges) or all (of a layer)")
	f.Var(&c.Sums, "sums", "element `type` in which ranks add up gradients and other sums: f32, or bf16 or f16, which halve what they exchange and round")
	f.StringVar(&c.Zero, "zero", zeroOff, "`what` is split over the ranks that split the batch, to save memory: off, moments, or weights (and moments; weights are gathered where they are used)")
	f.BoolVar(&c.Exact, "exact", false, "give the loss, the weights and so the whole run the same bits on every mesh of dp and ep, also when it goes on on another; it takes more time")
	f.TextVar(&c.Overlap, "overlap", c.Overlap, "`what` to compute during collectives: off or collectives")

	f.SetOutput(io.Discard) // a mistake prints one line, not all flags
	f.Usage = func() {}
	switch err := f.Parse(args); {
	case err == flag.ErrHelp:
		var text bytes.Buffer
		text.WriteString(usage)
		f.SetOutput(&text)
		f.PrintDefaults()
		return c, o, &help{text.String()}
	case err != nil:
		return c, o, fmt.Errorf("%w; see -help", err)
	case f.NArg() > 0:
		return c, o, fmt.Errorf("argument %q: all settings are flags, and switches are given as -check or -check=false; see -help", f.Arg(0))
	}
	o.same = map[string]string{}
	f.VisitAll(func(g *flag.Flag) {
		switch g.Name {
		case "out", "trace", "metrics", "transport", "kernels", "device": // may differ, or are compared elsewhere
		case "data", "limit": // what was read is compared
		default:
			o.same["-"+g.Name] = g.Value.String()
		}
	})
	var err error
	if o.mesh, err = sharding.ParseMesh(mesh); err != nil {
		return c, o, err
	}
	if o.mesh, err = o.mesh.Ordered(order); err != nil {
		return c, o, err
	}
	if err = o.validate(); err == nil {
		err = c.validate()
	}
	if err == nil {
		err = c.fits(o.mesh)
	}
	return c, o, err
}

// session returns the options of sessions that train.
func (o options) session() runtime.Options {
	every := o.compare
	if every == 0 {
		every = -1 // before the first step only
	}
	return runtime.Options{Finite: o.finite, Device: o.on, Compare: every}
}

// help is what -help asks for, as an error.
type help struct{ text string }

func (h *help) Error() string { return h.text }

func (o options) validate() error {
	switch {
	case o.steps < 1:
		return fmt.Errorf("-steps %d: want at least 1", o.steps)
	case o.warmup < 0:
		return fmt.Errorf("-warmup %d: want at least 0", o.warmup)
	case o.every < 0:
		return fmt.Errorf("-eval %d: want at least 0", o.every)
	case o.save < 0:
		return fmt.Errorf("-save-every %d: want at least 0", o.save)
	case o.keep < 1:
		return fmt.Errorf("-keep %d: want at least 1", o.keep)
	case o.compare < 0:
		return fmt.Errorf("-compare %d: want at least 0", o.compare)
	case o.sample < 0:
		return fmt.Errorf("-sample %d: want at least 0", o.sample)
	case o.sample > 0 && o.prompt == "":
		return fmt.Errorf("-prompt is empty: want at least one byte to continue, or -sample 0")
	case !(o.lr > 0 && o.lr <= math.MaxFloat32):
		return fmt.Errorf("-lr %g: want a finite number above 0", o.lr)
	case !(o.temperature > 0 && o.temperature <= math.MaxFloat32):
		return fmt.Errorf("-temperature %g: want a finite number above 0", o.temperature)
	case o.out == "":
		return fmt.Errorf("-out is empty: want a folder, such as -out .")
	}
	return nil
}
