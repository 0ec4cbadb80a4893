package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe/internal/measure"
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/world"
)

func (t *tool) benchCommand() *ffcli.Command {
	fs := t.flags("bench")
	return group(&ffcli.Command{
		Name: "bench", ShortUsage: "gomoe bench collectives | kernels [flags]", FlagSet: fs,
		ShortHelp:   "Measure this machine.",
		LongHelp:    "collectives times every collective, by size, over every transport.\nkernels times an Apple GPU's kernels and the host's, and compares the results.",
		Subcommands: []*ffcli.Command{t.collectivesCommand(), t.benchKernelsCommand()},
	})
}

// collectives holds the flags of gomoe bench collectives.
type collectives struct {
	*tool
	transport  string   // the flag as given; "" if it was not given
	transports []string // the transports to measure
	ranks      int
	ops        string
	min, max   size
	memory     *size
	o          measure.Options
	deadline   *time.Duration
	moe        exchangeSizes
	out        benchOutput
}

func (t *tool) collectivesCommand() *ffcli.Command {
	fs := t.flags("bench collectives")
	b := &collectives{tool: t, min: 4, max: 256 << 20, out: benchOutput{stdout: t.stdout, header: measure.Header()}}
	b.flags(fs)
	return &ffcli.Command{
		Name: "collectives", ShortUsage: "gomoe bench collectives [-n 4] [-transport local,shm,tcp] [flags]", FlagSet: fs,
		ShortHelp: "Time collectives by operation, size and transport.",
		LongHelp: "Prints a line per operation and size: the median time of a call, and the fastest; the size by the\ntime (alg GB/s); and what each rank's connection carries (bus GB/s), which is comparable with the\nhardware's bandwidth, as in nccl-tests. Then dispatch and combine of an MoE layer, in microseconds\nand GB/s of the rows that a rank receives, its own among them, as DeepEP counts them.\n" +
			"Ranks are started on this machine, once per transport. Inside of a job (gomoe launch -hostfile ...,\nmpirun, mlx.launch) the job's ranks are measured, over one transport.",
		Exec: func(ctx context.Context, args []string) error {
			if rest, err := operands(fs, args); err != nil || len(rest) > 0 {
				if err == nil {
					err = usagef("arguments %s, want flags only", quoted.List(rest))
				}
				return err
			}
			if err := b.check(); err != nil {
				return err
			}
			job, err := environ.Detect(os.Getenv)
			if err != nil {
				return err
			}
			*b.deadline = cmp.Or(*b.deadline, job.Deadline)
			if !job.InProcess() {
				return b.asRank(ctx)
			}
			return b.measure(ctx)
		},
	}
}

// usualTransports are measured if -transport is not given.
const usualTransports = "local,shm,tcp"

func (b *collectives) flags(fs *flag.FlagSet) {
	fs.StringVar(&b.transport, "transport", "", "`transports`, with commas between: "+strings.Join(measured(), ", ")+", where copy is none, but how fast ranks of one process copy; "+usualTransports+" if not given")
	b.deadline = world.DeadlineFlag(fs)
	fs.IntVar(&b.ranks, "n", 4, "`number` of ranks")
	fs.StringVar(&b.ops, "ops", "", "`operations`, with commas between; all if not given: "+strings.Join(measure.Ops(), ","))
	fs.Var(&b.min, "min", "smallest `size`")
	fs.Var(&b.max, "max", "largest `size`")
	fs.IntVar(&b.o.Factor, "factor", 4, "of one size to the next")
	fs.IntVar(&b.o.Batches, "batches", 5, "timed batches per size")
	fs.DurationVar(&b.o.Batch, "batch", 50*time.Millisecond, "about how `long` one of them is")
	fs.IntVar(&b.moe.tokens, "tokens", 1024, "tokens per rank of dispatch and combine; 0 leaves them out")
	fs.IntVar(&b.moe.width, "hidden", 2048, "columns of a token")
	fs.IntVar(&b.moe.experts, "experts", 64, "experts, over all ranks")
	fs.IntVar(&b.moe.topK, "top-k", 8, "experts per token")
	b.memory = memoryFlag(fs)
	b.out.flags(fs)
}

// measured returns the values of -transport: copy, and all transports except auto.
func measured() []string {
	var names []string
	for _, t := range world.Transports() {
		if t.Name != "auto" {
			names = append(names, t.Name)
		}
	}
	return append(names, "copy")
}

func (b *collectives) check() error {
	b.o.Min, b.o.Max = int64(b.min), int64(b.max)
	b.transports = strings.Split(cmp.Or(b.transport, usualTransports), ",")
	for _, t := range b.transports {
		if !slices.Contains(measured(), t) {
			return usagef("-transport: there is no transport %s, want some of %s", quoted.Text(t), strings.Join(measured(), ", "))
		}
		if err := world.Has(t); t != "copy" && err != nil {
			return fmt.Errorf("-transport: %w", err)
		}
	}
	if b.ops != "" {
		b.o.Ops = strings.Split(b.ops, ",")
	}
	if b.ranks < 1 {
		return usagef("-n %d: want at least 1", b.ranks)
	}
	if err := b.o.Check(); err != nil {
		return &usageError{err}
	}
	if err := b.moe.check(b.ranks); err != nil {
		return err
	}
	// In a collective, each rank has a send buffer and a receive buffer. In the exchange of a
	// layer, the ranks hold all tokens, which also exist once as a whole array, and one row per
	// choice of a token before, during and after the exchange.
	for _, need := range []struct {
		flags string
		bytes float64
	}{
		{fmt.Sprintf("-max %v", &b.max), 2 * float64(b.max) * float64(b.ranks)},
		{fmt.Sprintf("-tokens %d -hidden %d -top-k %d", b.moe.tokens, b.moe.width, b.moe.topK), 2 * float64(b.moe.tokens) * float64(b.ranks) * float64(b.moe.width) * float64(2+3*b.moe.topK)},
	} {
		if need.bytes > float64(*b.memory) {
			return usagef("%s: %s would need about %s, and -memory allows %v", need.flags, plural(b.ranks, "rank"), memory.Format(need.bytes), b.memory)
		}
	}
	return nil
}

// measure runs every transport in turn.
func (b *collectives) measure(ctx context.Context) error {
	if err := b.out.open(); err != nil {
		return err
	}
	defer b.out.close()
	var rows []measure.Row
	var failed error
	report := func(r measure.Row) {
		rows = append(rows, r)
		if err := b.out.print(r); err != nil && failed == nil {
			failed = err
		}
	}
	for _, t := range b.transports {
		if err := b.start(ctx, t, report); err != nil {
			return fmt.Errorf("transport %s: %w", t, err)
		}
		if failed != nil {
			return failed
		}
	}
	return b.save(rows)
}

func (b *collectives) save(rows []measure.Row) error {
	return b.out.save(
		func(w io.Writer) error { return jsonRows(w, rows) },
		func(w io.Writer) error { return measure.Plot(w, rows) })
}

// benchOutput writes the rows of a measurement: to standard output, as text or, with -json -, as
// JSON, and to files.
type benchOutput struct {
	stdout      io.Writer
	header      string
	begun       bool
	json, plot  string // flags
	rows, image *whole.File
}

func (o *benchOutput) flags(fs *flag.FlagSet) {
	fs.StringVar(&o.json, "json", "", "`file` for the rows, one JSON object per line; - is standard output, and prints nothing else")
	fs.StringVar(&o.plot, "plot", "", "`file` for a plot, a PNG")
}

// open creates the files before measuring, so that an unwritable path fails early. The caller must
// call close.
func (o *benchOutput) open() (err error) {
	if o.json != "" && o.json != "-" {
		if o.rows, err = whole.Create(o.json); err != nil {
			return fmt.Errorf("-json: %w", err)
		}
	}
	if o.plot != "" {
		if err := whole.Apart(o.plot, o.json); err != nil {
			return fmt.Errorf("-plot: %w", err)
		}
		if o.image, err = whole.Create(o.plot); err != nil {
			return fmt.Errorf("-plot: %w", err)
		}
	}
	return nil
}

// print prints a row, preceded by the header if it is the first.
func (o *benchOutput) print(row interface{ JSON(io.Writer) error }) error {
	if o.json == "-" {
		return row.JSON(o.stdout)
	}
	if !o.begun {
		o.begun = true
		fmt.Fprintln(o.stdout, o.header)
	}
	_, err := fmt.Fprintln(o.stdout, row)
	return err
}

// save writes the files.
func (o *benchOutput) save(json, plot func(io.Writer) error) error {
	for _, f := range []struct {
		flag  string
		file  *whole.File
		write func(io.Writer) error
	}{{"-json", o.rows, json}, {"-plot", o.image, plot}} {
		if f.file == nil {
			continue
		}
		if err := f.write(f.file); err != nil {
			return fmt.Errorf("%s: %w", f.flag, err)
		}
		if err := f.file.Close(); err != nil {
			return fmt.Errorf("%s: %w", f.flag, err)
		}
	}
	return nil
}

// close drops files that were not saved.
func (o *benchOutput) close() {
	for _, f := range []*whole.File{o.rows, o.image} {
		if f != nil {
			f.Discard()
		}
	}
}

// jsonRows writes rows as JSON, one per line.
func jsonRows[R interface{ JSON(io.Writer) error }](w io.Writer, rows []R) error {
	for _, r := range rows {
		if err := r.JSON(w); err != nil {
			return err
		}
	}
	return nil
}
