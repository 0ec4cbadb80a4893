package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/internal/device"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/metal/measure"
)

// kernelTimes holds the flags of gomoe bench kernels.
type kernelTimes struct {
	*tool
	device, only string
	small        bool
	o            measure.Options
	out          benchOutput
}

func (t *tool) benchKernelsCommand() *ffcli.Command {
	fs := t.flags("bench kernels")
	b := &kernelTimes{tool: t, out: benchOutput{stdout: t.stdout, header: measure.Header()}}
	fs.StringVar(&b.device, "device", "metal", "`device` to compare with the host: metal (Apple's GPU), or metal-emulated (the same kernels on this processor; its times are meaningless)")
	fs.StringVar(&b.only, "only", "", "`kernels` to measure, with commas between; all if not given: gomoe kernels lists them")
	fs.BoolVar(&b.small, "small", false, "tiny shapes, which an emulated GPU does in seconds")
	fs.BoolVar(&b.o.Count, "count", false, "count the kernels' operations on the emulated GPU instead of timing them, and print the roofline times of Apple's GPUs")
	fs.IntVar(&b.o.Runs, "runs", 5, "timed `runs` per instruction, after one warm-up run")
	b.out.flags(fs)
	kernelsFlag(fs)
	return &ffcli.Command{
		Name: "kernels", ShortUsage: "gomoe bench kernels [-device metal] [-only dot_general,rope] [-small] [flags]", FlagSet: fs,
		ShortHelp: "Time the GPU's kernels and the host's, and compare their results.",
		LongHelp: "Runs programs at the shapes of a small language model in training (1024 tokens of 512 numbers,\n8 experts of 1024, a vocabulary of 32000, 8 heads of 64), and of a single token as in generation.\n" +
			"Each instruction that a kernel serves is done by the host and then, on the same arguments, by the\ndevice. A line has the medians: the host's time, the device's as the host sees it (wall), and as the\n" +
			"GPU counts it (gpu), of which the ratio and what follows are: GFLOP/s of products and attention, and\nGB/s of what is read and written at the least. diff is the largest difference from the host's result,\n" +
			"of tol how much of the kernel's tolerance it takes, about 1 where f16 or bf16 is rounded to the number\nbeside the host's; what takes more than 1 is WRONG, and makes the exit status 1.\n\n" +
			"With -count a line says what the kernels of an instruction do on the emulated GPU, at the shapes of\n128 tokens and of one: dispatches and barriers between them; bytes of device memory that threads load,\n" +
			"the same with each byte once, and bytes written; bytes of threadgroup memory read and written;\nmultiply-adds of simdgroup matrices of 16 and 32 bits, and of tensor operations; arithmetic operations\n" +
			"of threads; and the least time in microseconds on each of four GPUs, with m, a or t for what bounds it:\nmemory, arithmetic or threadgroup memory. Cases whose names end in tensors are what the M5 does\ninstead, whose neural accelerators take tensor operations.",
		Exec: func(ctx context.Context, args []string) error {
			if rest, err := operands(fs, args); err != nil || len(rest) > 0 {
				if err == nil {
					err = usagef("arguments %s, want flags only", quoted.List(rest))
				}
				return err
			}
			return b.run(ctx)
		},
	}
}

func (b *kernelTimes) run(ctx context.Context) (err error) {
	if b.o.Runs < 1 {
		return usagef("-runs %d: want at least 1", b.o.Runs)
	}
	if b.o.Count {
		if b.out.plot != "" {
			return usagef("-plot: there are no times to plot with -count")
		}
		b.device, b.out.header = device.Emulated, measure.CountHeader()
	}
	switch target, err := gomoe.TargetOf(b.device); {
	case err != nil:
		return usagef("-device: %w", err)
	case target == nil:
		return usagef("-device %s: the host is measured anyway; want metal or metal-emulated", b.device)
	}
	sizes := measure.Model()
	if b.o.Count {
		sizes = measure.Counted()
	}
	if b.small {
		sizes = measure.Small()
	}
	var names []string
	if b.only != "" {
		names = strings.Split(b.only, ",")
	}
	for _, n := range names {
		if !isKernel(n) {
			return usagef("-only: there is no kernel %s; gomoe kernels lists them", quoted.Text(n))
		}
	}
	cases, err := measure.Cases(sizes, names...)
	if err != nil {
		return err
	}
	if err := b.out.open(); err != nil {
		return err
	}
	defer b.out.close()
	open := gomoe.OpenDevice
	if b.o.Count {
		open = func(ctx context.Context, _ string) (gomoe.Device, error) { return device.Open(ctx, device.Counting) }
	}
	d, err := open(ctx, b.device)
	if err != nil {
		return fmt.Errorf("-device: %w", err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	rows, err := b.measure(ctx, d, cases)
	if err != nil {
		return err
	}
	if b.o.Count {
		more, err := b.tensors(ctx, cases)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	err = b.out.save(
		func(w io.Writer) error { return jsonRows(w, rows) },
		func(w io.Writer) error { return measure.Plot(w, rows) })
	if err != nil {
		return err
	}
	return verdict(rows)
}

// tensors counts the tensor operations of the cases, on a GPU that has them.
func (b *kernelTimes) tensors(ctx context.Context, cases []measure.Case) (rows []measure.Row, err error) {
	if cases, err = measure.TensorCases(cases); err != nil || len(cases) == 0 {
		return nil, err
	}
	d, err := device.Open(ctx, device.CountingTensors)
	if err != nil {
		return nil, fmt.Errorf("-count: %w", err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	b.o.Tensors = true
	return b.measure(ctx, d, cases)
}

// verdict returns an error if rows have wrong results, nil otherwise.
func verdict(rows []measure.Row) error {
	wrong, kernels := 0, []string{}
	for _, r := range rows {
		if r.Wrong() {
			wrong++
			if !slices.Contains(kernels, r.Kernel) {
				kernels = append(kernels, r.Kernel)
			}
		}
	}
	if wrong == 0 {
		return nil
	}
	return fmt.Errorf("%d of %s farther from the host's results than the kernels' tolerance: %s", wrong, plural(len(rows), "instruction"), strings.Join(kernels, ", "))
}

func isKernel(name string) bool {
	for _, k := range kernels.All() {
		if k.Name == name {
			return true
		}
	}
	return false
}

func (b *kernelTimes) measure(ctx context.Context, d gomoe.Device, cases []measure.Case) (rows []measure.Row, err error) {
	var failed error
	err = measure.Run(ctx, d, cases, b.o, func(r measure.Row) {
		rows = append(rows, r)
		if err := b.out.print(r); err != nil && failed == nil {
			failed = err
		}
	})
	return rows, errors.Join(err, failed)
}
