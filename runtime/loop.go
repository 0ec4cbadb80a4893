package runtime

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
)

// loop runs a loop of a rank's plan: a rank of its own for the body's plan. The body's
// inputs and results lie in the memory of the loop's arguments and results.
type loop struct {
	in   *lowering.Instr
	body *rank
	// The groups of in.In and in.Out; see graph.ScanArgs.
	consts, carry, last []int
	each, made          [][]int
}

// newLoops makes the loops of r's plan. Their temporaries lie in buffers that r's plan
// reserves for them.
func (r *rank) newLoops(h *heap) error {
	for i := range r.plan.Instrs {
		in := &r.plan.Instrs[i]
		if in.Loop == nil {
			continue
		}
		s := in.Loop.Op
		l := &loop{in: in}
		l.consts, l.carry, l.each = graph.ScanArgs(s, in.In)
		l.last, l.made = graph.ScanResults(s, in.Out)
		work := array.New(graph.T(graph.U8, 0))
		if in.Loop.Work >= 0 {
			work = r.bufs[in.Loop.Work]
		}
		var err error
		if l.body, err = newRankOn(in.Loop.Body, r.comm, h, func(*rank, int, *heap) ([]byte, error) { return work.Bytes(), nil }); err != nil {
			return err
		}
		r.hold.also(l.body.hold.close)
		if r.loops == nil {
			r.loops = map[*lowering.Instr]*loop{}
		}
		r.loops[in], r.bodies = l, append(r.bodies, l.body)
	}
	return nil
}

// run runs all iterations. Its collectives are numbered from seq, the instruction's
// number.
func (l *loop) run(ctx context.Context, r *rank, seq int) error {
	s, b := l.in.Loop.Op, l.body
	b.opts, b.args.Threads, b.args.Crew, b.args.Scratch = r.opts, r.args.Threads, r.args.Crew, r.args.Scratch
	for j, c := range l.last {
		if l.in.Loop.InPlace(j) {
			copy(r.bufs[c].Bytes(), r.bufs[l.carry[j]].Bytes())
		}
	}
	for k, c := range l.consts {
		if to := b.plan.In[k].Buf; r.bufs[c].HasSlabs() {
			b.bufs[to] = r.bufs[c]
		} else {
			b.view(to, r.bufs[c].Bytes())
		}
	}
	each := b.plan.Collectives()
	for n := range s.Length {
		i := n
		if s.Reverse {
			i = s.Length - 1 - n
		}
		b.seq, b.iteration = seq+n*each, i
		for j := range l.carry {
			b.view(b.plan.In[s.Consts+j].Buf, r.bufs[l.carriedInto(n, j)].Bytes())
			b.view(b.plan.Root(b.plan.Out[j].Buf), r.bufs[l.carriedInto(n+1, j)].Bytes())
		}
		for j, list := range l.each {
			b.slice(b.plan.In[s.Consts+s.Carry+j].Buf, r, list, i)
		}
		for j, list := range l.made {
			b.slice(b.plan.Out[s.Carry+j].Buf, r, list, i)
		}
		for _, v := range b.views {
			b.view(v.buf, b.bufs[v.root].Bytes())
		}
		if err := b.step(ctx); err != nil {
			return &iterationError{i, err}
		}
		b.lane.settle()
	}
	return nil
}

// carriedInto returns the buffer of carried value j before iteration n, or after the last
// one.
func (l *loop) carriedInto(n, j int) int {
	s := l.in.Loop.Op
	switch {
	case l.in.Loop.InPlace(j):
		return l.last[j]
	case n == 0:
		return l.carry[j]
	case (s.Length-n)%2 == 0:
		return l.last[j]
	}
	return l.in.Loop.Spare[j]
}

// view makes buffer b the array in mem.
func (r *rank) view(b int, mem []byte) { r.bufs[b] = array.Over(r.plan.Bufs[b].Type, mem) }

// slice makes buffer b slice i of an array of the rank outer: slice i of bufs[0], or
// bufs[i] of a table. If b shares the memory of another buffer, that is where it lies.
func (r *rank) slice(b int, outer *rank, bufs []int, i int) {
	b = r.plan.Root(b)
	if len(bufs) > 1 {
		r.view(b, outer.bufs[bufs[i]].Bytes())
		return
	}
	size := int(r.plan.Bufs[b].Type.Bytes())
	r.view(b, outer.bufs[bufs[0]].Bytes()[i*size:])
}

// iterationError adds the iteration of a loop to an error.
type iterationError struct {
	i   int
	err error
}

func (e *iterationError) Error() string { return fmt.Sprintf("iteration %d: %v", e.i, e.err) }
func (e *iterationError) Unwrap() error { return e.err }

// settle ends a step of the rank and of the bodies of its loops.
func (r *rank) settle() {
	for _, b := range r.bodies {
		b.settle()
		if b.hold.lost && !r.hold.lost {
			r.lose()
		}
	}
	r.lane.settle()
	r.remote.settle(r)
}

// end ends the rank's goroutines, including those for the bodies of its loops.
func (r *rank) end() {
	for _, b := range r.bodies {
		b.end()
	}
	if r.worker != nil { // a body runs on the worker of the rank around it
		r.worker.end()
	}
	r.lane.end()
}
