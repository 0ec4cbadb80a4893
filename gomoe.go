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

// Config describes the mesh, the placement and the options for compiling and running a
// program. The zero Config is one rank.
type Config struct {
	// World is the job of several processes running the program; this process runs some
	// of its ranks. Call its Setup before Open. If World is nil or in process, all ranks
	// run in this process.
	World *world.World
	Mesh  sharding.Mesh
	// Place holds the placements of inputs by name or by pattern, such as
	// layers.*.experts.*; other inputs are replicated. An input may be a pending sum (see
	// sharding.ParseSpec). See sharding.Propagate.
	Place map[string]sharding.Spec
	// Donate maps inputs to the results that reuse their memory. Such a result has the
	// placement of the input, even if that is a pending sum.
	Donate map[string]int
	// Deadline is the time that a rank waits for the others in a collective; 0 is the
	// communicator's default of 30 s.
	Deadline time.Duration
	// Optimize is on unless it is Off. It folds constants, merges equal equations and
	// removes equations without effect (see internal/optimize), combines instructions of the
	// plan (see primitives.Joins) and fuses elementwise ones (see lowering.Options). None
	// of it changes a bit of the results. Off compiles the program as written.
	Optimize Switch
	// Sums is the element type for adding up pending sums of f32 arrays that are not
	// scalars, such as gradients. It is bf16 or f16, which halves the bytes exchanged, or
	// NoDType for f32. Each rank's summand and the sum are rounded once, so an element
	// differs from the exact sum by at most 2u+u² times the sum of the summands' absolute
	// values, where u is 1/256 for bf16 and 1/2048 for f16. Near 0, f16 has steps of
	// 6e-8, and elements beyond 65504 become infinite. MLX's own protocols round after
	// every addition.
	Sums graph.DType
	// Exact, if not 0, makes all results have the same bits on every mesh splitting the
	// batch and the experts over dp and ep. It is the number of blocks into which the
	// batch is divided: a power of two, such as 8. Every sum over the batch, such as a
	// weight's gradient, is computed per block, and the blocks' sums are added in pairs,
	// independent of the ranks holding them.
	//
	// Blocks divide the batch, and a rank holds whole ones: 8 blocks over 3 ranks are 3,
	// 3 and 2, as in Mesh.Blocks. So there are at most as many ranks as blocks, and steps
	// are faster if the ranks divide the blocks. Place must give the dimensions that dp
	// and ep would split on every mesh, including one rank and meshes without an ep axis.
	//
	// Exact takes more memory and time: a gradient accumulated over the iterations of a
	// loop is exchanged in each of them. Axes other than dp and ep, Sums, devices, and
	// layers returning rows as sums or rounded have no exact form and are errors.
	Exact int
	// Overlap selects the computation that ranks do while exchanging data; 0 is none. It
	// changes no bit of the results, and takes more memory if exchanged data must be kept
	// for longer. It pays off if exchanges wait for a network. Ranks in one process
	// exchange data with the processors that compute, so there it gains nothing and is
	// off by default. If Optimize is Off, so is Overlap.
	Overlap lowering.Overlap
	// Keep, which is on unless it is Off, keeps packed copies of weights between steps.
	// If a weight is not donated and a step is given the same array as the step before,
	// its elements are copied into the order read by matrix products; this applies to
	// bf16 and to matrices multiplied by transposed. The copies take as much memory as
	// these weights. A plan lists their size, and a session allocates them when opened. Weights
	// that are put anew for every step gain nothing. Keep changes no bit of the results.
	// If Optimize is Off, nothing is kept.
	Keep Switch
	// Target, if not nil, is the compilation target: the plan marks the instructions for
	// which it has kernels (see lowering.Target). Options.Device, if given, replaces it.
	Target lowering.Target
	// After is the last pass to run (see lowering.Passes), "" for all. The resulting plan
	// can be read but not run: Open refuses it.
	After string
	// Check runs lowering.Plan.Check after every pass, so that an error names the pass.
	// Otherwise the plan is checked once, after the last pass.
	Check bool
	runtime.Options
}

// ExactBlocks is the value of Config.Exact that commands use: their batches are multiples
// of it, and they have at most as many ranks.
const ExactBlocks = 8

// Switch is a choice in a Config. The zero Switch stands for the default of its field.
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

// Parse reads a program that may use all primitives of the library. file names the text
// in errors.
func Parse(file, src string) (*graph.Program, error) {
	return graph.Parse(file, src, primitives.All()...)
}

// Place returns p placed on cfg's mesh, its custom calls inlined and, unless cfg.Optimize
// is Off, optimised. If ctx ends, Place returns its cause.
func Place(ctx context.Context, p *graph.Program, cfg Config) (*sharding.Assignment, error) {
	a, _, err := place(ctx, p, cfg)
	return a, err
}

// place is Place. It also returns the names of the results as printed with p, because
// inlining and optimising renumber the values.
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
		if cfg.Sums != graph.NoDType {
			return nil, nil, fmt.Errorf("gomoe: Config.Exact is %d and Config.Sums %s, want one of them: sums of rounded numbers depend on the number of ranks", cfg.Exact, cfg.Sums)
		}
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
	comms []collective.Communicator // owned by the job
}

// UseKernels selects the kernels of this process, like the environment variable
// GOMOE_KERNELS: portable is plain Go, the reference; avx2, avx512, amx and neon are
// assembly; empty is the best set that the processor runs. Call it before compiling or
// running the first program, for example with flag.Func("kernels", "...",
// gomoe.UseKernels).
func UseKernels(name string) error { return kernel.Use(name) }

// Open compiles p and opens the ranks of this process: all ranks of the mesh or, in a
// World of several processes, this process's share. Close releases them. It is an error
// if GOMOE_KERNELS names kernels that this processor does not run, because others would
// change the last bits of results, or if the plan needs more memory than there is. ctx
// bounds the compilation only: if it ends, Open returns its cause, and the other
// processes of the World learn that this one was told to end.
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

// Close releases the ranks, not the World. It may be called twice.
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

// Run runs p once on arrays of the host and returns its gathered results.
func Run(ctx context.Context, p *graph.Program, cfg Config, in map[string]array.Array) ([]array.Array, error) {
	j, err := Open(ctx, p, cfg)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	return j.Step(ctx, in)
}

// RunNamed is Run with the results by name, such as grad(w). A result without a name has
// its name in the printed program. A repeated name gets a number as its suffix.
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

// Step places the inputs, runs one step and gathers its results, which belong to the
// caller. It allocates memory for the results and for placing the inputs; Session.RunInto
// on arrays placed by Put allocates nothing. If other processes hold ranks, every process
// must call Step with the same inputs, and every process gets complete results.
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
