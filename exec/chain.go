package exec

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
)

const (
	// chunkBytes is the size of all values of a chunk together: inputs, outputs and
	// intermediates. It is a part of a second-level cache.
	chunkBytes = 192 << 10
	// Chunks have at least leastChunk elements, to amortise the cost of calling a kernel,
	// and at most mostChunk. Both numbers are multiples of a cache line.
	leastChunk, mostChunk = 512, 4096
)

// Operand is an argument or a result of a chain or of one of its links.
type Operand struct {
	Buf  int // identifies the operand
	Mem  int // identifies the memory: operands differing only in type have the same Mem
	Type graph.Type
}

// Link is one step of a chain: an elementwise kernel. Each element of a result depends
// only on the arguments' elements at the same index and on scalar arguments. All other
// arguments and results have as many elements as the chain has.
type Link struct {
	Kernel  Kernel
	In, Out []Operand
	// Repeat, if not 0, makes the link a repetition, which needs no Kernel: element i of
	// the result is element (i/Repeat) mod n of the argument, where n is the argument's
	// length.
	Repeat int
}

// LinkError is the error of one link of a chain, with the link's number.
type LinkError struct {
	Link int
	Err  error
}

func (e *LinkError) Error() string { return e.Err.Error() }
func (e *LinkError) Unwrap() error { return e.Err }

// chain is a kernel running several elementwise ones. It is immutable.
type chain struct {
	links []link
	slots []int // bytes per element of each intermediate value, then of each result
	at    []int // offsets of the slots, in bytes per element of a chunk
	width int   // bytes of all slots per element of a chunk
	step  int   // elements per chunk
	// lastRead is, per argument, the last link reading it; wrote is, per result, the link
	// writing it.
	lastRead, wrote []int
}

// link is a Link with its operands resolved.
type link struct {
	kernel  Kernel
	in, out []operand
	repeat  int
	once    bool // the result is the same for every chunk: run for the first chunk only
}

// operand is the location of a link's argument or result.
type operand struct {
	place place
	index int
	dtype graph.DType
	whole bool // a scalar, passed unchanged
}

type place uint8

const (
	ofArgument place = iota
	ofResult
	ofSlot
)

// NewChain returns a kernel running the links one after another on chunks of the arrays,
// so that the output of one link is still in the cache when the next link reads it. It
// also returns the scratch memory, in bytes, that the kernel needs on every thread.
// Values that are neither arguments nor results exist only in that memory. in and out are
// the kernel's arguments and results. chunk is the number of elements of a chunk, rounded
// up to a multiple of 8; 0 means as many as the cache holds.
//
// The kernel may write a result over an argument of the same element type. If a link
// fails, the error is a LinkError.
func NewChain(in, out []Operand, links []Link, chunk int) (k Kernel, scratch int64) {
	c := &chain{lastRead: make([]int, len(in)), wrote: make([]int, len(out))}
	at := map[int]operand{} // by Mem: the outputs of links
	dies := map[int]int{}   // by Mem: the last link reading it
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
