package runtime

import (
	"context"
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/lowering"
)

// Options are the options of a session.
type Options struct {
	// Trace, if not nil, records every instruction of every step.
	Trace *Trace
	// Finite makes each step fail at the first kernel that turns finite arguments into a
	// NaN or an infinity. Before every collective, ranks tell each other whether their
	// arguments are finite, so all processes must agree on Finite.
	Finite bool
	// Poison fills the memory of every result with NaNs, or large numbers for integer
	// types, before running the instruction writing it. Results do not change, unless a
	// kernel leaves elements unwritten or reads its own uninitialised result.
	Poison bool
	// Observe, if not nil, receives every kernel's arguments and results. Collectives
	// then do not overlap kernels.
	Observe Observer
	// Device, if not nil, runs the instructions that the plan assigns to it; the plan
	// must have been compiled for it. Its kernels are compiled in the first step. Finite,
	// Poison and Observe make the session wait for each instruction. The session does not
	// close the device. If Device is nil, the host runs the whole plan, even one compiled
	// for a device.
	Device Device
	// Threads is the number of threads that each rank's kernels may keep busy. With 0 the
	// ranks of this process share the processors: a rank also uses those that waiting
	// ranks leave idle.
	Threads int
	// Compare is the number of steps between comparisons of the inputs that ranks in
	// different processes have in common: replicated inputs, and shards held by several
	// ranks. The first step always begins with a comparison. 0 is DefaultCompare; if
	// Compare is negative, only the first step compares. All processes must agree on the
	// number. A session with all ranks in this process compares nothing.
	Compare int
}

// Session runs one plan on the ranks of this process. It allocates its memory once,
// except the memory of results, which belongs to the caller; see Recycle. A session runs
// one step at a time; concurrent calls of Run are serialised.
type Session struct {
	plan   *lowering.Plan
	ranks  []*rank
	local  []int // the ranks' numbers
	opts   Options
	mu     sync.Mutex
	crew   *exec.Crew
	heap   *heap // nil without a device
	queues bool  // the ranks' queues are open
	agreed bool  // all ranks of the job are known to run this plan
	closed atomic.Bool
	step   int
	steps  steps
	inputs map[string]int // the plan's inputs, by name
	slabs  []bool         // per input of the plan; see lowering.Plan.Slabs
	// bound and again describe the step being bound: bound counts the inputs using an
	// array, and again holds the arrays reused for results.
	bound  map[*Array]int
	again  map[*Array]bool
	made   contents // of the last result
	claims claims   // to memory of results, reclaimed once unreachable
	// donated is the message about a donated array's fate.
	donated string
}

// Open returns a session of the plan on the ranks of comms, one communicator per rank of
// this process. The communicators stay the caller's. They serve one session at a time:
// concurrent sessions need communicators of their own.
//
// Temporaries lie in the communicator's memory if it leases any (see collective.Leaser).
// Otherwise they lie in the process's own memory, and exchanged data is copied once more.
func Open[C collective.Communicator](plan *lowering.Plan, comms []C, opts Options) (_ *Session, err error) {
	if len(comms) == 0 {
		return nil, fmt.Errorf("runtime: plan %s: no communicators, want one per rank of this process", plan.Name)
	}
	s := &Session{plan: plan, opts: opts, agreed: len(comms) == plan.Mesh.Ranks(), crew: exec.NewCrew(max(opts.Threads, 0) * len(comms)),
		inputs: map[string]int{}, slabs: plan.Slabs(), bound: map[*Array]int{}, again: map[*Array]bool{},
		donated: fmt.Sprintf("donated to %s; use that step's result", plan.Name)}
	for i, p := range plan.In {
		s.inputs[p.Name] = i
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if d := opts.Device; d != nil {
		if plan.Target != d.Name() {
			return nil, fmt.Errorf("runtime: plan %s is made for %s, want one for the device %s; lower it with that as target", plan.Name, target(plan), d.Name())
		}
		s.heap = &heap{device: d}
	}
	for _, c := range comms {
		if c.Size() != plan.Mesh.Ranks() {
			return nil, fmt.Errorf("runtime: plan %s wants %d ranks for the mesh %q, the communicator has %d", plan.Name, plan.Mesh.Ranks(), plan.Mesh, c.Size())
		}
		r, err := newRank(plan, c, s.heap)
		if err != nil {
			return nil, err
		}
		r.opts = opts
		rank := len(s.ranks)
		r.worker = newWorker(func(c call) {
			s.one(rank, c)
			s.steps.running.Done()
		})
		r.args.Threads, r.args.Crew = opts.Threads, s.crew
		if slices.Contains(s.local, c.Rank()) {
			return nil, fmt.Errorf("runtime: plan %s: two communicators for rank %d, want one", plan.Name, c.Rank())
		}
		s.ranks = append(s.ranks, r)
		s.local = append(s.local, c.Rank())
		goruntime.AddCleanup(s, (*holding).close, r.hold) // for unclosed sessions
	}
	return s, nil
}

// Close ends the threads of the ranks and their helpers. Without Close they end when the
// session has been idle for a second. Close may be called twice, but no step may run
// during or after it.
func (s *Session) Close() {
	s.crew.Close()
	for _, r := range s.ranks {
		r.end()
	}
	s.steps.forget()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed.Store(true)
	s.claims.list = nil
	for _, r := range s.ranks {
		r.close()
	}
}

// open returns an error if the session is closed.
func (s *Session) open() error {
	if s.closed.Load() {
		return fmt.Errorf("runtime: the session of plan %s is closed; open another one", s.plan.Name)
	}
	return nil
}

// Plan returns the plan that the session runs.
func (s *Session) Plan() *lowering.Plan { return s.plan }

// Local returns the ranks in this process.
func (s *Session) Local() []int { return slices.Clone(s.local) }

// Recycle gives the memory of arrays that the caller no longer uses (results of steps, or
// arrays from Put) to later results and inputs of the session. If the results of steps
// are recycled or donated, steps allocate no memory for arrays. The arrays are then
// spent, like donated ones. After Close their memory is released, device memory to the
// device. Recycle ignores arrays that are already spent or lie on other ranks.
func (s *Session) Recycle(arrays ...*Array) {
	for _, a := range arrays {
		if a == nil || a.spent != "" || !slices.Equal(a.ranks, s.local) {
			continue
		}
		a.spent = "recycled; recycle what is not used any more"
		a.disclaim()
		if a.loan != nil {
			a.loan.end()
			continue
		}
		for i, r := range s.ranks {
			r.spare.keep(a.parts[i])
		}
	}
}

// Run runs one step on all ranks of this process and returns its results, in the plan's
// order. Every input of the plan must be given. Donated inputs are spent afterwards, even
// if the step fails; no other goroutine may use them during the step. If ctx has already
// ended, and no other process holds ranks, nothing is run and nothing is spent.
//
// Run blocks until every rank is done or has failed. When ctx ends, every rank stops at
// its next instruction or exchange. Run returns the first failure of any rank, as an
// *Error. If other processes hold ranks, the failure poisons the communicators, unless
// all ranks agreed on it (see exec.AgreedError), and later steps fail with it. If all
// ranks are in this process, the next step can run; so it can after ctx has ended. A
// device that was lost in the step stays lost.
//
// If other processes hold ranks too, the first step begins by comparing the plans and
// kernels, and some steps by comparing inputs; see Options.Compare.
//
// The results belong to the caller. When a large result becomes unreachable, its memory
// serves a later step, so a loop dropping its results needs no fresh memory. The session
// finds such memory by a garbage collection, at most one per step, and only if that costs
// less than fresh memory would. Memory returned by Parts is never reused.
//
// After the first steps Run allocates only the slice that it returns, its Arrays, and the
// objects tracking whether large ones are reachable. RunInto allocates nothing.
func (s *Session) Run(ctx context.Context, in map[string]*Array) ([]*Array, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.bind(in, nil); err != nil {
		return nil, err
	}
	if err := s.run(ctx, in); err != nil {
		return nil, err
	}
	out := make([]*Array, len(s.plan.Out))
	s.results(out)
	return out, nil
}

// RunInto is Run with the results in out, which has one entry per result of the plan.
// Arrays in out are reused: each becomes the result, and its old memory is recycled
// unless it was donated. An Array in out may also be an input of the step; it is read
// before being reused. An entry may be nil; the same Array twice is an error. So a loop
// passing a step's results to the next step, as training does with weights, binds its
// inputs only once. If RunInto fails, the arrays in out may be spent.
//
// After the first steps RunInto allocates nothing, if the plan's kernels do not, and if
// ctx never ends or is the same in every step. Steps that compare inputs with other
// processes do allocate. Packing buffers of kernels are dropped by a garbage collection
// and then allocated once more.
func (s *Session) RunInto(ctx context.Context, in map[string]*Array, out []*Array) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(out) != len(s.plan.Out) {
		return fmt.Errorf("runtime: room for %d results of %s, want %d", len(out), s.plan.Name, len(s.plan.Out))
	}
	defer clear(s.again)
	for i, a := range out {
		switch {
		case a == nil:
		case s.again[a]:
			return fmt.Errorf("runtime: results %d and %d of %s have one array to use again; give each its own, or nil", slices.Index(out, a), i, s.plan.Name)
		case !slices.Equal(a.ranks, s.local):
			return fmt.Errorf("runtime: result %s of %s cannot use an array again that lies on ranks %v, want %v", s.plan.Out[i].Name, s.plan.Name, a.ranks, s.local)
		default:
			s.again[a] = true
		}
	}
	if err := s.bind(in, out); err != nil {
		return err
	}
	if err := s.run(ctx, in); err != nil {
		return err
	}
	s.Recycle(out...) // those read by the step
	s.results(out)
	return nil
}

// run runs a step after binding its inputs.
func (s *Session) run(ctx context.Context, in map[string]*Array) error {
	if ctx.Err() != nil && len(s.ranks) == s.plan.Mesh.Ranks() { // ranks of other processes learn of it from the ranks here
		return fmt.Errorf("runtime: %s: the step did not begin: %w", s.plan.Name, context.Cause(ctx))
	}
	if err := s.openQueues(ctx); err != nil {
		return err
	}
	if err := s.agree(ctx); err != nil {
		return err
	}
	if err := s.sameInputs(ctx); err != nil {
		return err
	}
	for _, d := range s.plan.Donated {
		a := in[s.plan.In[d.In].Name]
		a.spent = s.donated
		a.disclaim()
	}
	s.threads()
	var began time.Time
	if s.opts.Trace != nil {
		began = time.Now()
	}
	err := s.each(ctx, (*rank).run)
	goruntime.KeepAlive(in) // other sessions leave the memory of inputs alone
	if err != nil {
		s.abandon(in)
		return err
	}
	if s.opts.Trace != nil {
		s.opts.Trace.endStep(s.plan.Name, s.step, began, s.local)
	}
	s.step++
	return nil
}

// abandon leaves inputs to a device that may use them for ever.
func (s *Session) abandon(in map[string]*Array) {
	for _, r := range s.ranks {
		if r.hold.lost {
			for _, a := range in {
				a.disclaim()
			}
			return
		}
	}
}

// results makes Arrays of the results of the finished step, reusing the Arrays in out.
func (s *Session) results(out []*Array) {
	for i, p := range s.plan.Out {
		a := out[i]
		fresh := a == nil
		if fresh {
			a = new(Array)
			out[i] = a
		}
		parts := a.parts[:0]
		if cap(parts) < len(s.ranks) {
			parts = make([]piece, 0, len(s.ranks))
		}
		for _, r := range s.ranks {
			parts = append(parts, piece{r.bufs[p.Buf], r.from[s.plan.Root(p.Buf)]})
		}
		s.made = s.made.next()
		*a = Array{Type: p.Type, Spec: p.Spec, mesh: s.plan.Mesh, ranks: s.local, parts: parts, as: s.made, of: s.plan.Name}
		if fresh {
			s.claim(a)
		}
	}
	for _, r := range s.ranks {
		r.recycle()
	}
}

// threads sets the number of threads that each rank's kernels may keep busy.
func (s *Session) threads() {
	s.crew.Step()
	if s.opts.Threads <= 0 {
		for _, r := range s.ranks {
			r.args.Threads = goruntime.GOMAXPROCS(0)
		}
	}
}

// agree compares the plan with the plans of ranks in other processes, in the first step
// only.
func (s *Session) agree(ctx context.Context) error {
	if s.agreed {
		return nil
	}
	err := s.each(ctx, (*rank).samePlan)
	s.agreed = err == nil
	return err
}

// bind gives every rank its parts of the inputs and memory for the results. It first
// recycles arrays in out that are not inputs, so that results can use their memory.
func (s *Session) bind(in map[string]*Array, out []*Array) error {
	if err := s.open(); err != nil {
		return err
	}
	for _, p := range s.plan.In {
		if err := s.accepts(p, in[p.Name]); err != nil {
			return err
		}
	}
	if len(in) != len(s.plan.In) {
		for _, name := range slices.Sorted(maps.Keys(in)) {
			if _, err := s.input(name); err != nil {
				return err
			}
		}
	}
	defer clear(s.bound)
	for _, p := range s.plan.In {
		s.bound[in[p.Name]]++
	}
	for _, d := range s.plan.Donated {
		name := s.plan.In[d.In].Name
		if in[name].loan != nil {
			return fmt.Errorf("runtime: %s is donated, and its memory is lent, which no step may write to; make the array with Put or PutParts", s.named(s.plan.In[d.In]))
		}
		if s.bound[in[name]] == 1 {
			continue
		}
		for _, p := range s.plan.In {
			if p.Name != name && in[p.Name] == in[name] {
				return fmt.Errorf("runtime: inputs %s and %s of %s are one array, which is donated; give each its own", name, p.Name, s.plan.Name)
			}
		}
	}
	for _, a := range out {
		if a != nil && s.bound[a] == 0 { // the step does not read it
			s.Recycle(a)
		}
	}
	s.reclaim()
	for i, r := range s.ranks {
		for _, p := range s.plan.In {
			if err := r.bindInput(p.Buf, in[p.Name].parts[i], in[p.Name].contents()); err != nil {
				return err
			}
		}
		if err := r.bindOutputs(); err != nil {
			return err
		}
	}
	return nil
}

// RunNamed is Run with the results by name. The names are those in the plan's Out, which
// are distinct.
func (s *Session) RunNamed(ctx context.Context, in map[string]*Array) (map[string]*Array, error) {
	out, err := s.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	named := make(map[string]*Array, len(out))
	for i, a := range out {
		named[s.plan.Out[i].Name] = a
	}
	return named, nil
}
