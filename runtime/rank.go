package runtime

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
)

// rank executes the plan for one rank.
type rank struct {
	plan   *lowering.Plan
	comm   collective.Communicator
	opts   Options
	groups []collective.Group // per instruction, nil for kernels
	bufs   []array.Array      // per buffer
	cut    [][]int            // per buffer of ragged rows: its shape, cut to the rows in use
	args   exec.Args          // reused by every kernel
	spare  *spare             // memory of donated inputs and recycled results
	// Per buffer of an input: the identity of its elements in this step; see
	// Array.contents.
	contents []contents
	summed   []summed // per input of the plan
	from     []*block // per buffer of an input or a result: the block owning its memory
	views    []view   // aliases of inputs and results, rebound in every step
	// By size in bytes: the number of large parts of results in a step, the number that
	// the next steps lack, and the number claimed by the session and still in use; see
	// Session.reclaim.
	wanted, lacking, used map[int64]int
	kept                  []kept // per buffer
	worker                *worker[call]
	lane                  *lane    // nil if no collective overlaps kernels
	remote                *remote  // nil without a device
	copies                []copied // per buffer: copies of inputs that are not visible to the device
	temps                 *block   // the arena, if the device's heap owns it
	hold                  *holding
	loops                 map[*lowering.Instr]*loop
	bodies                []*rank // of the loops
	// For a rank running the body of a loop: the number of the iteration's first
	// collective, and the iteration, which is -1 for other ranks.
	seq, iteration int
}

// view is a buffer sharing the memory of another, its root.
type view struct{ buf, root int }

// newRank returns a rank with memory from h. If h is nil, the memory is Go's.
func newRank(p *lowering.Plan, c collective.Communicator, h *heap) (*rank, error) {
	return newRankOn(p, c, h, (*rank).arena)
}

// newRankOn is newRank with memory for the temporaries from memory.
func newRankOn(p *lowering.Plan, c collective.Communicator, h *heap, memory func(*rank, int, *heap) ([]byte, error)) (_ *rank, err error) {
	all := p
	p = all.On(c.Rank())
	r := &rank{plan: p, comm: c, groups: make([]collective.Group, len(p.Instrs)), bufs: make([]array.Array, len(p.Bufs)), spare: newSpare(h), hold: new(holding), iteration: -1}
	defer func() {
		if err != nil {
			r.hold.close()
		}
	}()
	r.args.Mesh, r.args.Rank, r.args.Scratch = p.Mesh, c.Rank(), p.NewScratch()
	r.cut, r.kept, r.contents = make([][]int, len(p.Bufs)), make([]kept, len(p.Bufs)), make([]contents, len(p.Bufs))
	r.summed = make([]summed, len(p.In))
	r.from, r.copies = make([]*block, len(p.Bufs)), make([]copied, len(p.Bufs))
	if h != nil {
		r.remote = newRemote(all, h.device, r.hold)
	}
	arena, err := memory(r, int(p.Arena), h)
	if err != nil {
		return nil, err
	}
	for i, b := range p.Bufs {
		if b.Spec.Ragged != nil {
			r.cut[i] = slices.Clone(b.Type.Shape)
		}
		if b.Storage == lowering.Kept {
			r.kept[i].mem = lasting(b.Type)
		}
		if b.Storage == lowering.Temp && b.Def >= 0 {
			r.bufs[i] = array.Over(b.Type, arena[b.Offset:])
		}
	}
	for i, b := range p.Bufs {
		if b.Storage != lowering.Alias {
			continue
		}
		switch root := p.Root(i); p.Bufs[root].Storage {
		case lowering.Input, lowering.Output:
			r.views = append(r.views, view{i, root})
		case lowering.Temp:
			if p.Bufs[root].Def >= 0 {
				r.bufs[i] = array.Over(b.Type, arena[p.Bufs[root].Offset:])
			}
		}
	}
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if !in.Communicates() {
			continue
		}
		g, err := c.Group(p.Mesh.Group(c.Rank(), in.Axes))
		if err != nil {
			return nil, fmt.Errorf("runtime: rank %d: group over %v: %w", c.Rank(), in.Axes, err)
		}
		if l, ok := g.(collective.Limited); ok {
			name := in.Name()
			if in.Pairs && g.Size() > 2 {
				name = collective.PairSums
			}
			if err := l.Lacks(name); err != nil {
				return nil, fmt.Errorf("runtime: rank %d: plan %s has %s over %v (%s): %w", c.Rank(), p.Name, in.Name(), in.Axes, in.Pos, err)
			}
		}
		r.groups[i] = g
	}
	r.lane = newLane(r)
	if err := r.newLoops(h); err != nil {
		return nil, err
	}
	return r, nil
}

// made reports whether a buffer is a result in memory allocated by the session.
func (r *rank) made(root int) bool { return r.plan.Bufs[root].Storage == lowering.Output }

// bindOutputs allocates memory for the results and rebinds aliases to their roots.
func (r *rank) bindOutputs() error {
	for _, p := range r.plan.Out {
		root := r.plan.Root(p.Buf)
		if r.made(root) {
			a, err := r.spare.array(r.plan.Bufs[root].Type)
			if err != nil {
				return err
			}
			r.bufs[root], r.from[root] = a.Array, a.from
		}
	}
	for _, v := range r.views {
		r.bufs[v.buf] = array.Over(r.plan.Bufs[v.buf].Type, r.bufs[v.root].Bytes())
	}
	return nil
}

// recycle keeps the memory of inputs that were donated but not overwritten.
func (r *rank) recycle() {
	for _, d := range r.plan.Donated {
		if b := r.plan.In[d.In].Buf; !d.InPlace {
			r.spare.keep(piece{r.bufs[b], r.from[b]})
		}
	}
}

func (r *rank) run(ctx context.Context) error {
	r.args.Crew.Enter()
	defer r.args.Crew.Leave()
	return r.step(ctx)
}

// step is run for a rank already counted by the crew.
func (r *rank) step(ctx context.Context) error {
	o := r.opts
	if !o.Finite && !o.Poison && o.Observe == nil {
		switch {
		case r.remote != nil:
			return r.inTurns(ctx, o)
		case r.lane != nil:
			return r.overlapped(ctx, o)
		}
	}
	if o.Finite || o.Poison || o.Trace != nil || o.Observe != nil {
		return r.watched(ctx, o)
	}
	for i := range r.plan.Instrs {
		if ctx.Err() != nil {
			return r.fail(i, context.Cause(ctx))
		}
		if err := r.exec(ctx, &r.plan.Instrs[i], r.groups[i]); err != nil {
			return r.fail(i, err)
		}
	}
	return nil
}

// watched runs the plan one instruction at a time, applying the options.
func (r *rank) watched(ctx context.Context, opts Options) error {
	for i := range r.plan.Instrs {
		in := &r.plan.Instrs[i]
		if ctx.Err() != nil {
			return r.fail(i, context.Cause(ctx))
		}
		if opts.Poison {
			r.poison(in)
		}
		observe := opts.Observe != nil && !in.Communicates() && in.Loop == nil
		if observe {
			opts.Observe.Before(r.observed(i))
		}
		began := time.Now()
		run := r.exec
		if opts.Finite && in.Loop == nil {
			run = r.finite
		}
		if r.remote != nil && in.On {
			run = r.remote.alone(r, i)
			if opts.Finite {
				run = r.finiteWhole(run)
			}
		}
		if err := run(ctx, in, r.groups[i]); err != nil {
			return r.fail(i, err)
		}
		if observe {
			opts.Observe.After(r.observed(i))
		}
		opts.Trace.add(r, in, began)
	}
	r.remote.trace(opts.Trace, r)
	return nil
}

// fail returns err as an *Error that names the instruction, or the part of a fused one
// that failed. It is instruction i, unless a *QueueError names an earlier one on the
// device.
func (r *rank) fail(i int, err error) error {
	if _, inside := err.(*iterationError); inside {
		in := &r.plan.Instrs[i]
		return &Error{r.plan.Name, r.comm.Rank(), i, in.Name(), in.Pos, err}
	}
	var q *QueueError
	if errors.As(err, &q) {
		i, err = q.Index, q.Err
	}
	in := &r.plan.Instrs[i]
	if link := in.Link(err); link != nil {
		in = link
	}
	return &Error{r.plan.Name, r.comm.Rank(), i, in.Name(), in.Pos, err}
}

// exec runs an instruction; a collective runs in group g. If a kernel panics, which is a
// bug in the kernel, exec returns the panic as an error, so that no other rank waits for
// this one.
func (r *rank) exec(ctx context.Context, in *lowering.Instr, g collective.Group) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: %v\n%s", p, debug.Stack())
		}
	}()
	if in.Loop != nil {
		return r.loops[in].run(ctx, r, r.seq+in.Seq)
	}
	a := &r.args
	a.In, a.Out = a.In[:0], a.Out[:0]
	a.Scratch.Reset()
	for _, b := range in.In {
		a.In = append(a.In, r.bufs[b])
	}
	for _, b := range in.Out {
		a.Out = append(a.Out, r.bufs[b])
	}
	if in.Communicates() {
		c := collective.Call{Op: in.Name(), Seq: r.seq + in.Seq, DType: in.DType, Bytes: in.Bytes, Pos: in.Pos, Pairs: in.Pairs}
		a.Crew.Leave() // an exchange mostly waits for other ranks
		defer a.Crew.Enter()
		return in.Exchange(ctx, g, c, a)
	}
	if in.Keeps {
		return r.keep(in, a)
	}
	if in.Zones >= 0 {
		return r.ragged(in, a)
	}
	a.Separate(in.Indexed, in.Kept)
	return in.Kernel(a)
}

// ragged runs a kernel on the rows in use, and zeroes the rows between experts' zones in
// its ragged results. Rows past the last zone are never passed to a kernel and their
// contents are undefined: without a limit every rank has capacity for every pair, and
// most of it is unused.
func (r *rank) ragged(in *lowering.Instr, a *exec.Args) error {
	for i, b := range in.In {
		a.In[i] = r.seen(in, b)
	}
	for i, b := range in.Out {
		a.Out[i] = r.seen(in, b)
	}
	a.Separate(in.Indexed, in.Kept)
	if err := in.Kernel(a); err != nil {
		return err
	}
	for _, b := range in.Out {
		if r.plan.Bufs[b].Spec.Ragged != nil {
			zeroGaps(r.bufs[b], array.Data[int32](r.bufs[in.Zones]), in.Align)
		}
	}
	return nil
}

// seen returns the elements of buffer b that an instruction reads or writes: all of them
// or, for ragged rows, the rows of the experts' zones. The result is valid until the next
// call for b.
func (r *rank) seen(in *lowering.Instr, b int) array.Array {
	x := r.bufs[b]
	if in.Zones < 0 || r.plan.Bufs[b].Spec.Ragged == nil {
		return x
	}
	used := 0
	for _, n := range array.Data[int32](r.bufs[in.Zones]) {
		used += up(int(n), in.Align)
	}
	r.cut[b][0] = used
	return array.Over(graph.Type{DType: x.Type.DType, Shape: r.cut[b]}, x.Bytes())
}

// zeroGaps zeroes the rows that pad each expert's zone to the alignment.
func zeroGaps(a array.Array, counts []int32, align int) {
	rows := a.Type.Shape[0]
	if rows == 0 || align <= 1 {
		return
	}
	mem := a.Bytes()
	size := len(mem) / rows
	at := 0
	for _, n := range counts {
		end := at + up(int(n), align)
		clear(mem[(at+int(n))*size : end*size])
		at = end
	}
}

func up(n, align int) int {
	if align > 1 {
		return (n + align - 1) / align * align
	}
	return n
}
