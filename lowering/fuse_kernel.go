package lowering

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

const (
	// chunkBytes is the memory that the values of a chunk take together, of what
	// is read, written and in between: a part of a second-level cache.
	chunkBytes = 192 << 10
	// Chunks have at least leastChunk elements, over which the call of a kernel
	// is spread, and at most mostChunk. Both are multiples of a cache line.
	leastChunk, mostChunk = 512, 4096
)

// PartError is the error of one part of a fused instruction.
type PartError struct {
	Part int // of Instr.Parts
	Err  error
}

func (e *PartError) Error() string { return e.Err.Error() }
func (e *PartError) Unwrap() error { return e.Err }

// chain is the kernel of a fused instruction. It is immutable.
type chain struct {
	parts []link
	slots []int // bytes of an element of each value that is inside, then of each result
	at    []int // where their slots begin, in bytes for each element of a chunk
	width int   // bytes of all slots, likewise
	step  int   // elements of a chunk
	// lastRead is the last part that reads an argument, by argument; wrote is the
	// part that writes a result, by result.
	lastRead, wrote []int
}

// link is one part of a chain.
type link struct {
	kernel  Kernel
	in, out []operand
	repeat  int
	once    bool // the same for every chunk: run for the first one only
}

// operand says where a part's argument or result lies.
type operand struct {
	place place
	index int
	dtype graph.DType
	whole bool // has no dimensions, and is given as it is
}

type place uint8

const (
	ofArgument place = iota
	ofResult
	ofSlot
)

// chainOf returns the kernel of a fused instruction, whose parts, arguments and
// results are there. chunk is that of Options.
func (p *Plan) chainOf(in *Instr, chunk int) *chain {
	c := &chain{lastRead: make([]int, len(in.In)), wrote: make([]int, len(in.Out))}
	at := map[int]operand{} // by root, of what parts write
	dies := map[int]int{}   // part that reads a root last
	for k := range in.Parts {
		for _, b := range in.Parts[k].In {
			dies[p.Root(b)] = k
		}
	}
	var free []int // slots that nobody reads any more
	held := map[int]int{}
	slot := func(size int) int {
		for i, s := range free {
			if c.slots[s] == size {
				free = slices.Delete(free, i, i+1)
				return s
			}
		}
		c.slots = append(c.slots, size)
		return len(c.slots) - 1
	}
	for k := range in.Parts {
		part := &in.Parts[k]
		l := link{kernel: part.Kernel, repeat: part.Repeat}
		for _, b := range part.In {
			t := p.Bufs[b].Type
			if o, ok := at[p.Root(b)]; ok {
				o.dtype = t.DType
				l.in = append(l.in, o)
				continue
			}
			i := slices.Index(in.In, b)
			c.lastRead[i] = k
			l.in = append(l.in, operand{ofArgument, i, t.DType, part.Repeat > 0 || t.Rank() == 0})
		}
		l.once = len(part.In) == 0 || part.Repeat > 0 && p.Bufs[part.In[0]].Type.Len() == 1
		var gone []int // the results may lie where arguments lay that are read here last
		if !l.once {
			for r, s := range held {
				if dies[r] == k {
					gone = append(gone, s)
					delete(held, r)
				}
			}
			slices.Sort(gone)
			free = append(free, gone...)
		}
		for _, b := range part.Out {
			r, t := p.Root(b), p.Bufs[b].Type
			o := operand{place: ofSlot, dtype: t.DType}
			if i := slices.Index(in.Out, b); i >= 0 {
				o.place, o.index = ofResult, i
				c.wrote[i] = k
				l.once = false
			} else if l.once { // nobody else has this slot, in any chunk
				c.slots = append(c.slots, t.DType.Size())
				o.index = len(c.slots) - 1
			} else {
				o.index = slot(t.DType.Size())
				held[r] = o.index
			}
			at[r] = o
			l.out = append(l.out, o)
		}
		c.parts = append(c.parts, l)
	}
	width := 0
	for _, b := range in.In {
		width += p.Bufs[b].Type.DType.Size()
	}
	for _, b := range in.Out {
		c.slots = append(c.slots, p.Bufs[b].Type.DType.Size())
	}
	for _, s := range c.slots {
		c.at = append(c.at, c.width)
		c.width += s
	}
	width += c.width
	n := p.Bufs[in.Out[0]].Type.Len()
	c.step = min(max(chunkBytes/width/64*64, leastChunk), mostChunk, max(8, (n+7)/8*8))
	if chunk > 0 {
		c.step = (chunk + 7) / 8 * 8
	}
	return c
}

// chunks is what a rank keeps for chains between calls.
type chunks struct {
	chain  *chain
	args   *Args
	staged []bool // by result: written to a slot first, see stage
	walks  []*walk
	next   atomic.Int32 // walks that are taken
}

// walk is one goroutine's way through a chain.
type walk struct {
	*chunks
	args  Args
	shape [1]int // of every array of the chunk
	mem   []byte // the slots
	part  int    // what runs
	err   error
}

// kernel runs the chain.
func (c *chain) kernel(a *Args) error {
	s := a.Scratch
	if s == nil {
		s = new(Scratch)
	}
	if s.chunks == nil {
		s.chunks = new(chunks)
	}
	w := s.chunks
	w.chain, w.args = c, a
	w.stage()
	for len(w.walks) < max(a.Threads, 1) {
		w.walks = append(w.walks, &walk{chunks: w})
	}
	w.next.Store(0)
	a.Share(a.Out[0].Type.Len(), max(c.step, (1<<16)/len(c.parts)), w)
	var first *PartError // of the first part that has failed in any piece
	for _, k := range w.walks[:w.next.Load()] {
		if k.err != nil && (first == nil || k.part < first.Part) {
			first = &PartError{k.part, k.err}
		}
		k.err = nil
		clear(k.args.In)
		clear(k.args.Out)
	}
	w.args = nil
	if first != nil {
		return first
	}
	return nil
}

// stage marks the results that lie in the memory of an argument which a later
// part reads. They are written to a slot and copied when the chunk is complete.
func (w *chunks) stage() {
	c := w.chain
	w.staged = append(w.staged[:0], make([]bool, len(w.args.Out))...)
	for i := range w.args.Out {
		out := w.args.Out[i].Bytes()
		for j := range w.args.In {
			in := w.args.In[j].Bytes()
			if len(out) > 0 && len(in) > 0 && &out[0] == &in[0] && c.lastRead[j] > c.wrote[i] {
				w.staged[i] = true
			}
		}
	}
}

// Piece runs the chain on elements lo to hi.
func (w *chunks) Piece(lo, hi int) {
	k := w.walks[w.next.Add(1)-1] // one that nobody else has
	defer func() {
		if r := recover(); r != nil {
			k.err = fmt.Errorf("internal error: %v\n%s", r, debug.Stack())
		}
	}()
	k.run(lo, hi)
}

// run runs the chain on elements lo to hi.
func (w *walk) run(lo, hi int) {
	c, a := w.chain, w.chunks.args
	w.args.Mesh, w.args.Rank, w.args.Threads = a.Mesh, a.Rank, 1
	if w.args.Scratch == nil {
		w.args.Scratch = new(Scratch)
	}
	if n := c.width * c.step; len(w.mem) < n {
		words := make([]uint64, (n+7)/8)
		w.mem = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))
	}
	for at := lo; ; at += c.step {
		n := min(c.step, hi-at)
		w.shape[0] = n
		for i := range c.parts {
			if l := &c.parts[i]; !l.once || at == lo {
				w.part = i
				if w.err = w.link(l, at, n); w.err != nil {
					return
				}
			}
		}
		for i, yes := range w.staged {
			if yes {
				d := a.Out[i].Type.DType
				copy(w.array(operand{place: ofResult, index: i, dtype: d}, at, n, false).Bytes(),
					w.array(operand{place: ofResult, index: i, dtype: d}, at, n, true).Bytes())
			}
		}
		if at+n >= hi {
			return
		}
	}
}

// link runs one part on the n elements from at on.
func (w *walk) link(l *link, at, n int) error {
	in, out := w.args.In[:0], w.args.Out[:0]
	for _, o := range l.in {
		in = append(in, w.array(o, at, n, true))
	}
	for _, o := range l.out {
		out = append(out, w.array(o, at, n, true))
	}
	w.args.In, w.args.Out = in, out
	if l.repeat > 0 {
		repeat(out[0].Bytes(), in[0].Bytes(), out[0].Type.DType.Size(), l.repeat, at)
		return nil
	}
	w.args.Scratch.Reset()
	return l.kernel(&w.args)
}

// array returns n elements of an operand from at on; of a staged result those
// in its slot, if staged is true.
func (w *walk) array(o operand, at, n int, staged bool) array.Array {
	t := graph.Type{DType: o.dtype, Shape: w.shape[:]}
	size := o.dtype.Size()
	a := w.chunks.args
	switch {
	case o.place == ofArgument && o.whole:
		return a.In[o.index]
	case o.place == ofArgument:
		return array.Over(t, a.In[o.index].Bytes()[at*size:])
	case o.place == ofResult && !(staged && w.staged[o.index]):
		return array.Over(t, a.Out[o.index].Bytes()[at*size:])
	}
	slot := o.index
	if o.place == ofResult {
		slot += len(w.chain.slots) - len(w.staged)
	}
	return array.Over(t, w.mem[w.chain.at[slot]*w.chain.step:])
}

// repeat writes to dst, of elements of that size, those at i/inner modulo the
// length of src for i from at on.
func repeat(dst, src []byte, size, inner, at int) {
	n := len(src) / size
	if n == 0 || len(dst) == 0 {
		return
	}
	if inner == 1 {
		// A row again and again: once in its length, then what is there doubled.
		k := copy(dst, src[at%n*size:])
		for start := k; k < len(dst); {
			if k-start < len(src) {
				k += copy(dst[k:], src[k-start:])
			} else {
				k += copy(dst[k:], dst[start:k])
			}
		}
		return
	}
	for k := 0; k < len(dst); {
		i := at + k/size
		run := min((inner-i%inner)*size, len(dst)-k)
		from := i / inner % n * size
		spread(dst[k:k+run], src[from:from+size])
		k += run
	}
}

// spread fills dst with copies of one element.
func spread(dst, one []byte) {
	for k := copy(dst, one); k < len(dst); {
		k += copy(dst[k:], dst[:k])
	}
}

// PartOf returns which part of a fused instruction err is about, nil for none.
func PartOf(in *Instr, err error) *Instr {
	var e *PartError
	if errors.As(err, &e) && e.Part < len(in.Parts) {
		return &in.Parts[e.Part]
	}
	return nil
}
