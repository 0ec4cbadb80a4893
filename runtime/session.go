package runtime

import (
	"context"
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
)

// Options are the ways in which a session can run.
type Options struct {
	// Trace, if not nil, records every instruction of every step.
	Trace *Trace
	// Finite makes each step fail at the first kernel that turns finite
	// arguments into a NaN or an infinity.
	Finite bool
	// Poison fills the memory of every result with NaNs, and with large numbers
	// in integer types, before the instruction that writes it. Results do not
	// change, unless a kernel leaves elements unwritten or reads what it
	// should write.
	Poison bool
	// Threads is the number of threads that each rank's kernels may keep busy;
	// with 0 the ranks of this process share the processors: a rank has those
	// that others do without while they wait.
	Threads int
}

// Session runs one plan on the ranks of this process. Its memory is planned
// and allocated once, but for that of results, which are the caller's; see
// Recycle. A session runs one step at a time; calls of Run from
// several goroutines take turns.
type Session struct {
	plan   *lowering.Plan
	ranks  []*rank
	local  []int // the ranks' numbers
	opts   Options
	mu     sync.Mutex
	crew   *lowering.Crew
	agreed bool // all ranks of the job are known to run this plan
	step   int
	// donated is what becomes of donated arrays.
	donated string
}

// Open returns a session of the plan on the ranks that comms stand for, one
// communicator per rank of this process. The communicators stay the caller's.
// They serve one session at a time: sessions that run at once have their own.
func Open(plan *lowering.Plan, comms []lowering.Communicator, opts Options) (*Session, error) {
	if len(comms) == 0 {
		return nil, fmt.Errorf("runtime: plan %s: no communicators, want one per rank of this process", plan.Name)
	}
	s := &Session{plan: plan, opts: opts, agreed: len(comms) == plan.Mesh.Ranks(), crew: lowering.NewCrew(max(opts.Threads, 0) * len(comms)),
		donated: fmt.Sprintf("donated to %s; use that step's result", plan.Name)}
	for _, c := range comms {
		if c.Size() != plan.Mesh.Ranks() {
			return nil, fmt.Errorf("runtime: plan %s wants %d ranks for the mesh %q, the communicator has %d", plan.Name, plan.Mesh.Ranks(), plan.Mesh, c.Size())
		}
		r, err := newRank(plan, c)
		if err != nil {
			return nil, err
		}
		r.opts = opts
		r.args.Threads, r.args.Crew = opts.Threads, s.crew
		if slices.Contains(s.local, c.Rank()) {
			return nil, fmt.Errorf("runtime: plan %s: two communicators for rank %d, want one", plan.Name, c.Rank())
		}
		s.ranks = append(s.ranks, r)
		s.local = append(s.local, c.Rank())
	}
	return s, nil
}

// Close ends the threads that help the ranks, if there are any. A session that
// is not closed ends them when it has been idle for a second. It may be called
// twice, and no step runs meanwhile or afterwards.
func (s *Session) Close() { s.crew.Close() }

// Plan returns what the session runs.
func (s *Session) Plan() *lowering.Plan { return s.plan }

// Local returns the ranks that live in this process.
func (s *Session) Local() []int { return slices.Clone(s.local) }

// Put places a for the input of that name.
func (s *Session) Put(name string, a array.Array) (*Array, error) {
	p, err := s.input(name)
	if err != nil {
		return nil, err
	}
	if !a.Type.Equal(p.Type) {
		return nil, fmt.Errorf("runtime: input %s of %s is %s, want %s", name, s.plan.Name, a.Type, p.Type)
	}
	return put(a, s.plan.Mesh, p.Spec, s.local, func(i int, t graph.Type) array.Array { return s.ranks[i].spare.array(t) })
}

// Recycle gives the memory of arrays that the caller no longer uses, results of
// steps or what Put returned, to later results and inputs of the session. Steps
// whose results are recycled or donated allocate no memory for arrays. The
// arrays are spent afterwards, as donated ones are; an array that is already is
// left alone, and so is one that lies on other ranks than the session's.
func (s *Session) Recycle(arrays ...*Array) {
	for _, a := range arrays {
		if a.spent != "" || !slices.Equal(a.ranks, s.local) {
			continue
		}
		a.spent = "recycled; recycle what is not used any more"
		for i, r := range s.ranks {
			r.spare.keep(a.parts[i])
		}
	}
}

func (s *Session) input(name string) (lowering.Port, error) {
	for _, p := range s.plan.In {
		if p.Name == name {
			return p, nil
		}
	}
	var names []string
	for _, p := range s.plan.In {
		names = append(names, p.Name)
	}
	return lowering.Port{}, fmt.Errorf("runtime: %s has no input %q; its inputs are %s", s.plan.Name, name, strings.Join(names, ", "))
}

// Run runs one step on all ranks of this process and returns its results, in
// the plan's order. Every input of the plan is bound. Donated inputs are spent
// afterwards, also when the step fails; nobody else may use them meanwhile.
//
// Run blocks until every rank is done or has failed; when ctx ends, every rank
// stops at its next instruction or exchange. The first failure of any rank is
// returned, as an *Error; unless all ranks agreed on it (see lowering.Agreed),
// it poisons the communicators and later steps fail with it.
//
// Where other processes hold ranks too, the first step begins with a comparison
// of the plans.
func (s *Session) Run(ctx context.Context, in map[string]*Array) ([]*Array, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.bind(in); err != nil {
		return nil, err
	}
	if err := s.agree(ctx); err != nil {
		return nil, err
	}
	for _, d := range s.plan.Donated {
		in[s.plan.In[d.In].Name].spent = s.donated
	}
	s.threads()
	var began time.Time
	if s.opts.Trace != nil {
		began = time.Now()
	}
	if err := s.each(ctx, (*rank).run); err != nil {
		return nil, err
	}
	if s.opts.Trace != nil {
		s.opts.Trace.endStep(s.plan.Name, s.step, began, s.local)
	}
	s.step++
	out := make([]*Array, len(s.plan.Out))
	for i, p := range s.plan.Out {
		out[i] = &Array{Type: p.Type, Spec: p.Spec, mesh: s.plan.Mesh, ranks: s.local, as: new(contents), parts: make([]array.Array, 0, len(s.ranks))}
		for _, r := range s.ranks {
			out[i].parts = append(out[i].parts, r.bufs[p.Buf])
		}
	}
	for _, r := range s.ranks {
		r.recycle()
	}
	return out, nil
}

// threads sets how many threads kernels may keep busy, as far as there are
// idle ones.
func (s *Session) threads() {
	s.crew.Step()
	if s.opts.Threads <= 0 {
		for _, r := range s.ranks {
			r.args.Threads = goruntime.GOMAXPROCS(0)
		}
	}
}

// each runs f for every rank of this process at once and returns the first
// error, when all are done.
//
// An error that is not agreed on stops the other ranks. An agreed one does not:
// they come to it by themselves, maybe after exchanges that the first of them
// has no part in. Of those the lowest rank's is returned.
func (s *Session) each(ctx context.Context, f func(r *rank, ctx context.Context) error) error {
	if len(s.ranks) == 1 { // no other rank is here to be stopped
		err := f(s.ranks[0], ctx)
		if err != nil && !agreed(err) {
			s.ranks[0].comm.Fail(err)
		}
		s.ranks[0].lane.settle()
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	errs := make([]error, len(s.ranks))
	var first error
	var once sync.Once
	var wg sync.WaitGroup
	for i, r := range s.ranks {
		wg.Go(func() {
			errs[i] = f(r, ctx)
			if err := errs[i]; err != nil && !agreed(err) {
				once.Do(func() {
					first = err
					r.comm.Fail(err) // before cancel, so that ranks elsewhere learn the cause
					cancel(err)
				})
			}
			r.lane.settle()
		})
	}
	wg.Wait()
	if first != nil {
		return first
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// agree compares the plan with those of ranks in other processes, once.
func (s *Session) agree(ctx context.Context) error {
	if s.agreed {
		return nil
	}
	err := s.each(ctx, (*rank).samePlan)
	s.agreed = err == nil
	return err
}

// bind gives every rank its parts of the inputs and memory for the results.
func (s *Session) bind(in map[string]*Array) error {
	for _, p := range s.plan.In {
		a := in[p.Name]
		switch {
		case a == nil:
			return fmt.Errorf("runtime: input %s %s of %s is not given", p.Name, p.Type, s.plan.Name)
		case a.spent != "":
			return fmt.Errorf("runtime: input %s of %s: the array's memory was %s", p.Name, s.plan.Name, a.spent)
		case !a.Type.Equal(p.Type) || !a.Spec.Equal(p.Spec):
			return fmt.Errorf("runtime: input %s of %s is %s, want %s", p.Name, s.plan.Name, a.Spec.Format(a.Type), p.Spec.Format(p.Type))
		case !slices.Equal(a.mesh.Axes, s.plan.Mesh.Axes) || !slices.Equal(a.ranks, s.local):
			return fmt.Errorf("runtime: input %s of %s lies on ranks %v of the mesh %q, want %v of %q", p.Name, s.plan.Name, a.ranks, a.mesh, s.local, s.plan.Mesh)
		}
	}
	if len(in) != len(s.plan.In) {
		for _, name := range slices.Sorted(maps.Keys(in)) {
			if _, err := s.input(name); err != nil {
				return err
			}
		}
	}
	for _, d := range s.plan.Donated {
		name := s.plan.In[d.In].Name
		for _, p := range s.plan.In {
			if p.Name != name && in[p.Name] == in[name] {
				return fmt.Errorf("runtime: inputs %s and %s of %s are one array, which is donated; give each its own", name, p.Name, s.plan.Name)
			}
		}
	}
	for i, r := range s.ranks {
		for _, p := range s.plan.In {
			r.bufs[p.Buf], r.contents[p.Buf] = in[p.Name].parts[i], in[p.Name].contents()
		}
		r.bindOutputs()
	}
	return nil
}
