package lowering

import (
	"cmp"
	"fmt"
	"slices"
)

// values checks that every buffer is written once, and that memory still holds a buffer
// when it is read. It tracks the contents of memory after each instruction.
func (c *checker) values() error {
	writer := make([]int, len(c.Bufs))
	for b := range writer {
		writer[b] = -1
	}
	for i := range c.Instrs {
		for _, b := range c.Instrs[i].Out {
			if writer[b] >= 0 {
				return c.at(i, b, "is written a second time, first by instruction %d", writer[b])
			}
			writer[b] = i
		}
	}
	// made returns the buffer viewed by b: the first one along its aliases that an
	// instruction writes or that owns memory.
	made := func(b int) int {
		for writer[b] < 0 && c.Bufs[b].Storage == Alias {
			b = c.Bufs[b].Of
		}
		return b
	}
	holds := make([]int, len(c.Bufs)) // per buffer owning memory: the buffer written there last
	for b := range holds {
		holds[b] = -1
	}
	for _, q := range c.In {
		if writer[q.Buf] >= 0 {
			return c.at(writer[q.Buf], q.Buf, "is input %s, and is written", q.Name)
		}
		holds[q.Buf] = q.Buf
	}
	for i := range c.Instrs {
		in := &c.Instrs[i]
		for _, b := range c.inputs(in) {
			if err := c.reads(i, b, made(b), holds[c.Root(b)]); err != nil {
				return err
			}
		}
		var roots []int
		for k, o := range in.Out {
			r := c.Root(o)
			if slices.Contains(roots, r) {
				return c.at(i, o, "has the memory of another result")
			}
			roots = append(roots, r)
			over := c.zones(in) == r
			for a, b := range in.In {
				over = over || c.Root(b) == r && !in.mayCover(k, &c.Bufs[o], a, &c.Bufs[b])
			}
			if over {
				return c.at(i, o, "is written over an argument, which the instruction does not do")
			}
			holds[r] = o
		}
	}
	for _, q := range c.Out {
		if b := made(q.Buf); holds[c.Root(q.Buf)] != b {
			return c.of(q.Buf, "result %s is not in its memory at the end: b%d is", q.Name, holds[c.Root(q.Buf)])
		}
	}
	return nil
}

// reads checks that memory holds the buffer made when instruction i reads b, a view of
// made. there is the buffer actually held, -1 for none.
func (c *checker) reads(i, b, made, there int) error {
	switch there {
	case made:
		return nil
	case -1:
		return c.at(i, b, "is read before it is written")
	}
	return c.at(i, b, "is read where b%d has been written over it", there)
}

// beside checks that kernels running during an exchange do not write the exchange's
// arguments, nor touch its results.
func (c *checker) beside() error {
	for k := range c.Instrs {
		x := &c.Instrs[k]
		for i := k + 1; i < x.Wait; i++ {
			in := &c.Instrs[i]
			if in.Communicates() {
				continue // collectives run one after another
			}
			for _, b := range slices.Concat(c.inputs(in), in.Out) {
				if c.touches([]int{b}, x.Out) || slices.Contains(in.Out, b) && c.touches([]int{b}, x.In) {
					return c.at(i, b, "is touched while collective #%d, instruction %d, is at work on it", x.Seq, k)
				}
			}
		}
	}
	return nil
}

// touches reports whether a buffer of x shares memory with a buffer of y.
func (c *checker) touches(x, y []int) bool {
	if c.unplaced {
		return slices.ContainsFunc(x, func(a int) bool {
			return slices.ContainsFunc(y, func(b int) bool { return c.Root(a) == c.Root(b) && c.Bufs[c.Root(a)].Type.Bytes() > 0 })
		})
	}
	return meet(c.extents(x), c.extents(y))
}

// life is the range of instructions during which a buffer owning memory is in use.
type life struct{ buf, from, to int }

// memory checks that temporaries lie inside the arena, and do not overlap while they
// live.
func (c *checker) memory() error {
	if c.unplaced {
		return nil
	}
	fresh := *c.Plan
	fresh.Bufs = slices.Clone(c.Bufs)
	fresh.lifetimes()
	var list []life
	for b, buf := range fresh.Bufs {
		if buf.Storage != Temp || buf.Def < 0 || buf.Type.Bytes() == 0 {
			continue
		}
		if buf.Offset < 0 || buf.Offset%align != 0 || buf.Offset+padded(buf.Type.Bytes()) > c.Arena {
			return c.at(buf.Def, b, "lies at %d of the arena, want a multiple of %d and an end before %d", buf.Offset, align, c.Arena)
		}
		list = append(list, life{b, buf.Def, buf.Last})
	}
	slices.SortStableFunc(list, func(x, y life) int { return cmp.Compare(x.from, y.from) })
	var there []life // the buffers alive at the same time, by offset; they do not overlap
	for _, l := range list {
		there = slices.DeleteFunc(there, func(o life) bool { return o.to < l.from })
		at := c.Bufs[l.buf].Offset
		k, _ := slices.BinarySearchFunc(there, at, func(o life, at int64) int { return cmp.Compare(c.Bufs[o.buf].Offset, at) })
		for _, n := range []int{k - 1, k} {
			if n < 0 || n >= len(there) {
				continue
			}
			if o := &c.Bufs[there[n].buf]; o.Offset < at+c.Bufs[l.buf].Type.Bytes() && at < o.Offset+o.Type.Bytes() {
				return c.at(l.from, l.buf, "lies in %s of the arena, where b%d is until instruction %d", place(&c.Bufs[l.buf]), there[n].buf, there[n].to)
			}
		}
		there = slices.Insert(there, k, l)
	}
	return nil
}

func place(b *Buffer) string { return fmt.Sprintf("%d to %d", b.Offset, b.Offset+b.Type.Bytes()) }
