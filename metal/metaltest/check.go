package metaltest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/runtime"
)

// Options are the expectations of a Check.
type Options struct {
	// Instructions are names of instructions of the plan. Each must have been compared at least
	// once. If there are no names, at least one instruction must have been compared.
	Instructions []string
	// Fails, if not empty, is part of the expected error of the step. The device must report an
	// error containing it too, for the same instruction.
	Fails string
	// Seed is the seed of the random order of threads.
	Seed uint64
}

// Check runs p once, on inputs by name, and compares each instruction's results on the emulated GPU
// with the host's. It skips the test if there is no compiler for the emulated GPU.
func Check(t testing.TB, p *graph.Program, cfg gomoe.Config, in map[string]array.Array, o Options) {
	t.Helper()
	check(t, p, cfg, in, o, real())
}

// backend is the source of the compared programs and libraries.
type backend struct {
	target lowering.Target
	build  func(*kernels.Instr) (*kernels.Program, *kernels.Kernel, error)
	// For tests of Check itself: edit, if not nil, changes each library's source, and modes are the
	// modes to run it in, all modes if there are none.
	edit  func(source string) string
	modes []mode
	// tensors makes products use tensor operations.
	tensors bool
}

// real returns the backend with the programs run by devices.
func real() backend { return backend{target: kernels.Metal{}, build: kernels.Build} }

// CheckTensors is Check on a GPU with tensor operations.
func CheckTensors(t testing.TB, p *graph.Program, cfg gomoe.Config, in map[string]array.Array, o Options) {
	t.Helper()
	check(t, p, cfg, in, o, withTensors())
}

// withTensors returns the backend with the programs run by a GPU with tensor operations.
func withTensors() backend {
	from := real()
	from.tensors = true
	from.build = func(in *kernels.Instr) (*kernels.Program, *kernels.Kernel, error) {
		in.Tensors = true
		return kernels.Build(in)
	}
	return from
}

// check returns the counts, if from has the mode for counting.
func check(t testing.TB, p *graph.Program, cfg gomoe.Config, in map[string]array.Array, o Options, from backend) []Work {
	t.Helper()
	if err := shared().err; err != nil {
		t.Skip(err)
	}
	cfg.Target = from.target
	obs := &observer{t: t, ways: ways(from.modes), options: o, done: map[string]int{}, open: map[int]*memory{}, last: map[int]runtime.Observed{}}
	cfg.Observe, cfg.Poison = obs, true
	job, err := gomoe.Open(t.Context(), p, cfg)
	require.NoError(t, err)
	defer job.Close()
	obs.plan = job.Plan()
	obs.work, err = programs(obs.plan, from)
	require.NoError(t, err)
	if obs.libs, err = build(t.Context(), obs.work, from); err != nil {
		t.Errorf("building: %v", err)
		return nil
	}
	_, err = job.Step(t.Context(), in)
	switch {
	case o.Fails == "" && err == nil:
	case err == nil:
		t.Errorf("the step has no error, want one with %q", o.Fails)
	case o.Fails == "" || !strings.Contains(err.Error(), o.Fails):
		t.Errorf("the step's error is %q, want %q", err, o.Fails)
	default:
		obs.compareFaults()
	}
	for _, m := range obs.open {
		if err := m.close(); err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		return nil
	}
	obs.compared(t)
	return obs.counts
}

// compared reports instructions that should have been compared and were not.
func (o *observer) compared(t testing.TB) {
	t.Helper()
	want := o.options.Instructions
	if len(want) == 0 && len(o.done) == 0 {
		t.Errorf("no instruction was compared:\n%s", o.hosts())
	}
	for _, name := range want {
		if o.done[name] == 0 {
			t.Errorf("instruction %s was not compared:\n%s", name, o.hosts())
		}
	}
}

// hosts lists the instructions of the plan, and of the bodies of its loops, each with the reason
// for running it on the host, if it does.
func (o *observer) hosts() string {
	var lines []string
	for _, plan := range o.plan.Plans() {
		for i := range plan.Instrs {
			in := &plan.Instrs[i]
			why := in.Why
			switch {
			case in.On:
				why = "the device"
			case in.Communicates():
				why = "a collective"
			}
			lines = append(lines, fmt.Sprintf("  %s: %s", in.Name(), why))
		}
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

// at names an instruction on a rank. It includes the instruction's plan, which may be a loop's
// body: each rank may have a plan of its own (see lowering.Plan.On), but all have the same
// instructions.
type at struct {
	instr       *lowering.Instr
	rank, index int
}

func atOf(p *lowering.Plan, rank, index int) at { return at{&p.Instrs[index], rank, index} }

func (a at) String() string {
	return fmt.Sprintf("instruction %d (%s) on rank %d", a.index, a.instr.Name(), a.rank)
}

// task is the device's work for an instruction.
type task struct {
	program *kernels.Program
	kernel  *kernels.Kernel
}

// programs returns the work of each rank's device for each of its instructions.
func programs(plan *lowering.Plan, from backend) (map[at]task, error) {
	work := map[at]task{}
	for _, plan := range plan.Plans() {
		for i := range plan.Instrs {
			if !plan.Instrs[i].On {
				continue
			}
			for rank := range plan.Mesh.Ranks() {
				at := atOf(plan, rank, i)
				p, k, err := from.build(kernels.Of(plan, i, rank))
				if err != nil {
					return nil, fmt.Errorf("%s: %w", at, err)
				}
				w := task{p, k}
				if err := w.declared(); err != nil {
					return nil, fmt.Errorf("%s: %w", at, err)
				}
				work[at] = w
			}
		}
	}
	return work, nil
}

// function returns the index of the launch's function among the kernel's functions; -1 for a
// generated function.
func (w task) function(l kernels.Launch) int {
	if l.Source.File == "" {
		return -1
	}
	return slices.IndexFunc(w.kernel.Functions, func(f kernels.Function) bool { return f.Name == l.Function })
}

// tolerance is the accepted difference between the results and the host's.
func (w task) tolerance() kernels.Tolerance {
	if w.program.Tolerance != nil {
		return *w.program.Tolerance
	}
	return w.kernel.Tolerance
}

// declared returns an error if a launch of a function in a file is not among the functions listed
// by the kernel, or exceeds the threads or memory listed for it.
func (w task) declared() error {
	p, k := w.program, w.kernel
	for _, l := range p.Launches {
		if l.Source.File == "" {
			continue
		}
		i := w.function(l)
		if i < 0 {
			return fmt.Errorf("kernel %s launches %s, which is not one of its Functions", k.Name, l.Function)
		}
		f := k.Functions[i]
		memory := 0
		for _, n := range l.Memory {
			memory += n
		}
		if threads := l.Threads[0] * l.Threads[1] * l.Threads[2]; threads > f.Threads || memory > f.Memory {
			return fmt.Errorf("kernel %s launches %s with %d threads and %d bytes, want at most %d and %d as its Functions say", k.Name, l.Function, threads, memory, f.Threads, f.Memory)
		}
	}
	return nil
}
