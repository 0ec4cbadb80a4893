package lowering

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/graph"
)

// Check returns an error if ranks cannot run the plan. The error is the first one that
// Check finds, with the instruction, its line and the buffer. A plan passes Check after
// every pass; the arena is checked once temporaries have places there.
//
//   - Every index of a buffer, instruction, argument or port is valid.
//   - An alias leads to a buffer that owns memory and has at least as many bytes.
//   - A buffer is written once, and before it is read. If several buffers share
//     memory, an instruction reads only the buffer that was written there last. A result
//     shares the memory of an argument only if its instruction works in place.
//   - Temporaries share memory only if the life of one ends before the life of the
//     other begins. Instructions running during an exchange do not write the
//     exchange's arguments, nor touch its results.
//   - Collectives are numbered consecutively in execution order, the same on every
//     rank. A loop counts as the collectives of all its iterations.
//   - A loop's body passes Check, and its inputs and results have the memory of the loop's.
//   - A kept copy is a copy of an input, is made once, and is read by instructions that
//     ask for it.
func (p *Plan) Check() error {
	c := checker{p}
	for _, step := range []func() error{c.aliases, c.ports, c.instrs, c.loops, c.collectives, c.copies, c.values, c.beside, c.memory} {
		if err := step(); err != nil {
			return fmt.Errorf("lowering: plan %s: %w", p.Name, err)
		}
	}
	return nil
}

// checker is a plan being checked.
type checker struct{ *Plan }

// none is the buffer argument of at for errors about no buffer.
const none = -1 << 31

// at returns an error about instruction i, and about buffer b unless b is none.
func (c *checker) at(i, b int, format string, args ...any) error {
	in := &c.Instrs[i]
	where := fmt.Sprintf("instruction %d, %s (%s)", i, in.Name(), in.Pos)
	if c.is(b) {
		where += fmt.Sprintf(": b%d %s", b, c.Bufs[b].Type)
	} else if b != none {
		where += fmt.Sprintf(": b%d", b)
	}
	return fmt.Errorf("%s: %w", where, fmt.Errorf(format, args...))
}

// of returns an error about buffer b and no instruction.
func (c *checker) of(b int, format string, args ...any) error {
	return fmt.Errorf("b%d (%s): %s", b, c.Bufs[b].Pos, fmt.Sprintf(format, args...))
}

func (c *checker) is(b int) bool { return 0 <= b && b < len(c.Bufs) }

// aliases checks aliases. It runs first, because the other checks use Root.
func (c *checker) aliases() error {
	for b := range c.Bufs {
		root := b
		for n := 0; c.Bufs[root].Storage == Alias; n++ {
			next := c.Bufs[root].Of
			if !c.is(next) {
				return c.of(root, "is an alias of b%d, want one of %d buffers", next, len(c.Bufs))
			}
			if n > len(c.Bufs) {
				return c.of(b, "is an alias of itself")
			}
			root = next
		}
		if got, want := c.Bufs[root].Type.Bytes(), c.Bufs[b].Type.Bytes(); got < want {
			return c.of(b, "has %d bytes in the memory of b%d, which has %d", want, root, got)
		}
	}
	return nil
}

func (c *checker) ports() error {
	for _, list := range [][]Port{c.In, c.Out} {
		for _, q := range list {
			if !c.is(q.Buf) {
				return fmt.Errorf("%s has b%d, want one of %d buffers", q.Name, q.Buf, len(c.Bufs))
			}
		}
	}
	for _, q := range c.In {
		if s := c.Bufs[q.Buf].Storage; s != Input {
			return c.of(q.Buf, "input %s has no memory of the caller's", q.Name)
		}
	}
	for _, q := range c.Out {
		if s := c.Bufs[c.Root(q.Buf)].Storage; s != Output && s != Input {
			return c.of(q.Buf, "result %s has no memory of the caller's", q.Name)
		}
	}
	for _, d := range c.Donated {
		if d.In < 0 || d.In >= len(c.In) || d.Out < 0 || d.Out >= len(c.Out) {
			return fmt.Errorf("input %d is donated to result %d, want of %d and %d", d.In, d.Out, len(c.In), len(c.Out))
		}
		in, out := c.In[d.In], c.Out[d.Out]
		if !in.Type.Equal(out.Type) || !in.Spec.Equal(out.Spec) {
			return c.of(out.Buf, "result %s %s takes over input %s %s, want the same type and placement", out.Name, out.Spec.Format(out.Type), in.Name, in.Spec.Format(in.Type))
		}
		if same := c.Root(in.Buf) == c.Root(out.Buf); same != d.InPlace {
			return c.of(out.Buf, "result %s has the memory of input %s: %v, want %v", out.Name, in.Name, same, d.InPlace)
		}
	}
	return nil
}

// instrs checks each instruction by itself.
func (c *checker) instrs() error {
	for i := range c.Instrs {
		in := &c.Instrs[i]
		if err := c.operands(i, in); err != nil {
			return err
		}
		if kinds := holding(in.Kernel != nil, in.Communicates(), in.Loop != nil); kinds != 1 {
			return c.at(i, none, "has %d of a kernel, an exchange and a loop, want one", kinds)
		}
		if n := len(in.Chain); n == 1 || n > 0 && in.Communicates() {
			return c.at(i, none, "is a chain of %d instructions, want kernels, two or more", n)
		}
		if in.On && (c.Target == "" || in.Communicates() || in.Why != "") {
			return c.at(i, none, "runs on a device, want a kernel of a plan for one")
		}
		links := map[int]bool{} // the owners of the memory written so far by the chain
		for k := range in.Chain {
			link := &in.Chain[k]
			if err := c.operands(i, link); err != nil {
				return err
			}
			for _, b := range link.In {
				if !links[c.Root(b)] && !slices.Contains(in.In, b) {
					return c.at(i, b, "is read by %s in the chain, and is no argument of it nor written before", link.Name())
				}
			}
			for _, b := range link.Out {
				links[c.Root(b)] = true
				if c.Bufs[c.Root(b)].Storage != Chunk && !slices.Contains(in.Out, b) {
					return c.at(i, b, "is written by %s in the chain, and is no result of it", link.Name())
				}
			}
		}
		for _, b := range slices.Concat(in.In, in.Out) {
			if c.Bufs[c.Root(b)].Storage == Chunk {
				return c.at(i, b, "lies inside a chain alone")
			}
			if len(in.Chain) > 0 && slices.Contains(in.Out, b) && !links[c.Root(b)] {
				return c.at(i, b, "is written by none in the chain")
			}
		}
	}
	return nil
}

// holding returns the number of true conditions.
func holding(conditions ...bool) int {
	n := 0
	for _, yes := range conditions {
		if yes {
			n++
		}
	}
	return n
}

// operands checks the buffers of in, which is instruction i or an instruction of its chain.
func (c *checker) operands(i int, in *Instr) error {
	for _, b := range slices.Concat(in.In, in.Out) {
		if !c.is(b) {
			return c.at(i, b, "is no buffer, want one of %d", len(c.Bufs))
		}
	}
	own := len(in.In) - len(in.Kept) - len(in.Indexed)
	for _, arg := range in.Indexed {
		if arg < 0 || arg >= own {
			return c.at(i, none, "reads argument %d through an index, want one of %d", arg, max(own, 0))
		}
		at := in.In[in.IndexOf(arg)]
		if t := c.Bufs[at].Type; t.DType != graph.I32 || t.Rank() != 1 {
			return c.at(i, at, "is the index of argument %d, want i32[rows]", arg)
		}
	}
	if in.Zones < 0 {
		return nil
	}
	if !c.is(in.Zones) {
		return c.at(i, in.Zones, "counts rows and is no buffer, want one of %d", len(c.Bufs))
	}
	if t := c.Bufs[in.Zones].Type; t.DType != graph.I32 || t.Rank() != 1 {
		return c.at(i, in.Zones, "counts rows, want i32[experts]")
	}
	return nil
}

func (c *checker) collectives() error {
	seq := 0
	for i := range c.Instrs {
		in := &c.Instrs[i]
		if !in.Communicates() {
			if in.Wait != 0 {
				return c.at(i, none, "is no collective and is waited for before instruction %d", in.Wait)
			}
			if n := in.Collectives(); n > 0 && in.Seq != seq {
				return c.at(i, none, "begins with collective #%d, want #%d", in.Seq, seq)
			}
			seq += in.Collectives()
			continue
		}
		if in.Seq != seq {
			return c.at(i, none, "is collective #%d, want #%d", in.Seq, seq)
		}
		seq++
		if len(in.Axes) == 0 {
			return c.at(i, none, "is a collective over no axes")
		}
		for _, a := range in.Axes {
			if c.Mesh.Size(a) < 2 {
				return c.at(i, none, "is a collective over %s, which the mesh %q does not split", a, c.Mesh)
			}
		}
		if in.Wait != 0 && (in.Wait <= i+1 || in.Wait > len(c.Instrs)) {
			return c.at(i, none, "is waited for before instruction %d, want one of %d to %d", in.Wait, i+2, len(c.Instrs))
		}
	}
	return nil
}

// copies checks the instructions that make and read kept copies of inputs.
func (c *checker) copies() error {
	source := map[int]int{} // per copy: its source input
	for i := range c.Instrs {
		in := &c.Instrs[i]
		if in.Keeps {
			if len(in.In) != 1 || len(in.Out) != 1 || c.Bufs[in.Out[0]].Storage != Kept {
				return c.at(i, in.Out[0], "is made by an instruction that keeps a copy, and is none")
			}
			if root := c.Root(in.In[0]); c.Bufs[root].Storage != Input {
				return c.at(i, in.In[0], "is no input: there is nothing to keep of it")
			}
			source[in.Out[0]] = c.Root(in.In[0])
			continue
		}
		own := len(in.In) - len(in.Kept)
		for k, arg := range in.Kept {
			if own < 0 || arg < 0 || arg >= own {
				return c.at(i, none, "has a copy of argument %d, want one of %d", arg, max(own, 0))
			}
			of, ok := source[in.In[own+k]]
			if !ok {
				return c.at(i, in.In[own+k], "is no copy that was kept before")
			}
			if of != c.Root(in.In[arg]) {
				return c.at(i, in.In[own+k], "is a copy of b%d, want of argument %d, b%d", of, arg, in.In[arg])
			}
		}
		for _, b := range in.In[:own] {
			if c.Bufs[b].Storage == Kept {
				return c.at(i, b, "is a copy that is kept, and is read as another argument")
			}
		}
	}
	return nil
}
