package main

import (
	"context"
	"errors"
	"flag"
	"strconv"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/convert"
	"github.com/gomoe/gomoe/finetune"
	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/train/picture"
	"github.com/gomoe/gomoe/train/report"
	"github.com/gomoe/gomoe/world"
)

func (t *tool) finetuneCommand() *ffcli.Command {
	fs := t.flags("finetune")
	f := tuning{tool: t}
	f.flags(fs)
	return &ffcli.Command{
		Name: "finetune", ShortUsage: "gomoe finetune MODEL -data chats.jsonl -out DIR [-held-out other.jsonl] [-merge MERGED] [flags]", FlagSet: fs,
		ShortHelp: "Train adapters of a model, or all of it, on texts.",
		LongHelp: "MODEL is that of gomoe generate; quantised weights stay as they are. Data are files of text, which are one document each, or\n" +
			"named .jsonl or .json with an object in each line or a list of objects: a text, a prompt with its completion, or the\n" +
			"messages of a chat, of which what the assistant says is learned. DIR gets adapter_config.json and\n" +
			"adapter_model.safetensors, which PEFT loads, and in the folder mlx the same for mlx-lm; with -all a folder named model\n" +
			"with the model; and metrics.csv, training.png and, with -save-every, checkpoints. -merge writes the model with the\n" +
			"adapter added to its weights. The first Ctrl-C or SIGTERM ends the run after the current step, a second one at once.",
		Exec: func(ctx context.Context, args []string) error {
			path, err := onePath(fs, args, "the folder of a model, or a GGUF file")
			if err != nil {
				return err
			}
			f.path = path
			if err := f.idle(fs); err != nil {
				return err
			}
			return f.run(ctx)
		},
	}
}

// tuning holds the flags of gomoe finetune.
type tuning struct {
	*tool
	path, mesh, order, device string
	o                         finetune.Options
	transport                 *string
	deadline                  *time.Duration
}

func (f *tuning) flags(fs *flag.FlagSet) {
	list := func(to *[]string) func(string) error {
		return func(s string) error {
			for part := range strings.SplitSeq(s, ",") {
				if part == "" {
					return errors.New("want names with commas between")
				}
				*to = append(*to, part)
			}
			return nil
		}
	}
	o := &f.o
	fs.Func("data", "`files` of texts or chats, with commas between; repeatable", list(&o.Data))
	fs.Func("held-out", "`files` on which the loss is measured before and after, with commas between; repeatable", list(&o.HeldOut))
	fs.IntVar(&o.Broken, "broken", 0, "how many `lines` of the files may be broken; they are passed over")
	fs.Func("date", "`date` that a chat template asking for today's gets, such as 2026-11-29; 2000-01-01 if not given, so that the same files give the same tokens on every day", func(s string) (err error) {
		if o.Date, err = time.Parse(time.DateOnly, s); err != nil {
			err = errors.New("want a date, such as 2026-11-29")
		}
		return err
	})
	fs.StringVar(&o.Out, "out", "out/finetune", "`folder` for what is made")
	fs.IntVar(&o.LoRA.Rank, "rank", 16, "`rank` of the adapters")
	fs.Float64Var(&o.LoRA.Alpha, "alpha", 32, "adapters are multiplied by `alpha`/rank")
	fs.Float64Var(&o.LoRA.Dropout, "dropout", 0, "`probability` with which adapters of linear layers do not see an element")
	fs.Func("targets", "`matrices` with adapters, as ends of their names with commas between, such as q_proj,o_proj; an unknown one lists the model's; those of attention, networks and experts if not given", list(&o.LoRA.Targets))
	fs.StringVar(&o.From, "from", "", "`folder` of an initial adapter: PEFT's, mlx-lm's or a run's checkpoint. It determines -rank, -alpha, -dropout and -targets")
	fs.BoolVar(&o.All, "all", false, "train all weights, in f32, instead of adapters")
	fs.StringVar(&o.Merge, "merge", "", "`path` for the model with the adapter: a folder, or a GGUF file if it ends with .gguf")
	fs.Func("merge-type", "element `type` of its matrices, as that of gomoe convert; that of MODEL if not given", quoted.OneOf[graph.DType]{To: &o.MergeType, Of: convert.Types()}.Set)
	fs.IntVar(&o.Steps, "steps", 100, "training `steps`")
	fs.IntVar(&o.Rows, "batch", 8, "`sequences` of a step, over all ranks")
	fs.IntVar(&o.Microbatches, "microbatches", 1, "number of `microbatches` per step, run in sequence to save memory")
	fs.IntVar(&o.Length, "length", 0, "`tokens` of a sequence; 512 if not given, or as many as the model takes if that is less")
	fs.Float64Var(&o.Rate, "lr", 2e-4, "largest learning `rate`; it falls to a tenth as a cosine does")
	fs.IntVar(&o.Warm, "warmup", 10, "`steps` in which the rate rises")
	fs.Float64Var(&o.Decay, "decay", 0, "weight `decay` of matrices")
	fs.Float64Var(&o.Clip, "clip", 1, "largest `norm` of the gradient; 0 is any")
	fs.Uint64Var(&o.Seed, "seed", 1, "`seed` of new adapters and of the order of the texts")
	fs.IntVar(&o.Every, "eval", 0, "measure the held-out loss after every so many `steps`, too; 0 is before and after")
	fs.IntVar(&o.Saves.Every, "save-every", 0, "leave a checkpoint after every so many `steps`, and when Ctrl-C or SIGTERM ends the run; 0 leaves none")
	fs.IntVar(&o.Saves.Folder.Keep, "keep", 3, "how `many` checkpoints stay, the newest; and the one with the smallest held-out loss of those that -save-every and -eval have in common")
	fs.BoolVar(&o.Saves.Overwrite, "overwrite", false, "write over what an earlier run without checkpoints has left in -out")
	fs.BoolVar(&o.Saves.Resume, "resume", false, "go on from the newest checkpoint, if there is one")
	fs.StringVar(&f.mesh, "mesh", "", "`axes` of ranks: dp and ep split the sequences, ep the experts, tp heads and columns; dp=*,ep=2 is as long along dp as the job has ranks; empty is one rank")
	orderFlag(fs, &f.order)
	fs.BoolFunc("exact", "make the loss, the adapter and so the whole run bit-identical on every mesh of dp and ep, even when resumed on another; slower, and the batch must be a multiple of 8", func(s string) error {
		on, err := strconv.ParseBool(s)
		if o.Exact = 0; on {
			o.Exact = gomoe.ExactBlocks
		}
		return err
	})
	fs.StringVar(&o.Metrics, "metrics", "", "`address`, such as :9100, where the first process serves step, loss, rate, load of the experts and drops to Prometheus")
	fs.BoolVar(&o.Finite, "finite", false, "stop at the first kernel that makes a NaN or an infinity, and name it")
	f.transport, f.deadline = world.TransportFlag(fs), world.DeadlineFlag(fs)
	deviceFlag(fs, &f.device)
	kernelsFlag(fs)
}

// idle returns an error if a flag has no effect in combination with the others.
func (f *tuning) idle(fs *flag.FlagSet) (err error) {
	o := &f.o
	fs.Visit(func(x *flag.Flag) {
		switch x.Name {
		case "rank", "alpha", "dropout", "targets":
			if o.All {
				err = usagef("-%s is for adapters, and -all trains all weights", x.Name)
			} else if o.From != "" {
				err = usagef("-%s: the adapter in -from %s says that", x.Name, o.From)
			} else if x.Name == "alpha" && !(o.LoRA.Alpha > 0) {
				err = usagef("-alpha %g: want a number above 0", o.LoRA.Alpha)
			}
		case "merge-type":
			if o.Merge == "" {
				err = usagef("-merge-type is for -merge, which is not given")
			}
		case "eval":
			if len(o.HeldOut) == 0 && o.Every != 0 {
				err = usagef("-eval is for texts of -held-out, which is not given")
			}
		case "keep":
			if o.Saves.Folder.Keep < 1 {
				err = usagef("-keep %d: want at least 1", o.Saves.Folder.Keep)
			} else if o.Saves.Every == 0 {
				err = usagef("-keep is for checkpoints of -save-every, which is not given")
			}
		case "broken":
			if o.Broken < 0 {
				err = usagef("-broken %d: want at least 0", o.Broken)
			}
		}
	})
	return err
}

func (f *tuning) run(ctx context.Context) (err error) {
	switch o := f.o; {
	case len(o.Data) == 0:
		return usagef("no -data, want files of texts or chats")
	case o.Out == "":
		return usagef("no -out, want a folder for what is made")
	case o.Steps < 1 || o.Rows < 1 || o.Length < 2 && o.Length != 0:
		return usagef("-steps %d, -batch %d, -length %d: want at least 1, 1 and 2", o.Steps, o.Rows, o.Length)
	}
	mesh, err := meshOf(f.mesh, f.order)
	if err != nil {
		return err
	}
	stop := ctx // ends at the first signal; a second one ends the process
	ctx = context.WithoutCancel(ctx)
	var w world.World
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := w.Setup(stop, world.Config{Mesh: &mesh, Transport: *f.transport, Deadline: *f.deadline}); err != nil {
		return err
	}
	f.o.World, f.o.Mesh, f.o.Deadline = &w, mesh, *f.deadline
	end, err := openDevice(ctx, f.device, &f.o.Config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	c, err := checkpoint.Open(f.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	m, err := models.Open(c)
	if err != nil {
		return err
	}
	if f.o.Tokenizer, err = generate.Tokenizer(c); err != nil {
		return err
	}
	f.o.Stdout = &escaping{f.stdout}
	bar := report.NewProgress(f.stdout, report.ProgressOptions{})
	defer func() { err = errors.Join(err, bar.Close()) }()
	f.o.Figures.Progress, f.o.Figures.Earlier, f.o.Figures.Draw = bar.Step, bar.Earlier, picture.Draw
	_, err = finetune.Run(ctx, stop, m, c, f.o)
	return err
}
