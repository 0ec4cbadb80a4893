package exec

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/pages"
)

// Plain is an element type of scratch memory: it holds no pointers.
type Plain interface {
	int | int32 | int64 | uint32 | uint8 | float32 | float64 | bool
}

// Scratch is memory that a rank's kernels use one after another, so that a step allocates
// nothing. It grows to the largest size requested by a kernel.
type Scratch struct {
	mem  []uint64 // in words, aligned for all element types
	used int      // words handed out since Reset, including those that did not fit
	// chunks is the state of fused instructions kept between calls.
	chunks  *chunks
	objects []object // made by New
	// The dry run, if this is one, and its number of threads running pieces of a Taker.
	dry  *kernel.Dry
	busy int
}

// NewScratch returns a Scratch of the given number of bytes. Kernels that need no more
// cause no further allocation.
func NewScratch(bytes int64) *Scratch {
	mem := make([]uint64, (bytes+7)/8)
	pages.Large(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)*8))
	return &Scratch{mem: mem}
}

// Reset takes back all memory that was handed out.
func (s *Scratch) Reset() {
	if s.used > len(s.mem) {
		s.mem = make([]uint64, s.used)
	}
	s.used = 0
	for i := range s.objects {
		s.objects[i].used = false
	}
}

// Make returns n zeros belonging to the kernel until it returns. They come from
// a.Scratch, or from a new allocation if a.Scratch is nil or too small. Pieces of
// Parallel must not call Make.
func Make[E Plain](a *Args, n int) []E {
	out, fresh := room[E](a, n)
	if !fresh {
		clear(out)
	}
	return out
}

// MakeDirty is Make with undefined contents. In a dry run it counts the elements and
// returns none; see Dry.
func MakeDirty[E Plain](a *Args, n int) []E {
	if a.Dry() != nil {
		a.Scratch.take(n, int(unsafe.Sizeof(*new(E))))
		return []E{}
	}
	out, _ := room[E](a, n)
	return out
}

// room returns n elements, and whether they are newly allocated.
func room[E Plain](a *Args, n int) (out []E, fresh bool) {
	s := a.Scratch
	if s == nil || n <= 0 {
		return make([]E, n), true
	}
	at := s.take(n, int(unsafe.Sizeof(*new(E))))
	if s.used > len(s.mem) {
		return make([]E, n), true
	}
	return unsafe.Slice((*E)(unsafe.Pointer(&s.mem[at])), n), false
}

// take hands out n elements of the given size in bytes, and returns the index of their
// first word.
func (s *Scratch) take(n, size int) (at int) {
	at = s.used
	s.used += n/8*size + (n%8*size+7)/8
	return at
}
