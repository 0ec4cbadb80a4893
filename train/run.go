package train

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train/snapshot"
	"github.com/gomoe/gomoe/world"
)

// Run is a step on the ranks of a mesh, together with its state. Its methods must not be called concurrently.
type Run struct {
	Job *gomoe.Job

	p     *Program
	world gomoe.Config // for the program creating the initial state
	state map[string]*runtime.Array
	fixed map[string]*runtime.Array // the frozen parameters
	in    map[string]*runtime.Array
	names []string // of the results preceding the state
	trace *runtime.Trace

	before int64 // bytes used by the process before opening the step
}

// Open compiles a step. cfg.Place gives the placements of the model's inputs; Open adds placements for the state
// and donates it. Call Init or Restore before the first step. When ctx ends, compilation stops. The caller must
// call Close.
func Open(ctx context.Context, p *Program, cfg gomoe.Config) (*Run, error) {
	if cfg.Exact != 0 {
		cfg.Mesh = cfg.Mesh.InBlocks(cfg.Exact) // also for creating the initial state
	}
	cfg, err := p.Placed(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Trace == nil {
		cfg.Trace = runtime.NewTotals()
	}
	if err := p.stateFits(cfg); err != nil {
		return nil, err
	}
	before := memory.Resident()
	job, err := gomoe.Open(ctx, p.Program, cfg)
	if err != nil {
		return nil, err
	}
	r := &Run{Job: job, trace: cfg.Trace, before: before, p: p, world: gomoe.Config{World: cfg.World, Mesh: cfg.Mesh, Deadline: cfg.Deadline}, fixed: map[string]*runtime.Array{}, in: map[string]*runtime.Array{}}
	for i, out := range job.Plan().Out {
		r.names = append(r.names, cmp.Or(p.Out[i].Name, out.Name)) // the plan's names differ from the names of inputs
	}
	return r, nil
}

// beyond is a factor by which no setting reduces the memory of a step.
const beyond = 16

// stateFits returns an error if the parameters and the optimiser's state are far beyond the available memory. It comes
// before compiling, because planning kernels takes time and memory in proportion to the number of experts. A step that
// is closer to fitting is compiled, and the error of gomoe.Open lists the settings that need less.
func (p *Program) stateFits(cfg gomoe.Config) error {
	job, err := cfg.World.Info()
	if err != nil {
		return err
	}
	ranks := cfg.Mesh.Ranks()
	local := ranks
	if job.Mode == world.PerProcess {
		local = len(job.Local)
	}
	need := 0.0
	for _, st := range p.State {
		need += float64(st.Type.Bytes())
	}
	need *= float64(local) / float64(ranks)
	if can := memory.Available(); need > beyond*float64(can.Bytes) {
		return fmt.Errorf("train: %s: the parameters and the optimiser's state need %s of memory for %d of the %d ranks of the mesh, and %s can be had (%s); make the model smaller, or spread it over more processes or a larger mesh",
			p.Name, memory.Format(need), local, ranks, memory.Format(can.Bytes), can.By)
	}
	return nil
}

// Placed returns the cfg that Open uses: it adds the placements of parameters and optimiser state, and donates the
// state. Passing it to gomoe.Compile gives the step's plan, including its memory use.
func (p *Program) Placed(cfg gomoe.Config) (gomoe.Config, error) {
	places := map[string]sharding.Spec{}
	for name, spec := range cfg.Place {
		if slices.Contains(p.batch, name) {
			spec = over(spec)
		}
		places[name] = spec
	}
	donate := map[string]int{}
	for i, st := range p.State {
		if _, ok := places[st.Name]; ok {
			return cfg, fmt.Errorf("train: %s: %s is placed by its parameter's nn.Param.Place, want no placement in Config.Place", p.Name, st.Name)
		}
		places[st.Name], donate[st.Name] = st.everywhere(), p.first+i
	}
	for _, q := range p.Frozen {
		if spec := sharding.Split(q.Place...); !spec.Whole() {
			places[q.Name] = spec
		}
	}
	cfg.Place, cfg.Donate = places, donate
	return cfg, nil
}

// Close releases the ranks.
func (r *Run) Close() error {
	r.Job.Recycle(slices.Collect(maps.Values(r.fixed))...) // returns lent memory
	return r.Job.Close()
}

// Init creates the initial state. It depends on the seed only and is the same on every mesh; each rank creates its
// own shard. It stops when ctx ends.
func (r *Run) Init(ctx context.Context, seed uint64) error {
	p, err := r.p.initial(seed, r.world.Mesh)
	if err != nil {
		return err
	}
	job, err := gomoe.Open(ctx, p, r.world)
	if err != nil {
		return err
	}
	defer job.Close()
	out, err := job.Run(ctx, nil)
	if err != nil {
		return err
	}
	r.state = map[string]*runtime.Array{}
	for i, st := range r.p.State {
		r.state[st.Name] = out[i]
	}
	return nil
}

// initial traces the program creating the initial state.
func (p *Program) initial(seed uint64, m sharding.Mesh) (*graph.Program, error) {
	return graph.Trace("initial", func(t *graph.Tracer) []*graph.Value {
		key := primitives.RandomKey(t, int64(seed))
		var out []*graph.Value
		for _, st := range p.State {
			begin := st.Init
			if st.copy {
				begin = p.Params[st.param].Init
			}
			v := primitives.Full(t, begin.Mean, st.Type.DType, st.Type.Shape...)
			if begin.Std != 0 {
				k := primitives.RandomFoldIn(key, primitives.Full(t, float64(st.param), graph.U32))
				v = primitives.MulScalar(primitives.RandomNormal(k, graph.F32, st.Type.Shape...), begin.Std)
				if begin.Mean != 0 {
					v = primitives.AddScalar(v, begin.Mean)
				}
				v = primitives.ConvertElementType(v, st.Type.DType)
			}
			out = append(out, primitives.ShardingConstraint(v, st.Place...))
		}
		return out
	})
}

// Restore reads the state from a snapshot. Each process reads its own ranks' shards. It is an error if the snapshot
// lacks an array of the state or holds additional ones, for example from another optimiser.
func (r *Run) Restore(s *snapshot.Snapshot) error {
	state := map[string]*runtime.Array{}
	if unread := r.unread(s.Types()); len(unread) > 0 {
		return fmt.Errorf("train: %s: the checkpoint %s has %s, which this run does not keep; it is of another optimiser or model, so give that, or begin anew from its weights", r.p.Name, s.Path, strings.Join(unread, ", "))
	}
	for _, st := range r.p.State {
		var err error
		if state[st.Name], err = r.Job.PutParts(st.Name, s.Fill(st.Name)); err != nil {
			return err
		}
	}
	r.state = state
	return nil
}

// unread names the arrays of a checkpoint that are not part of the state, at most three of them.
func (r *Run) unread(types map[string]graph.Type) []string {
	types = maps.Clone(types)
	for _, st := range r.p.State {
		delete(types, st.Name)
	}
	names := slices.Sorted(maps.Keys(types))
	if more := len(names) - 3; more > 0 {
		names = append(names[:3], fmt.Sprintf("and %d more", more))
	}
	return names
}

// Put sets a parameter; fill writes the parts held by this process, see runtime.Session.PutParts. Before the first
// step, Put must be called for every parameter in Program.Frozen. To start from existing weights, call it for the
// others after Init.
func (r *Run) Put(name string, fill func(runtime.Part) error) error {
	frozen := func(p nn.Param) bool { return p.Name == name }
	to := r.state
	if slices.ContainsFunc(r.p.Frozen, frozen) {
		to = r.fixed
	} else if to[name] == nil {
		return fmt.Errorf("train: %s: put %s: want the name of a parameter, and Init before those that the step trains", r.p.Name, name)
	}
	a, err := r.Job.PutParts(name, fill)
	if err == nil {
		to[name] = a
	}
	return err
}

// Lend sets a parameter of Program.Frozen to parts in the caller's memory, where l permits; see
// runtime.Session.Lend.
func (r *Run) Lend(name string, l runtime.Loan) error {
	if !slices.ContainsFunc(r.p.Frozen, func(p nn.Param) bool { return p.Name == name }) {
		if l.Back != nil {
			l.Back()
		}
		return fmt.Errorf("train: %s: lend %s: want the name of a frozen parameter; a step writes to others, and Put sets them", r.p.Name, name)
	}
	a, err := r.Job.Lend(name, l)
	if err == nil {
		r.fixed[name] = a
	}
	return err
}

// State returns the state by name: parameters, and optimiser state such as m/ followed by a parameter's name. It is
// valid until the next step.
func (r *Run) State() map[string]*runtime.Array { return r.state }

// Step trains on the given inputs and returns the results, other than the state, by name.
func (r *Run) Step(ctx context.Context, number int, rate float64, inputs map[string]array.Array) (map[string]*runtime.Array, error) {
	return r.StepParts(ctx, number, rate, Whole(inputs))
}

// StepParts is Step for inputs of which this process writes only its ranks' parts.
func (r *Run) StepParts(ctx context.Context, number int, rate float64, inputs Parts) (map[string]*runtime.Array, error) {
	if r.state == nil {
		return nil, fmt.Errorf("train: %s: there is no state; call Init or Restore before the first step", r.p.Name)
	}
	clear(r.in)
	for _, p := range r.p.Frozen {
		if r.in[p.Name] = r.fixed[p.Name]; r.in[p.Name] == nil {
			return nil, fmt.Errorf("train: %s: %s is frozen and has no value; call Put before the first step", r.p.Name, p.Name)
		}
	}
	if inputs = maps.Clone(inputs); inputs == nil {
		inputs = Parts{}
	}
	maps.Copy(inputs, Whole(map[string]array.Array{"rate": array.Scalar(float32(rate)), "step": array.Scalar(int32(number))}))
	if err := inputs.put(r.Job, r.p, r.in); err != nil {
		return nil, err
	}
	for name, a := range r.state {
		r.in[name] = a
	}
	out, err := r.Job.Run(ctx, r.in)
	if err != nil {
		return nil, err
	}
	results := map[string]*runtime.Array{}
	for i, a := range out {
		if at := i - r.p.first; at >= 0 && at < len(r.p.State) {
			r.state[r.p.State[at].Name] = a
		} else {
			results[r.names[i]] = a
		}
	}
	return results, nil
}

// spent breaks down the time of all steps so far, averaged over the ranks of this process.
func (r *Run) spent() (compute, exchange, waiting time.Duration) {
	ranks := r.Job.Local()
	for _, rank := range ranks {
		t := r.trace.Totals(rank)
		compute, exchange, waiting = compute+t.Kernels, exchange+t.Collectives, waiting+t.Waits
	}
	n := time.Duration(len(ranks))
	return compute / n, exchange / n, waiting / n
}

// scalar returns a result's number, or 0 for a missing result.
func (r *Run) scalar(ctx context.Context, d *runtime.Array) (float64, error) {
	if d == nil {
		return 0, nil
	}
	a, err := r.Job.Get(ctx, d)
	if err != nil {
		return 0, err
	}
	return a.Float64s()[0], nil
}

// table returns a result's rows, or nil for a missing result.
func (r *Run) table(ctx context.Context, d *runtime.Array) ([][]int64, error) {
	if d == nil {
		return nil, nil
	}
	a, err := r.Job.Get(ctx, d)
	if err != nil {
		return nil, err
	}
	rows := make([][]int64, a.Type.Shape[0])
	for i := range rows {
		rows[i] = array.Data[int64](a.Rows(i, i+1).As(graph.I64))
	}
	return rows, nil
}

// Weights copies the parameters to the host of every process, by name. In a job of several processes, all must call
// it.
func (r *Run) Weights(ctx context.Context) (map[string]array.Array, error) {
	out := map[string]array.Array{}
	for _, p := range r.p.Params {
		a, err := r.Job.Get(ctx, r.state[p.Name])
		if err != nil {
			return nil, err
		}
		out[p.Name] = a
	}
	return out, nil
}

// Parts are the inputs of a step by name, each as a function writing a part of it; see runtime.Session.PutParts. A
// process calls them for its own ranks' parts, such as the batch rows those ranks train on. Even with microbatches,
// Whole is the type of the whole batch.
type Parts map[string]func(runtime.Part) error

// Whole returns Parts reading from arrays, which must have the types of the inputs.
func Whole(arrays map[string]array.Array) Parts {
	parts := Parts{}
	for name, a := range arrays {
		parts[name] = func(p runtime.Part) error {
			if !p.Whole.Equal(a.Type) {
				return fmt.Errorf("%s is %s, want %s", name, a.Type, p.Whole)
			}
			array.CopyBox(p.Array, nil, a, p.Start, p.Type.Shape)
			return nil
		}
	}
	return parts
}

// put passes the parts of p's inputs to a job.
func (x Parts) put(job *gomoe.Job, p *Program, to map[string]*runtime.Array) (err error) {
	for _, name := range slices.Sorted(maps.Keys(x)) {
		fill := x[name]
		if slices.Contains(p.batch, name) {
			fill = rowwise(fill)
		}
		if to[name], err = job.PutParts(name, fill); err != nil {
			return err
		}
	}
	return nil
}

// rowwise adapts fill, which writes rows of the batch [n·B,..], to write parts of microbatches [n,B,..] in order.
func rowwise(fill func(runtime.Part) error) func(runtime.Part) error {
	return func(p runtime.Part) error {
		whole := p.Whole.Shape
		rows := graph.Type{DType: p.Whole.DType, Shape: append([]int{whole[0] * whole[1]}, whole[2:]...)}
		for i := range p.Type.Shape[0] {
			one := p.Array.Rows(i, i+1).Reshape(p.Type.Shape[1:]...)
			start := append([]int{(p.Start[0]+i)*whole[1] + p.Start[1]}, p.Start[2:]...)
			if err := fill(runtime.Part{Rank: p.Rank, Whole: rows, Start: start, Array: one}); err != nil {
				return err
			}
		}
		return nil
	}
}

// Memory is a run's memory use in this process, in bytes.
type Memory struct {
	Ranks int // in this process
	// State counts parameters, optimiser state and a batch; Step counts the additional memory of a step.
	State, Step int64
	Held        int64 // additional memory of evaluations
	Saves       int64 // the copy for writing checkpoints
	Process     int64 // memory of the process before opening the step
	Model       int64 // the parameters as returned by Weights when the run ends
}

// Total returns the sum.
func (m Memory) Total() int64 { return m.State + m.Step + m.Held + m.Saves + m.Process + m.Model }

// String gives the sum and its parts; Process and Model are combined.
func (m Memory) String() string {
	ranks := "1 rank"
	if m.Ranks != 1 {
		ranks = fmt.Sprintf("%d ranks", m.Ranks)
	}
	s := fmt.Sprintf("%s for %s: state %s, step %s", memory.Format(m.Total()), ranks, memory.Format(m.State), memory.Format(m.Step))
	if m.Held > 0 {
		s += ", held-out " + memory.Format(m.Held)
	}
	if m.Saves > 0 {
		s += ", saves " + memory.Format(m.Saves)
	}
	return s + ", rest " + memory.Format(m.Process+m.Model)
}

// Memory returns the memory use of the run, including evaluations and the copies made for saving.
func (r *Run) Memory(saves *Saves, held ...*Evaluation) Memory {
	threads := goruntime.GOMAXPROCS(0)
	local := r.Job.Local()
	m := Memory{Ranks: len(local), Process: r.before}
	for _, q := range r.p.Params {
		m.Model += q.Type.Bytes()
	}
	step := r.Job.Plan().Report(threads).Mem
	m.State = int64(m.Ranks) * step.Inputs
	m.Step = step.OfRanks(m.Ranks) - m.State
	for _, e := range held {
		x := e.Job.Plan().Report(threads).Mem
		m.Held += x.OfRanks(m.Ranks) - int64(m.Ranks)*x.Inputs - x.Workspace // the workspace is shared
	}
	if saves.Every > 0 {
		mesh := r.Job.Plan().Mesh
		for _, st := range r.p.State {
			spec := st.Spec(mesh)
			for _, rank := range local {
				if snapshot.Writes(spec, mesh, rank, saves.sites()) {
					_, part := spec.Box(mesh, rank, st.Type)
					m.Saves += part.Bytes()
				}
			}
		}
	}
	return m
}
