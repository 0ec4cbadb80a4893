package gomoe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/exact"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/internal/optimize"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/world"
)

// Config says where and how a program runs. The zero Config is one rank.
type Config struct {
	// World is the job of several processes that the program runs in, with this
	// process's ranks of it. Its Setup comes before Open. With nil, and in a World that
	// is in process, all ranks are this process's.
	World *world.World
	Mesh  sharding.Mesh
	// Place holds the placements of inputs by name or by pattern, such as
	// layers.*.experts.*; others are whole. An input may be a pending sum (see
	// sharding.ParseSpec). See sharding.Propagate.
	Place map[string]sharding.Spec
	// Donate maps inputs to the results that take over their memory. Such a result is
	// placed as the input is, also if it is a pending sum.
	Donate map[string]int
	// Deadline is how long a rank waits for the others in a collective; 0 is the
	// communicator's default of 30 s.
	Deadline time.Duration
	// Optimize, which is on unless it is Off, folds constants, merges equal equations and
	// leaves out those that change nothing (see internal/optimize), joins instructions of
	// the plan (see primitives.Joins) and fuses elementwise ones (see lowering.Options).
	// None of it changes a bit of the results. Off places the program as it is written,
	// and runs it so.
	Optimize Switch
	// Sums is the element type in which ranks add up pending sums of f32 arrays with
	// dimensions, such as gradients: bf16 or f16, which halves the bytes that they exchange;
	// NoDType is f32. Each rank's summand and the sum are rounded once, so an element differs
	// from the sum by at most 2u+u² times the sum of the summands' absolute values, where u is
	// 1/256 for bf16 and 1/2048 for f16; f16 has steps of 6e-8 near 0, and elements beyond
	// 65504 become infinite. MLX's own protocols round after
	// every addition.
	Sums graph.DType
	// Exact, if it is not 0, has all results have the same bits on every mesh that splits the
	// batch and the experts over dp and ep, and is the number of blocks of the batch that makes
	// this so: a power of two, such as 8. What sums over the batch, such as a weight's gradient,
	// sums each block, and adds the blocks' sums in pairs, whoever has them. Blocks divide the
	// batch, and a rank has whole ones: 8 blocks over 3 ranks are 3, 3 and 2, as Mesh.Blocks
	// says, so ranks are at most as many as blocks, and faster where they divide them. Place says
	// on every mesh, also on one rank and on one without an ep axis, what dp and ep would split. It takes more memory and time, a gradient that
	// several iterations of a loop add up is exchanged in each of them, and what has no such form
	// is an error: other axes than dp and ep, Sums, devices, and layers whose rows come home
	// as sums or rounded.
	Exact int
	// Overlap is what ranks compute while they exchange data; 0 is nothing. It
	// changes no bit of the results, and takes more memory where what is exchanged
	// must be kept for longer. It pays where an exchange waits for a wire. Ranks in
	// one process exchange data with the processors that compute: there steps take
	// as long with it as without, so it is off unless asked for. Where Optimize is Off
	// it is off in any case.
	Overlap lowering.Overlap
	// Keep, which is on unless it is Off, keeps copies of weights between steps:
	// weights that no result takes over are copied, when a step is given the same array
	// as the one before, into the order in which products read them: bf16, and
	// matrices that are multiplied by transposed. That takes as much memory as these
	// weights, which a plan shows and a session allocates when it is opened, and none
	// of it serves weights that are put anew for every step. It changes no bit of the
	// results. Where Optimize is Off nothing is kept.
	Keep Switch
	// Target, if not nil, is what the plan is made for: instructions that it has kernels
	// for say so (see lowering.Target). Options.Device, where it is given, takes its
	// place.
	Target lowering.Target
	// After is the last pass that makes the plan (see lowering.Passes), "" for all. What
	// it leaves is to be read, and cannot be run: Open refuses it.
	After string
	// Check has the plan checked after every pass (see lowering.Plan.Check), so that an error
	// names the pass. Without it the plan is checked once, after the last pass.
	Check bool
	runtime.Options
}

// ExactBlocks is the Config.Exact of commands: their batches are multiples of it, and they have
// at most as many ranks.
const ExactBlocks = 8

// Switch is a choice in a Config. The zero Switch is the default that the Config says.
type Switch uint8

const (
	Default Switch = iota
	On
	Off
)

// SwitchTo returns On or Off.
func SwitchTo(on bool) Switch {
	if on {
		return On
	}
	return Off
}

// Parse reads a program with all primitives of the library. file names it in
// errors.
func Parse(file, src string) (*graph.Program, error) {
	return graph.Parse(file, src, primitives.All()...)
}

// Place returns p placed on cfg's mesh, its custom calls inlined and, unless
// cfg says otherwise, optimised. If ctx ends, Place returns its cause.
func Place(ctx context.Context, p *graph.Program, cfg Config) (*sharding.Assignment, error) {
	a, _, err := place(ctx, p, cfg)
	return a, err
}

// place is Place. It also returns the names of the results: those that p is printed with, since inlining and optimising number the values
// anew.
func place(ctx context.Context, p *graph.Program, cfg Config) (*sharding.Assignment, []string, error) {
	if err := graph.Check(p); err != nil {
		return nil, nil, err
	}
	all := p.Names()
	names := make([]string, len(p.Out))
	for i, v := range p.Out {
		names[i] = all[v]
	}
	p, err := graph.Inline(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	if cfg.Optimize != Off {
		if p, err = optimize.Program(ctx, p); err != nil {
			return nil, nil, err
		}
	}
	if cfg.Exact != 0 {
		if p, err = exact.Program(ctx, p, cfg.Mesh, cfg.Place, cfg.Exact); err != nil {
			return nil, nil, err
		}
		cfg.Mesh = cfg.Mesh.InBlocks(cfg.Exact)
	}
	a, err := sharding.Propagate(ctx, p, cfg.Mesh, cfg.Place)
	if err != nil {
		return nil, nil, err
	}
	return a, names, a.Donate(cfg.Donate)
}

// Compile returns the plan that every rank runs. If ctx ends, Compile returns its cause.
func Compile(ctx context.Context, p *graph.Program, cfg Config) (*lowering.Plan, error) {
	a, names, err := place(ctx, p, cfg)
	if err != nil {
		return nil, err
	}
	opts := lowering.Options{Donate: cfg.Donate, Names: names, Sums: cfg.Sums, Pairs: cfg.Exact != 0, After: cfg.After, Check: cfg.Check}
	if cfg.Optimize != Off {
		opts.Fuse, opts.Joins, opts.Overlap, opts.Keep = true, primitives.Joins(), cfg.Overlap, cfg.Keep != Off
	}
	opts.Target = cfg.Target
	if cfg.Device != nil {
		opts.Target = cfg.Device
	}
	if opts.Target != nil && cfg.Exact != 0 {
		return nil, fmt.Errorf("gomoe: %s with exact for device %s, whose sums have other bits than the host's; run it on the host", p.Name, opts.Target.Name())
	}
	if opts.Target != nil && opts.Overlap != lowering.OverlapOff {
		return nil, fmt.Errorf("gomoe: %s for device %s with overlap %s: a device works during collectives by itself; leave overlap off", p.Name, opts.Target.Name(), opts.Overlap)
	}
	return lowering.Lower(ctx, a, opts)
}

// Job is a compiled program on the ranks of this process.
type Job struct {
	*runtime.Session
	comms []collective.Communicator // that are the job's own
}

// UseKernels chooses the kernels of this process, as the environment variable
// GOMOE_KERNELS does: portable is plain Go, the reference; avx2, avx512, amx and neon
// are assembly; empty is the best that the processor runs. It comes before the first
// program is compiled or run, for example as flag.Func("kernels", "...", gomoe.UseKernels).
func UseKernels(name string) error { return kernel.Use(name) }

// Open compiles p and opens one rank per place of the mesh in this process, or, in
// a World of several processes, this process's. Close releases them. If GOMOE_KERNELS names kernels that this processor does
// not run, that is an error: others would give other last bits. It is also an error if the
// plan needs more memory than there is. ctx bounds the compilation only: if it ends, Open returns its cause,
// and the other processes of the World learn that this one was told to end.
func Open(ctx context.Context, p *graph.Program, cfg Config) (*Job, error) {
	if _, err := kernel.Selected(); err != nil {
		return nil, err
	}
	if cfg.After != "" {
		return nil, fmt.Errorf("gomoe: %s: the plan after pass %s is not complete and cannot be run; leave Config.After empty", p.Name, cfg.After)
	}
	plan, err := Compile(ctx, p, cfg)
	if err != nil {
		cfg.World.Interrupted(ctx)
		return nil, err
	}
	comms, own, err := cfg.World.Ranks(cfg.Mesh, cfg.Deadline)
	if err != nil {
		return nil, err
	}
	j := &Job{}
	if own {
		j.comms = comms
	}
	if err := fits(plan, len(comms), memory.Available); err != nil {
		return nil, errors.Join(err, closeAll(j.comms))
	}
	if rank, offset, uncertain, ok := cfg.World.Clock(); ok {
		cfg.Trace.Clock(rank, offset, uncertain)
	}
	if j.Session, err = runtime.Open(plan, comms, cfg.Options); err != nil {
		return nil, errors.Join(err, closeAll(j.comms))
	}
	return j, nil
}

// Close releases the ranks; a World stays open. It may be called twice.
func (j *Job) Close() error {
	j.Session.Close()
	return closeAll(j.comms)
}

func closeAll(comms []collective.Communicator) error {
	var errs []error
	for _, c := range comms {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Run runs p once on arrays of the host and returns its results, gathered.
func Run(ctx context.Context, p *graph.Program, cfg Config, in map[string]array.Array) ([]array.Array, error) {
	j, err := Open(ctx, p, cfg)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	return j.Step(ctx, in)
}

// RunNamed is Run with the results by name, such as grad(w). Results without a name of
// their own have the name that the program is printed with; a name that is used again gets
// a number behind it.
func RunNamed(ctx context.Context, p *graph.Program, cfg Config, in map[string]array.Array) (map[string]array.Array, error) {
	j, err := Open(ctx, p, cfg)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	out, err := j.Step(ctx, in)
	if err != nil {
		return nil, err
	}
	named := make(map[string]array.Array, len(out))
	for i, a := range out {
		named[j.Plan().Out[i].Name] = a
	}
	return named, nil
}

// Step places the inputs, runs one step and gathers its results. It allocates these,
// which are the caller's, and what it takes to place the inputs; Session.RunInto on
// arrays that Put has placed allocates nothing. Where other processes hold ranks, all
// of them call it with the same inputs, and all get complete results.
func (j *Job) Step(ctx context.Context, in map[string]array.Array) ([]array.Array, error) {
	placed := map[string]*runtime.Array{}
	for name, a := range in {
		d, err := j.Put(name, a)
		if err != nil {
			return nil, err
		}
		placed[name] = d
		defer j.Recycle(d) // unless it is donated
	}
	out, err := j.Session.Run(ctx, placed)
	if err != nil {
		return nil, err
	}
	res := make([]array.Array, len(out))
	defer j.Recycle(out...)
	for i, d := range out {
		if res[i], err = j.Get(ctx, d); err != nil {
			return nil, fmt.Errorf("result %s: %w", j.Plan().Out[i].Name, err)
		}
	}
	return res, nil
}
