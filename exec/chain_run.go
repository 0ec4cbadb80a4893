package exec

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// chunks is a rank's state kept between calls of chains.
type chunks struct {
	chain  *chain
	args   *Args
	staged []bool // by result: written to a slot first; see stage
	walks  []*walk
	next   atomic.Int32 // number of walks in use
}

// walk is the state of one goroutine running a chain.
type walk struct {
	*chunks
	args  Args
	shape [1]int // of every array of the chunk
	mem   []byte // the slots
	link  int    // the link being run
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

// stage marks the results sharing memory with an argument that a later link reads. Such a
// result is written to a slot and copied when the chunk is complete.
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
	k := w.walks[w.next.Add(1)-1] // a walk used by no other goroutine
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
// length of src. An element has size bytes.
func repeat(dst, src []byte, size, inner, at int) {
	n := len(src) / size
	if n == 0 || len(dst) == 0 {
		return
	}
	if inner == 1 {
		// A single row is repeated: copy it once in full, then double the copy.
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
