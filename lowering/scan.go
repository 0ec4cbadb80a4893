package lowering

import (
	"slices"
	"strings"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// Loop has the fields of an instruction running the plan of a loop's body, once per
// iteration. Its arguments and results are as in graph.ScanOp. Iteration i reads and
// writes slice i of arrays with one slice per iteration, in place.
//
// The first iteration reads a carried value from the argument, and the last iteration
// writes it to the result. In between, the iterations alternate between the result and a
// second buffer. If the body overwrites the carried value (see Plan.Donated), all
// iterations work on the result, after copying the argument to it.
type Loop struct {
	Op   graph.ScanOp
	Body *Plan
	// Spare has, for each carried value, the second buffer of the instruction's plan, -1
	// if it needs none. Work is the buffer with the memory for the body's temporaries, -1
	// if there is none. Both are results of the instruction, after the others, and exist
	// once temporaries have places in the arena.
	Spare []int
	Work  int
}

// InPlace reports whether the body overwrites carried value j with its next value.
func (l *Loop) InPlace(j int) bool {
	return slices.ContainsFunc(l.Body.Donated, func(d Donation) bool { return d.In == l.Op.Consts+j && d.InPlace })
}

// Collectives returns the number of collectives run by the instruction: one for a
// collective, and the collectives of all iterations for a loop.
func (in *Instr) Collectives() int {
	switch {
	case in.Communicates():
		return 1
	case in.Loop != nil:
		return in.Loop.Op.Length * in.Loop.Body.Collectives()
	}
	return 0
}

// Collectives returns the number of collectives in a step of the plan.
func (p *Plan) Collectives() int {
	n := 0
	for i := range p.Instrs {
		n += p.Instrs[i].Collectives()
	}
	return n
}

// loops returns the loops of the plan.
func (p *Plan) loops() []*Loop {
	var list []*Loop
	for i := range p.Instrs {
		if l := p.Instrs[i].Loop; l != nil {
			list = append(list, l)
		}
	}
	return list
}

// Plans returns the plan and the plans of the bodies of its loops, at any depth.
func (p *Plan) Plans() []*Plan {
	list := []*Plan{p}
	for _, l := range p.loops() {
		list = append(list, l.Body.Plans()...)
	}
	return list
}

// scan emits a loop, with the plan of its body.
func (e *Emitter) scan(s graph.ScanOp, out, in []Buf) error {
	body, err := emit(e.ctx, e.asg.Decision[e.Eqn].Body, &Options{Sums: e.sums, Pairs: e.pairs})
	if err != nil {
		return err
	}
	l := &Loop{Op: s, Body: body, Spare: slices.Repeat([]int{-1}, s.Carry), Work: -1}
	e.emit(Instr{Op: ops.Scan, Zones: -1, Loop: l, Collective: Collective{Seq: e.seq}}, out, in)
	e.seq += s.Length * body.Collectives()
	return nil
}

// options returns the options for the passes on the body. Carried values donate their
// memory to the values carried on. Copies of inputs are not kept, because the inputs
// change from iteration to iteration.
func (l *Loop) options(o *Options) *Options {
	body := *o
	body.Keep, body.Check, body.Names = false, false, nil
	body.Donate = map[string]int{}
	for j, p := range l.Body.In[l.Op.Consts:][:l.Op.Carry] {
		if out := l.Body.Out[j]; p.Type.Equal(out.Type) && p.Spec.Equal(out.Spec) {
			body.Donate[p.Name] = j
		}
	}
	return &body
}

// rooms adds the buffers needed by the loops of the plan: the memory of their bodies'
// temporaries, and the second buffers of carried values.
func (p *Plan) rooms() {
	for i := range p.Instrs {
		in := &p.Instrs[i]
		l := in.Loop
		if l == nil {
			continue
		}
		room := func(t graph.Type) int {
			p.Bufs = append(p.Bufs, Buffer{Type: t, Global: t, Pos: in.Pos, Def: -1, Last: -1})
			in.Out = append(in.Out, len(p.Bufs)-1)
			return len(p.Bufs) - 1
		}
		for j := range l.Spare {
			if l.Op.Length > 1 && !l.InPlace(j) {
				l.Spare[j] = room(p.Bufs[in.Out[j]].Type)
			}
		}
		if l.Body.Arena > 0 {
			l.Work = room(graph.T(graph.U8, int(l.Body.Arena)))
		}
	}
}

// print prints the body's plan, indented.
func (l *Loop) print(b *strings.Builder) {
	var body strings.Builder
	l.Body.lines(&body)
	for line := range strings.Lines(body.String()) {
		b.WriteString("\t    | ")
		b.WriteString(strings.TrimPrefix(line, "\t"))
	}
}

// loops checks the bodies of the plan's loops, and that the loops fit them.
func (c *checker) loops() error {
	for i := range c.Instrs {
		in := &c.Instrs[i]
		l := in.Loop
		if l == nil {
			continue
		}
		if err := l.Body.Check(); err != nil {
			return c.at(i, none, "%w", err)
		}
		rooms := 0
		for _, b := range append(slices.Clone(l.Spare), l.Work) {
			if b >= 0 {
				rooms++
			}
		}
		if len(in.Out) < rooms {
			return c.at(i, none, "has %d results, want room for %d", len(in.Out), rooms)
		}
		s := l.Op
		args, results := in.In, in.Out[:len(in.Out)-rooms]
		if len(l.Body.In) != len(s.Body.In) || len(l.Body.Out) != len(s.Body.Out) {
			return c.at(i, none, "has a body of %d inputs and %d results, want %d and %d", len(l.Body.In), len(l.Body.Out), len(s.Body.In), len(s.Body.Out))
		}
		if err := c.slices(i, l.Body, l.Body.In, args, s.Consts+s.Carry, s.InTables, s.Length); err != nil {
			return err
		}
		if err := c.slices(i, l.Body, l.Body.Out, results, s.Carry, s.OutTables, s.Length); err != nil {
			return err
		}
		for j, b := range l.Spare {
			if b >= 0 && (!c.is(b) || !c.Bufs[b].Type.Equal(c.Bufs[in.Out[j]].Type)) {
				return c.at(i, b, "is the second buffer of carried value %d, want its type", j)
			}
		}
		if l.Work >= 0 && (!c.is(l.Work) || c.Bufs[l.Work].Type.Bytes() < l.Body.Arena) {
			return c.at(i, l.Work, "is memory for the body, want %d bytes", l.Body.Arena)
		}
	}
	return nil
}

// slices checks that the buffers of a loop have the memory of the ports of its body: one
// for each of the first whole ports, and for each of the others a slice per iteration, in
// one buffer or, for tables, in one buffer each.
func (c *checker) slices(i int, body *Plan, ports []Port, bufs []int, whole int, tables []int, length int) error {
	for j, q := range ports {
		n, size := 1, body.Bufs[q.Buf].Type.Bytes()
		switch {
		case j < whole:
		case slices.Contains(tables, j-whole):
			n = length
		default:
			size *= int64(length)
		}
		if n > len(bufs) {
			return c.at(i, none, "has too few buffers for %s of its body", q.Name)
		}
		for _, b := range bufs[:n] {
			if got := c.Bufs[b].Type.Bytes(); got != size {
				return c.at(i, b, "has %d bytes, but %s of the body takes %d", got, q.Name, size)
			}
		}
		bufs = bufs[n:]
	}
	if len(bufs) > 0 {
		return c.at(i, bufs[0], "belongs to nothing of the body")
	}
	return nil
}
