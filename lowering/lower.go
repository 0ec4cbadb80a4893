package lowering

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// Options configure a plan.
type Options struct {
	// Donate maps the name of an input to the index of the result that reuses its memory,
	// as for the weights and moments of a training step. Input and result have the same
	// type and placement. The caller must not read the input afterwards.
	Donate map[string]int
	// Names are the names of the results. If nil, results have their names in the printed
	// program. A repeated name gets a number as its suffix.
	Names []string
	// Sums is the element type, bf16 or f16, for adding up pending sums of f32 arrays
	// other than scalars. NoDType is f32. See gomoe.Config.
	Sums graph.DType
	// Pairs adds pending sums in pairs (see collective.Call), like sums over blocks (see
	// sharding.Blocked), so that their bits do not depend on the number of ranks holding
	// the blocks. It excludes Sums.
	Pairs bool
	// Overlap selects the computation during collectives.
	Overlap Overlap
	// Joins are tried on the plan before fusing and memory assignment, in rounds: each
	// round sees the results of earlier rounds.
	Joins [][]Join
	// Keep keeps copies of inputs that are not donated, packed in the order read by
	// kernels, as long as the caller gives the same arrays. The copies take as much
	// memory as the weights of matrix products.
	Keep bool
	// Fuse fuses elementwise instructions and lets their results reuse the memory of
	// arguments that are not read afterwards. It changes no bit of the results.
	Fuse bool
	// Chunk is the number of elements that a fused instruction computes at a time,
	// rounded up to a multiple of 8; 0 means as many as the cache holds.
	Chunk int
	// Target is the device for the plan, nil for the host alone.
	Target Target
	// After is the name of the last pass to run (see Passes), "" for all passes. A plan
	// after only some passes can be printed, not run.
	After string
	// Check calls Plan.Check after every pass, so that an error names the pass. Without it
	// Plan.Check is called once, after the last pass.
	Check bool
}

// Lower makes the plan of a placed program: rules emit instructions, and Passes rewrite
// them. Equations with unused results are dropped. If ctx ends, Lower returns its cause.
func Lower(ctx context.Context, a *sharding.Assignment, opts Options) (*Plan, error) {
	if d := opts.Sums; d != graph.NoDType && d != graph.BF16 && d != graph.F16 {
		return nil, fmt.Errorf("lowering: sums of %s, want %s, %s or, for f32, none", d, graph.BF16, graph.F16)
	}
	if opts.Pairs && opts.Sums != graph.NoDType {
		return nil, fmt.Errorf("lowering: Options.Pairs and Options.Sums %s, want one of them: sums of rounded numbers depend on the number of ranks", opts.Sums)
	}
	p, err := emit(ctx, a, &opts)
	if err != nil {
		return nil, err
	}
	if opts.Target != nil {
		opts = opts.on(opts.Target)
	}
	if err := p.run(ctx, &opts); err != nil {
		return nil, err
	}
	return p, nil
}

// emit makes the plan of a placed program, before any pass.
func emit(ctx context.Context, a *sharding.Assignment, opts *Options) (*Plan, error) {
	p := &Plan{Name: a.Program.Name, Mesh: a.Mesh, unplaced: true}
	e := &Emitter{ctx: ctx, Mesh: a.Mesh, asg: a, plan: p, sums: opts.Sums, pairs: opts.Pairs, bufs: map[key]Buf{}, memos: map[any]Buf{}, made: map[int]*graph.Eqn{}}
	for _, v := range a.Program.In {
		b := e.Placed(v.Type, a.Spec[v])
		p.Bufs[b.ID].Storage, p.Bufs[b.ID].Name = Input, v.Name
		e.bufs[keyOf(v, b.Spec)] = b
		p.In = append(p.In, Port{v.Name, v.Type, b.Spec, b.ID})
	}
	live := liveEqns(a.Program)
	for _, q := range a.Program.Eqns {
		if !live[q] || a.Flexible(q.Out[0]) {
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		e.Eqn = q
		if err := e.eqn(q); err != nil {
			if inner, ok := err.(*graph.Error); ok { // about an equation of a loop's body
				return nil, inner
			}
			return nil, &graph.Error{Pos: q.Pos, Prim: q.Prim.Name(), Args: a.Context(q).Args(), Err: err}
		}
	}
	e.Eqn = nil
	if err := e.outputs(opts.Names); err != nil {
		return nil, err
	}
	return p, e.written()
}

// written returns an error if a rule has emitted no instruction writing a result being
// read: the memory would be undefined.
func (e *Emitter) written() error {
	p := e.plan
	done := map[int]bool{} // buffers owning memory
	for _, q := range p.In {
		done[q.Buf] = true
	}
	check := func(b int) error {
		if q := e.made[p.Root(b)]; q != nil && !done[p.Root(b)] {
			return &graph.Error{Pos: q.Pos, Prim: q.Prim.Name(), Args: e.asg.Context(q).Args(),
				Err: errors.New("Lower emits nothing that writes the result; emit a kernel or a collective that has its buffer in Out")}
		}
		return nil
	}
	for i := range p.Instrs {
		for _, b := range p.Instrs[i].In {
			if err := check(b); err != nil {
				return err
			}
		}
		for _, b := range p.Instrs[i].Out {
			done[p.Root(b)] = true
		}
	}
	for _, q := range p.Out {
		if err := check(q.Buf); err != nil {
			return err
		}
	}
	return nil
}

func (e *Emitter) eqn(q *graph.Eqn) error {
	dec := e.asg.Decision[q]
	if _, ok := q.Prim.(graph.PlaceLikeOp); ok {
		// Only the placement of the second argument matters, so it needs no buffer.
		end := e.naming(q.Out[0])
		in, err := e.Have(q.In[0], dec.Out[0])
		end()
		if err != nil {
			return err
		}
		if b := &e.plan.Bufs[in.ID]; b.Name == "" {
			b.Name = q.Out[0].Name
		}
		out := e.Placed(q.Out[0].Type, dec.Out[0])
		e.Alias(out, in)
		e.bufs[keyOf(q.Out[0], dec.Out[0])] = out
		return nil
	}
	if _, ok := q.Prim.(graph.BarrierOp); ok {
		in, err := e.Have(q.In[0], dec.Out[0])
		if err != nil {
			return err
		}
		out := e.Placed(q.Out[0].Type, dec.Out[0])
		e.Alias(out, in)
		e.wait(out, q.In[1:])
		e.bufs[keyOf(q.Out[0], dec.Out[0])] = out
		return nil
	}
	in := make([]Buf, len(q.In))
	for i, v := range q.In {
		b, err := e.Have(v, dec.In[i])
		if err != nil {
			return err
		}
		in[i] = b
	}
	out := make([]Buf, len(q.Out))
	for i, v := range q.Out {
		out[i] = e.Placed(v.Type, dec.Out[i])
		e.plan.Bufs[out[i].ID].Name = v.Name
		e.bufs[keyOf(v, dec.Out[i])] = out[i]
	}
	return e.rule(q, out, in)
}

// Move emits the instructions moving in, a value of the global type of the equation's
// first argument, to the placement of out.
func (e *Emitter) Move(out, in Buf) error {
	b, err := e.Reshard(e.Eqn.In[0].Type, in, out.Spec)
	if err != nil {
		return err
	}
	e.Alias(out, b)
	return nil
}

// liveEqns returns the equations that the results depend on.
func liveEqns(p *graph.Program) map[*graph.Eqn]bool {
	live := map[*graph.Eqn]bool{}
	mark := func(v *graph.Value) {
		if v.Def != nil {
			live[v.Def] = true
		}
	}
	for _, v := range p.Out {
		mark(v)
	}
	for i := len(p.Eqns) - 1; i >= 0; i-- {
		q := p.Eqns[i]
		if !live[q] {
			continue
		}
		for _, v := range readBy(q) {
			mark(v)
		}
	}
	return live
}

func copyBytes(a *exec.Args) error {
	copy(a.Out[0].Bytes(), a.In[0].Bytes())
	return nil
}

// outputs gives every result of the plan a buffer of its own, which belongs to the caller
// after a run.
func (e *Emitter) outputs(names []string) error {
	if names == nil {
		all := e.asg.Program.Names()
		for _, v := range e.asg.Program.Out {
			names = append(names, all[v])
		}
	}
	if got, want := len(names), len(e.asg.Program.Out); got != want {
		return fmt.Errorf("lowering: %d names for the results of %s, want %d", got, e.asg.Program.Name, want)
	}
	taken, next := map[string]bool{}, map[string]int{}
	for i, v := range e.asg.Program.Out {
		if v.Def != nil {
			e.Eqn = v.Def
		}
		b, err := e.Have(v, e.asg.Out[i])
		if err != nil {
			return err
		}
		root := e.plan.Root(b.ID)
		if e.plan.Bufs[root].Storage != Temp || !e.plan.Bufs[root].like(&e.plan.Bufs[b.ID]) {
			// The result is an input or aliases another result, so the caller gets a
			// copy.
			c := e.Placed(v.Type, b.Spec)
			e.emit(Instr{Op: ops.Copy, Zones: -1, InPlace: true, Host: Host{Kernel: copyBytes}}, []Buf{c}, []Buf{b})
			b, root = c, c.ID
		}
		e.plan.Bufs[root].Storage = Output
		name := names[i]
		for taken[name] {
			next[names[i]]++
			name = fmt.Sprintf("%s_%d", names[i], next[names[i]])
		}
		taken[name] = true
		e.plan.Out = append(e.plan.Out, Port{name, v.Type, b.Spec, b.ID})
	}
	return nil
}
