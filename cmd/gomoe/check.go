package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/vjp"
)

func (t *tool) checkCommand() *ffcli.Command {
	fs := t.flags("check")
	given, limit := newInputs(fs), memoryFlag(fs)
	wrt := fs.String("wrt", "", "`inputs` to check, such as x,w; none is every input of float type")
	opts := vjp.CheckOptions{}
	seed := optional{n: 1, set: true}
	fs.Var(&seed, "seed", "`number` that random inputs and cotangents follow from")
	fs.Float64Var(&opts.Step, "step", 1e-5, "distance of the differences, relative to the larger of 1 and the element")
	fs.Float64Var(&opts.Tolerance, "tol", 1e-6, "largest error, relative to the larger of 1 and the largest derivative of the input")
	fs.IntVar(&opts.Elements, "elements", 0, "most elements to perturb per input, chosen at random; 0 is all")
	asJSON := fs.Bool("json", false, "print the outcome as JSON")
	kernelsFlag(fs)
	var device string
	deviceFlag(fs, &device)
	return &ffcli.Command{
		Name: "check", ShortUsage: "gomoe check FILE [-wrt x,w] [-in x=x.npy ...]",
		ShortHelp: "Compare derivatives with central differences.", FlagSet: fs,
		LongHelp: "Inputs that are not given are random: floats in [-1, 1), integers 0. All float types\nare widened to f64 for the check, since differences in f32 are too coarse. The exit\nstatus is 1 if a derivative is wrong. The plans that compute all of it are checked after\nevery pass (see gomoe plan -passes): who writes what when, memory, collectives. With -device, what that computes in the\nprogram's own types, results and derivatives, is compared with the host, too.",
		Exec: func(ctx context.Context, args []string) (err error) {
			path, err := operand(fs, args)
			if err != nil {
				return err
			}
			switch {
			case !(opts.Step > 0 && opts.Step < 1):
				return usagef("-step %g, want more than 0 and less than 1", opts.Step)
			case !(opts.Tolerance > 0):
				return usagef("-tol %g, want more than 0", opts.Tolerance)
			case opts.Elements < 0:
				return usagef("-elements %d, want at least 0, which is all", opts.Elements)
			}
			p, err := t.program(ctx, path)
			if err != nil {
				return err
			}
			opts.Wrt, opts.Seed = list(*wrt), seed.n
			if err := wanted(p, opts.Wrt); err != nil {
				return in(path, err)
			}
			x, err := given.read(path, p)
			if err != nil {
				return err
			}
			c := checkRun{tool: t, path: path, p: p, limit: *limit, opts: opts, json: *asJSON, device: device, cfg: gomoe.Config{Check: true}}
			end, err := openDevice(ctx, device, &c.cfg)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, end()) }()
			return c.run(ctx, x)
		},
	}
}

// checkRun holds the flags of gomoe check.
type checkRun struct {
	*tool
	path  string
	p     *graph.Program
	limit size
	opts  vjp.CheckOptions
	json  bool
	// device is the name of the device to compare with the host, "" for none. cfg has the open
	// device.
	device string
	cfg    gomoe.Config
	jobs   []*gomoe.Job
}

func (c *checkRun) run(ctx context.Context, x map[string]array.Array) error {
	q, err := graph.Promote(c.p, graph.F64)
	if err != nil {
		return in(c.path, fmt.Errorf("the program cannot be checked in f64: %w", err))
	}
	defer func() {
		for _, j := range c.jobs {
			j.Close()
		}
	}()
	var widened []string
	for i, v := range c.p.In {
		if a, ok := x[v.Name]; ok {
			x[v.Name] = a.As(q.In[i].Type.DType)
		}
		if !v.Type.Equal(q.In[i].Type) {
			widened = append(widened, v.Name+" "+v.Type.String())
		}
	}
	if _, err := c.open(ctx, q); err != nil { // fails before allocating the inputs
		return err
	}
	complete(q, x, c.opts.Seed)
	rep, err := vjp.Check(ctx, q, x, func(p *graph.Program) (vjp.Eval, error) { return c.eval(ctx, p) }, c.opts)
	if err != nil {
		return in(c.path, err)
	}
	ok := rep.OK()
	var there *deviceCheck
	if c.cfg.Device != nil {
		if there, err = c.onDevice(ctx, x); err != nil {
			return err
		}
		ok = ok && there.OK
	}
	if c.json {
		report := outcome(rep, widened)
		report.OK, report.Device = ok, there
		err = printJSON(c.stdout, report)
	} else {
		if widened != nil {
			fmt.Fprintf(c.stdout, "checked in f64 in place of %s\n", strings.Join(widened, ", "))
		}
		fmt.Fprint(c.stdout, rep)
		if there != nil {
			fmt.Fprint(c.stdout, there)
		}
	}
	if err == nil && !ok {
		err = errReported
	}
	return err
}

func (c *checkRun) open(ctx context.Context, p *graph.Program) (*gomoe.Job, error) {
	j, err := open(ctx, c.path, p, gomoe.Config{Check: true}, c.limit)
	if err == nil {
		c.jobs = append(c.jobs, j)
	}
	return j, err
}

// eval is the check's vjp.Runner.
func (c *checkRun) eval(ctx context.Context, p *graph.Program) (vjp.Eval, error) {
	j, err := c.open(ctx, p)
	if err != nil {
		return nil, err
	}
	return j.Step, nil
}

// checkJSON is the output of check -json. Numbers that are not finite are strings.
type checkJSON struct {
	Program string      `json:"program"`
	OK      bool        `json:"ok"`
	Widened []string    `json:"widened"` // inputs checked in f64 instead of their own type
	Inputs  []inputJSON `json:"inputs"`
	// Device is the result of -device.
	Device *deviceCheck `json:"device,omitempty"`
}

type inputJSON struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Checked  int    `json:"checked"`
	Rerouted int    `json:"rerouted"`
	Via      string `json:"via,omitempty"`
	Index    []int  `json:"index"` // index of the worst element
	Analytic number `json:"analytic"`
	Numeric  number `json:"numeric"`
	Error    number `json:"error"`
	Bound    number `json:"bound"`
	OK       bool   `json:"ok"`
}

func outcome(r *vjp.Report, widened []string) checkJSON {
	out := checkJSON{Program: r.Program, OK: r.OK(), Widened: append([]string{}, widened...)}
	for _, i := range r.Inputs {
		out.Inputs = append(out.Inputs, inputJSON{i.Name, i.Type, i.Checked, i.Rerouted, i.Via,
			append([]int{}, i.Worst.Index...), number(i.Worst.Analytic), number(i.Worst.Numeric), number(i.Worst.Error), number(i.Bound), i.OK})
	}
	return out
}
