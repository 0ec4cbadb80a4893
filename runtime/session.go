package runtime

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/lowering"
)

// Options are the ways in which a session can run.
type Options struct {
	// Trace, if not nil, records every instruction of every step.
	Trace *Trace
	// Finite makes each step fail at the first kernel that turns finite
	// arguments into a NaN or an infinity.
	Finite bool
	// Poison fills the memory of every result with the bytes 0xff, a NaN of
	// every float type, before the instruction that writes it. Results do not
	// change, unless a kernel leaves elements unwritten or reads what it
	// should write.
	Poison bool
	// Threads is the number of goroutines that each rank's kernels may keep
	// busy; 0 shares the processors among the ranks of this process.
	Threads int
}

// Session runs one plan on the ranks of this process. Its memory is planned
// and allocated once. A session runs one step at a time.
type Session struct {
	plan  *lowering.Plan
	ranks []*rank
	opts  Options
	mu    sync.Mutex
	step  int
}

// Open returns a session of the plan on the ranks that comms stand for, one
// communicator per rank of this process. The communicators stay the caller's.
func Open(plan *lowering.Plan, comms []lowering.Communicator, opts Options) (*Session, error) {
	s := &Session{plan: plan, opts: opts}
	for _, c := range comms {
		if c.Size() != plan.Mesh.Ranks() {
			return nil, fmt.Errorf("runtime: plan %s wants %d ranks for the mesh %q, the communicator has %d", plan.Name, plan.Mesh.Ranks(), plan.Mesh, c.Size())
		}
		r, err := newRank(plan, c)
		if err != nil {
			return nil, err
		}
		r.args.threads(opts.Threads, len(comms))
		s.ranks = append(s.ranks, r)
	}
	return s, nil
}

// Plan returns what the session runs.
func (s *Session) Plan() *lowering.Plan { return s.plan }

// Local returns the ranks that live in this process.
func (s *Session) Local() []int {
	out := make([]int, len(s.ranks))
	for i, r := range s.ranks {
		out[i] = r.comm.Rank()
	}
	return out
}

// Put places a for the input of that name.
func (s *Session) Put(name string, a array.Array) (*Array, error) {
	p, err := s.input(name)
	if err != nil {
		return nil, err
	}
	if !a.Type.Equal(p.Type) {
		return nil, fmt.Errorf("runtime: input %s of %s is %s, want %s", name, s.plan.Name, a.Type, p.Type)
	}
	return Put(a, s.plan.Mesh, p.Spec, s.Local())
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
// afterwards, also when the step fails.
//
// Run blocks until every rank is done or has failed; when ctx ends, every rank
// stops at its next instruction or exchange. The first failure of any rank is
// returned, as an *Error; unless all ranks agreed on it, it poisons the
// communicators and later steps fail with it.
func (s *Session) Run(ctx context.Context, in map[string]*Array) ([]*Array, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.bind(in); err != nil {
		return nil, err
	}
	for _, d := range s.plan.Donated {
		in[s.plan.In[d.In].Name].spent = s.plan.Name
	}
	began := time.Now()
	var first error
	var once sync.Once
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for i, r := range s.ranks {
		wg.Go(func() {
			if err := r.run(ctx, s, i); err != nil {
				once.Do(func() { first = err })
				if agreed(err) {
					return // the others come to it too; stopping them would poison
				}
				cancel(err)
				r.comm.Fail(err)
			}
		})
	}
	wg.Wait()
	if first != nil {
		return nil, first
	}
	s.opts.Trace.endStep(s.plan.Name, s.step, began, s.Local())
	s.step++
	out := make([]*Array, len(s.plan.Out))
	for i, p := range s.plan.Out {
		out[i] = &Array{Type: p.Type, Spec: p.Spec, mesh: s.plan.Mesh, ranks: s.Local()}
		for _, r := range s.ranks {
			out[i].parts = append(out[i].parts, r.bufs[p.Buf])
		}
	}
	for _, r := range s.ranks {
		r.recycle()
	}
	return out, nil
}

// bind gives every rank its parts of the inputs and memory for the results.
func (s *Session) bind(in map[string]*Array) error {
	for _, p := range s.plan.In {
		a := in[p.Name]
		switch {
		case a == nil:
			return fmt.Errorf("runtime: input %s %s of %s is not given", p.Name, p.Type, s.plan.Name)
		case a.spent != "":
			return fmt.Errorf("runtime: input %s of %s: the array's memory was donated to %s; give that step's result", p.Name, s.plan.Name, a.spent)
		case !a.Type.Equal(p.Type) || !a.Spec.Equal(p.Spec):
			return fmt.Errorf("runtime: input %s of %s is %s, want %s", p.Name, s.plan.Name, a.Spec.Format(a.Type), p.Spec.Format(p.Type))
		case a.mesh.String() != s.plan.Mesh.String() || !slices.Equal(a.ranks, s.Local()):
			return fmt.Errorf("runtime: input %s of %s lies on mesh %q, want %q", p.Name, s.plan.Name, a.mesh, s.plan.Mesh)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if _, err := s.input(name); err != nil {
			return err
		}
	}
	given := map[*Array]string{}
	for _, d := range s.plan.Donated {
		name := s.plan.In[d.In].Name
		given[in[name]] = name
	}
	for name, a := range in {
		if other, ok := given[a]; ok && other != name {
			return fmt.Errorf("runtime: inputs %s and %s of %s are one array, which is donated; give each its own", name, other, s.plan.Name)
		}
	}
	for i, r := range s.ranks {
		for _, p := range s.plan.In {
			r.bufs[p.Buf] = in[p.Name].parts[i]
		}
		r.bindOutputs()
	}
	return nil
}
