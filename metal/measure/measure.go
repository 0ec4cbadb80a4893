package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/metal/counts"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/runtime"
)

// Options are the settings of a measurement.
type Options struct {
	Runs int // timed runs per instruction, after one warm-up run; 0 means 5
	// Count reports the kernels' work instead of their time: each instruction runs once, and rows have
	// Counts and no times. The device must support counting.
	Count bool
	// Tensors measures only instructions using tensor operations. The device must have them; see
	// TensorCases.
	Tensors bool
}

func (o Options) runs() int {
	if o.Count {
		return 0
	}
	if o.Runs < 1 {
		return 5
	}
	return o.Runs
}

// counter is a device counting its kernels' work.
type counter interface {
	Counts() (done counts.Device, ok bool)
}

// Run measures the cases on the device. It reports one row for each instruction served by the case's
// kernels, and only one per case for instructions with the same kernel and types. Errors name the case.
// Run blocks until the last case is done or ctx ends.
func Run(ctx context.Context, d runtime.Device, cases []Case, o Options, report func(Row)) error {
	if o.Count {
		if c, ok := d.(counter); !ok {
			return fmt.Errorf("measure: the device %T does not count", d)
		} else if _, ok := c.Counts(); !ok {
			return errors.New("measure: only an emulated GPU counts")
		}
	}
	for _, c := range cases {
		rows, err := c.run(ctx, d, o)
		if err != nil {
			return fmt.Errorf("measure: %s: %w", c.Name, err)
		}
		for _, r := range rows {
			report(r)
		}
	}
	return nil
}

// run measures one program.
func (c Case) run(ctx context.Context, d runtime.Device, o Options) (rows []Row, err error) {
	w := &watcher{device: d}
	cfg := c.config
	cfg.Target = d
	cfg.Observe, cfg.Poison = w, true // so that unwritten elements are detected
	job, err := gomoe.Open(ctx, c.Program, cfg)
	if err != nil {
		return nil, err
	}
	defer job.Close()
	plan := job.Plan()
	queues := map[*lowering.Plan]runtime.Queue{}
	defer func() {
		for _, q := range queues {
			if cerr := q.Close(); err == nil {
				err = cerr
			}
		}
		w.free()
	}()
	for _, p := range plan.Plans() {
		q, err := d.Open(ctx, p, 0)
		if err != nil {
			return nil, err
		}
		queues[p] = q
		q.Spans() // recording starts with this call
	}
	w.alone = func(at at, bufs []array.Array) (wall, gpu time.Duration, err error) {
		return alone(ctx, queues[at.plan], at.index, bufs)
	}
	if o.Count {
		w.counter, _ = d.(counter)
	}
	if w.tasks, w.order, err = c.tasks(plan, o.Tensors); err != nil {
		return nil, err
	}
	given, err := c.inputs()
	if err != nil {
		return nil, err
	}
	placed := map[string]*runtime.Array{}
	for name, a := range given {
		if placed[name], err = job.Put(name, a); err != nil {
			return nil, err
		}
	}
	for range o.runs() + 1 {
		out, err := job.Run(ctx, placed)
		if err == nil {
			err = w.err
		}
		if err != nil {
			return nil, err
		}
		job.Recycle(out...)
	}
	for _, at := range w.order {
		rows = append(rows, w.tasks[at].result())
	}
	return rows, nil
}

// TensorCases returns the cases having instructions that use tensor operations on a GPU with tensor
// operations.
func TensorCases(cases []Case) (some []Case, err error) {
	for _, c := range cases {
		cfg := c.config
		cfg.Target = kernels.Metal{}
		plan, err := gomoe.Compile(context.Background(), c.Program, cfg)
		if err != nil {
			return nil, fmt.Errorf("measure: %s: %w", c.Name, err)
		}
		tasks, _, err := c.tasks(plan, true)
		if err != nil {
			return nil, fmt.Errorf("measure: %s: %w", c.Name, err)
		}
		if len(tasks) > 0 {
			some = append(some, c)
		}
	}
	return some, nil
}

// tasks returns the instructions to measure, of the plan and of its loops' bodies, and their order: all,
// or only instructions using tensor operations. The error names a kernel of the case serving no
// instruction.
func (c Case) tasks(plan *lowering.Plan, tensors bool) (tasks map[at]*task, order []at, err error) {
	tasks = map[at]*task{}
	seen, serves := map[string]bool{}, map[string]bool{}
	for _, plan := range plan.Plans() {
		for i := range plan.Instrs {
			if !plan.Instrs[i].On {
				continue
			}
			in := kernels.Of(plan, i, 0)
			in.Tensors = tensors
			p, k, err := kernels.Build(in)
			if err != nil {
				return nil, nil, err
			}
			t := &task{in: in, tolerance: k.Tolerance, row: Row{Case: c.Name, Kernel: k.Name, Instruction: title(in), Shape: types(in)}}
			if p.Tolerance != nil {
				t.tolerance = *p.Tolerance
			}
			id := k.Name + " " + t.row.Instruction + " " + t.row.Shape
			if !slices.Contains(c.Kernels, k.Name) || seen[id] || tensors && !p.Tensors() {
				continue
			}
			if tensors {
				t.row.Case += ", tensors"
			}
			seen[id], serves[k.Name] = true, true
			tasks[at{plan, i}] = t
			order = append(order, at{plan, i})
		}
	}
	for _, k := range c.Kernels {
		if !serves[k] && !tensors {
			return nil, nil, fmt.Errorf("no instruction is served by the kernel %s", k)
		}
	}
	return tasks, order, nil
}

// title returns the name of an instruction; a fused one is named by its parts.
func title(in *kernels.Instr) string {
	if len(in.Chain) == 0 {
		return in.Name()
	}
	var parts []string
	for i := range in.Chain {
		parts = append(parts, in.Chain[i].Name())
	}
	return strings.Join(parts, "+")
}

// types lists the types of arguments and results.
func types(in *kernels.Instr) string {
	list := func(all []kernels.Operand) string {
		var s []string
		for _, o := range all {
			s = append(s, o.Type.String())
		}
		return strings.Join(s, ", ")
	}
	return list(in.Args) + " -> " + list(in.Results)
}

// alone runs one instruction of the queue's plan and waits for it.
func alone(ctx context.Context, q runtime.Queue, i int, bufs []array.Array) (wall, gpu time.Duration, err error) {
	began := time.Now()
	if err := q.Encode(i, bufs); err != nil {
		return 0, 0, err
	}
	ticket, err := q.Commit()
	if err != nil {
		return 0, 0, err
	}
	if err := q.Wait(ctx, ticket); err != nil {
		return 0, 0, err
	}
	wall = time.Since(began)
	for _, s := range q.Spans() {
		gpu += s.To.Sub(s.From)
	}
	return wall, gpu, nil
}
