package exec

import (
	"context"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/sharding"
)

// Kernel is an implementation on the host. It reads a.In and writes every element of
// a.Out, which has undefined contents before. It takes all sizes from these arrays,
// because ragged arrays are cut to the rows in use. Its result does not depend on
// a.Threads. An error stops all ranks.
type Kernel func(a *Args) error

// Args are the arguments of a kernel.
type Args struct {
	In, Out []array.Array
	// Indexed lists the arguments with rows that are read through an index; Indices are the
	// indices. See IndexOf.
	Indexed []int
	Indices []array.Array
	// Kept lists the arguments that may have a packed copy; Copies are the copies. See
	// Packed.
	Kept   []int
	Copies []array.Array
	Mesh   sharding.Mesh
	Rank   int
	// Threads is the number of goroutines that a kernel may keep busy.
	Threads int
	// Crew helps with Parallel; nil means a new goroutine for every piece.
	Crew *Crew
	// Scratch is the source of memory for Make and New; nil means newly allocated memory.
	Scratch *Scratch
}

// Index returns the rank's index along axes; the first axis varies slowest.
func (a *Args) Index(axes []string) int { return a.Mesh.Index(a.Rank, axes) }

// Part returns the rank's range of n units split along axes; see sharding.Mesh.Part.
func (a *Args) Part(axes []string, n int) (start, size int) { return a.Mesh.Part(a.Rank, axes, n) }

// Packed returns the packed copy of argument i requested by its instruction. It is nil if
// there is none in this step; the kernel then works on the argument itself.
func (a *Args) Packed(i int) []byte {
	for k, arg := range a.Kept {
		if arg == i {
			return a.Copies[k].Bytes()
		}
	}
	return nil
}

// IndexOf returns the index through which the rows of argument i are read: row r is row index[r]
// of the argument, and there is none if that is -1. ok is false if the rows of the argument are in order.
func (a *Args) IndexOf(i int) (index []int32, ok bool) {
	for k, arg := range a.Indexed {
		if arg == i {
			return array.Data[int32](a.Indices[k]), true
		}
	}
	return nil, false
}

// Separate moves the indices and the copies, which follow the other arguments of an instruction
// in a.In, to a.Indices and a.Copies. They belong to the arguments listed in indexed and in kept.
func (a *Args) Separate(indexed, kept []int) {
	copies := len(a.In) - len(kept)
	indices := copies - len(indexed)
	a.Kept, a.Copies = kept, append(a.Copies[:0], a.In[copies:]...)
	a.Indexed, a.Indices, a.In = indexed, append(a.Indices[:0], a.In[indices:copies]...), a.In[:indices]
}

// Exchange is the body of a collective: it calls one method of g once, with c.
type Exchange func(ctx context.Context, g collective.Group, c collective.Call, a *Args) error

// AgreedError is the error of a kernel that every rank returns alike, because every rank
// computes it from the same gathered data. It ends the step without poisoning the
// communicator, so the next step may run.
type AgreedError struct{ Err error }

func (e *AgreedError) Error() string { return e.Err.Error() }
func (e *AgreedError) Unwrap() error { return e.Err }
