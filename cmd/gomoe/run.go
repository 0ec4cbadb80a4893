package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/world"
)

func (t *tool) runCommand() *ffcli.Command {
	fs := t.flags("run")
	place, given, limit := newPlacing(fs, true), newInputs(fs), memoryFlag(fs)
	place.overlapFlag(fs)
	place.deviceFlag(fs)
	var seed optional
	fs.Var(&seed, "random", "fill the inputs that are not given from this `seed`: floats and weights in [-1, 1), integers 0")
	out := fs.String("out", "", "`directory` for the results, each as name.npy")
	trace := fs.String("trace", "", "`file` for a trace of every rank, for Perfetto or chrome://tracing")
	finite := fs.Bool("finite", false, "stop at the first kernel that makes a NaN or an infinity")
	deadline := world.DeadlineFlag(fs)
	kernelsFlag(fs)
	return &ffcli.Command{
		Name: "run", ShortUsage: "gomoe run FILE -in x=x.npy ... [-out DIR] [-mesh ep=4 -place x=ep ...]",
		ShortHelp: "Run a program on .npy files.", FlagSet: fs,
		LongHelp: "Prints one line per result: name, type with placement, and elements or their range.\nResults that hold a NaN or an infinity are reported with the kernel that made it.",
		Exec: func(ctx context.Context, args []string) (err error) {
			path, err := operand(fs, args)
			if err != nil {
				return err
			}
			// Every rank of a job would run all ranks, each writing the same files.
			job, err := environ.Detect(os.Getenv)
			if err != nil {
				return err
			}
			if job.Size > 1 {
				return fmt.Errorf("this process is rank %d of %d, as %s say, and a run has all its ranks in one process; start it without a launcher", job.Rank, job.Size, strings.Join(job.Source, " "))
			}
			p, err := t.program(ctx, path)
			if err != nil {
				return err
			}
			cfg, err := place.config(path, p)
			if err != nil {
				return err
			}
			cfg.Finite, cfg.Deadline = *finite, *deadline
			if cfg.Deadline == 0 {
				if cfg.Deadline, err = environ.Deadline(os.Getenv); err != nil {
					return err
				}
			}
			if err := given.known(path, p); err != nil {
				return err
			}
			if !seed.set {
				if err := missing(path, p, given.files); err != nil {
					return err
				}
			}
			x, err := given.read(path, p)
			if err != nil {
				return err
			}
			end, err := openDevice(ctx, place.device, &cfg)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, end()) }()
			r := runner{tool: t, path: path, p: p, cfg: cfg, limit: *limit, out: *out, trace: *trace, inputs: []string{read(path)}}
			for _, file := range given.files.value {
				r.inputs = append(r.inputs, file)
			}
			return r.run(ctx, x, seed)
		},
	}
}

// runner holds the flags of gomoe run.
type runner struct {
	*tool
	path       string
	p          *graph.Program
	cfg        gomoe.Config
	limit      size
	out, trace string
	inputs     []string // files read
}

func (r *runner) run(ctx context.Context, x map[string]array.Array, seed optional) (err error) {
	if r.out != "" { // fails before computing
		for i, v := range r.p.Out {
			if v.Type.DType.IsBlock() {
				return in(r.path, fmt.Errorf("-out: result %d of %s is %s, and .npy files hold no blocks; return its convert_element_type to f32, or leave -out away", i, r.p.Name, v.Type))
			}
		}
		if err := os.MkdirAll(r.out, 0o777); err != nil {
			return fmt.Errorf("-out: %w", err)
		}
	}
	if r.trace != "" {
		if err := whole.Apart(r.trace, r.inputs...); err != nil {
			return fmt.Errorf("-trace: %w", err)
		}
		if r.cfg.Trace, err = runtime.CreateTrace(r.trace); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.cfg.Trace.Close()) }()
	}
	j, err := open(ctx, r.path, r.p, r.cfg, r.limit)
	if err != nil {
		return err
	}
	defer j.Close()
	for _, port := range j.Plan().Out {
		if r.out == "" {
			break
		}
		if err := whole.ApartIn(r.out, []string{fileOf(port.Name) + ".npy"}, append(r.inputs, r.trace)...); err != nil {
			return fmt.Errorf("-out: result %s: %w", port.Name, err)
		}
	}
	if seed.set {
		complete(r.p, x, seed.n)
	}
	res, err := j.Step(ctx, x)
	if err != nil {
		return in(r.path, err)
	}
	wild := false
	for i, a := range res {
		port := j.Plan().Out[i]
		fmt.Fprintf(r.stdout, "%s %s  %s\n", graph.Shown(port.Name), port.Spec.Format(port.Type), preview(a))
		wild = wild || nonFinite(a).any()
		if r.out == "" {
			continue
		}
		if err := array.WriteFile(filepath.Join(r.out, fileOf(port.Name)+".npy"), a); err != nil {
			return fmt.Errorf("-out: result %s: %w", port.Name, err)
		}
	}
	if wild {
		return r.blame(ctx, x)
	}
	return nil
}

// blame reruns the program and prints the first kernel producing a NaN or an infinity.
func (r *runner) blame(ctx context.Context, x map[string]array.Array) error {
	for _, v := range r.p.In {
		if n := nonFinite(x[v.Name]); n.any() {
			fmt.Fprintf(r.stdout, "input %s has %s\n", v.Name, n)
		}
	}
	cfg := r.cfg
	cfg.Finite, cfg.Trace = true, nil
	_, err := gomoe.Run(ctx, r.p, cfg, x)
	var nf *runtime.NotFiniteError
	switch {
	case errors.As(err, &nf):
		fmt.Fprintf(r.stdout, "first made here: %v\n", err)
		return nil
	case err != nil:
		return in(r.path, err)
	}
	fmt.Fprintln(r.stdout, "no kernel makes one from finite arguments: they come from the inputs or from constants")
	return nil
}

// counted counts the NaNs and infinities among the elements of an array.
type counted struct{ nan, inf, of int }

func (c counted) any() bool { return c.nan+c.inf > 0 }

func (c counted) String() string {
	var s []string
	if c.nan > 0 {
		s = append(s, fmt.Sprintf("%d NaN", c.nan))
	}
	if c.inf > 0 {
		s = append(s, fmt.Sprintf("%d infinite", c.inf))
	}
	return fmt.Sprintf("%s of %d elements", strings.Join(s, " and "), c.of)
}

func nonFinite(a array.Array) counted {
	c := counted{of: a.Type.Len()}
	if d := a.Type.DType; !d.IsFloat() && !d.IsF8() && !d.IsBlock() {
		return c
	}
	for _, x := range a.Float64s() {
		switch {
		case math.IsNaN(x):
			c.nan++
		case math.IsInf(x, 0):
			c.inf++
		}
	}
	return c
}

// shown is the number of elements up to which preview prints all.
const shown = 16

// preview describes an array in one line: its elements if there are few,
// otherwise their range and mean.
func preview(a array.Array) string {
	n := a.Type.Len()
	if a.Type.DType.IsBlock() {
		a = a.As(graph.F32)
	}
	if n <= shown {
		flat := a
		if a.Type.Rank() > 1 {
			flat = a.Reshape(n)
		}
		_, elements, _ := strings.Cut(flat.String(), " ")
		return elements
	}
	x := a.Float64s()
	lo, hi, sum, count := math.Inf(1), math.Inf(-1), 0.0, 0
	for _, v := range x {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			lo, hi, sum, count = min(lo, v), max(hi, v), sum+v, count+1
		}
	}
	if a.Type.DType == graph.Bool {
		return fmt.Sprintf("%g of %d elements are true", sum, n)
	}
	s := "no finite element"
	if count > 0 {
		s = fmt.Sprintf("%.4g to %.4g, mean %.4g", lo, hi, sum/float64(count))
	}
	if c := nonFinite(a); c.any() {
		s += "; " + c.String()
	}
	return s
}
