package exec

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

const (
	// chunkBytes is the size of all values of a chunk together: those that are read,
	// written and intermediate. It is a part of a second-level cache.
	chunkBytes = 192 << 10
	// Chunks have at least leastChunk elements, so that the cost of calling a kernel is
	// spread over them, and at most mostChunk. Both numbers are multiples of a cache
	// line.
	leastChunk, mostChunk = 512, 4096
)

// Operand is an argument or a result of a chain or of one of its links.
type Operand struct {
	Buf  int // tells the operand apart from others
	Mem  int // identifies the memory: operands that differ only in type have the same Mem
	Type graph.Type
}

// Link is one step of a chain: an elementwise kernel. Each element of a result depends
// only on the arguments' elements at the same place and on arguments without dimensions.
// All other arguments and results have as many elements as the chain has.
type Link struct {
	Kernel  Kernel
	In, Out []Operand
	// Repeat, if not 0, makes the link a repetition, which needs no Kernel: element i of
	// the result is element (i/Repeat) mod n of the argument, where n is the argument's
	// length.
	Repeat int
}

// LinkError is the error of one link of a chain. It names the link.
type LinkError struct {
	Link int
	Err  error
}

func (e *LinkError) Error() string { return e.Err.Error() }
func (e *LinkError) Unwrap() error { return e.Err }

// chain is the kernel that runs several elementwise ones. It is immutable.
type chain struct {
	links []link
	slots []int // bytes per element of each intermediate value, then of each result
	at    []int // where the slots begin, in bytes per element of a chunk
	width int   // bytes of all slots per element of a chunk
	step  int   // elements per chunk
	// lastRead is, per argument, the last link that reads it; wrote is, per result, the
	// link that writes it.
	lastRead, wrote []int
}

// link is a Link with the places of its operands.
type link struct {
	kernel  Kernel
	in, out []operand
	repeat  int
	once    bool // the result is the same for every chunk: run for the first chunk only
}

// operand says where a link's argument or result lies.
type operand struct {
	place place
	index int
	dtype graph.DType
	whole bool // has no dimensions and is passed as it is
}

type place uint8

const (
	ofArgument place = iota
	ofResult
	ofSlot
)

// NewChain returns a kernel that runs the links one after another on chunks of the
// arrays, so that what one link writes is still in the cache when the next link reads
// it. It also returns the scratch memory, in bytes, that the kernel needs on every
// thread. Values that are neither arguments nor results exist only in that memory. in
// and out are the kernel's arguments and results. chunk is the number of elements of a
// chunk, rounded up to a multiple of 8; 0 means as many as the cache holds.
//
// The kernel may write a result over an argument of the same element type. If a link
// fails, the error is a LinkError.
// fails, its error is a LinkError.
func NewChain(in, out []Operand, links []Link, chunk int) (k Kernel, scratch int64) {
	c := &chain{lastRead: make([]int, len(in)), wrote: make([]int, len(out))}
	at := map[int]operand{} // by Mem: what links write
	dies := map[int]int{}   // by Mem: the last link that reads it
	for k := range links {
		for _, o := range links[k].In {
			dies[o.Mem] = k
		}
	}
	argument, result := indexes(in), indexes(out)
	free := map[int][]int{} // slots that are no longer read, by size
	held := map[int]int{}
	slot := func(size int) int {
		if f := free[size]; len(f) > 0 {
			free[size] = f[1:]
			return f[0]
		}
		c.slots = append(c.slots, size)
		return len(c.slots) - 1
	}
	for k := range links {
		from := &links[k]
		l := link{kernel: from.Kernel, repeat: from.Repeat}
		for _, a := range from.In {
			if o, ok := at[a.Mem]; ok {
				o.dtype = a.Type.DType
				l.in = append(l.in, o)
				continue
			}
			i := argument[a.Buf]
			c.lastRead[i] = k
			l.in = append(l.in, operand{ofArgument, i, a.Type.DType, from.Repeat > 0 || a.Type.Rank() == 0})
		}
		l.once = len(from.In) == 0 || from.Repeat > 0 && from.In[0].Type.Len() == 1
		var gone []int // not free yet: this link's results must not overwrite the arguments that it reads last
		if !l.once {
			for _, a := range from.In {
				if s, ok := held[a.Mem]; ok && dies[a.Mem] == k {
					gone = append(gone, s)
					delete(held, a.Mem)
				}
			}
			slices.Sort(gone)
			for _, s := range gone {
				free[c.slots[s]] = append(free[c.slots[s]], s)
			}
		}
		for _, r := range from.Out {
			o := operand{place: ofSlot, dtype: r.Type.DType}
			if i, ok := result[r.Buf]; ok {
				o.place, o.index = ofResult, i
				c.wrote[i] = k
				l.once = false
			} else if l.once { // no other value may use this slot, in any chunk
				c.slots = append(c.slots, r.Type.DType.Size())
				o.index = len(c.slots) - 1
			} else {
				o.index = slot(r.Type.DType.Size())
				held[r.Mem] = o.index
			}
			at[r.Mem] = o
			l.out = append(l.out, o)
		}
		c.links = append(c.links, l)
	}
	width := 0
	for _, a := range in {
		width += a.Type.DType.Size()
	}
	for _, r := range out {
		c.slots = append(c.slots, r.Type.DType.Size())
	}
	for _, s := range c.slots {
		c.at = append(c.at, c.width)
		c.width += s
	}
	width += c.width
	n := out[0].Type.Len()
	c.step = min(max(chunkBytes/width/64*64, leastChunk), mostChunk, max(8, (n+7)/8*8))
	if chunk > 0 {
		c.step = (chunk + 7) / 8 * 8
	}
	return c.kernel, int64(c.width * c.step)
}

// indexes returns the position of each buffer in list.
func indexes(list []Operand) map[int]int {
	at := make(map[int]int, len(list))
	for i, o := range list {
		if _, ok := at[o.Buf]; !ok {
			at[o.Buf] = i
		}
	}
	return at
}

// chunks is what a rank keeps between calls of chains.
type chunks struct {
	chain  *chain
	args   *Args
	staged []bool // by result: written to a slot first; see stage
	walks  []*walk
	next   atomic.Int32 // number of walks taken
}

// walk is the state of one goroutine that runs a chain.
type walk struct {
	*chunks
	args  Args
	shape [1]int // of every array of the chunk
	mem   []byte // the slots
	link  int    // the link that is running
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
	a.Share(a.Out[0].Type.Len(), max(c.step, (1<<16)/len(c.links)), w)
	var first *LinkError // the error of the earliest link that failed in any piece
	for _, k := range w.walks[:w.next.Load()] {
		if k.err != nil && (first == nil || k.link < first.Link) {
			first = &LinkError{k.link, k.err}
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

// stage marks the results that share memory with an argument that a later link reads.
// Such a result is written to a slot and copied when the chunk is complete.
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
	k := w.walks[w.next.Add(1)-1] // a walk that no other goroutine uses
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
		for i := range c.links {
			if l := &c.links[i]; !l.once || at == lo {
				w.link = i
				if w.err = w.do(l, at, n); w.err != nil {
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

// do runs one link on n elements, beginning at element at.
func (w *walk) do(l *link, at, n int) error {
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

// array returns n elements of an operand, beginning at element at. If staged is true and
// the operand is a staged result, it returns the elements in its slot.
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

// repeat sets element i of dst to element ((at+i)/inner) mod n of src, where n is the
// length of src. size is the size of an element in bytes.
func repeat(dst, src []byte, size, inner, at int) {
	n := len(src) / size
	if n == 0 || len(dst) == 0 {
		return
	}
	if inner == 1 {
		// A single row is repeated: copy it once in full, then double what is there.
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
