package lowering

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/sharding"
)

// Kernel is a host implementation: it reads a.In and writes every element of
// a.Out, whose memory holds anything before. It takes all sizes from the arrays
// it is given, since ragged arrays come cut to the rows in use. Its result does
// not depend on a.Threads. An error stops all ranks.
type Kernel func(a *Args) error

// Args are what a kernel works on.
type Args struct {
	In, Out []array.Array
	// Kept are arguments of which there may be a copy, and Copies these; see Packed.
	Kept   []int
	Copies []array.Array
	Mesh   sharding.Mesh
	Rank   int
	// Threads is how many goroutines a kernel may keep busy.
	Threads int
	// Crew helps with Parallel; nil is a goroutine for every piece.
	Crew *Crew
	// Scratch is what Make takes memory from; nil is new memory.
	Scratch *Scratch
}

// Index returns the rank's index along axes, the first varying slowest.
func (a *Args) Index(axes []string) int { return a.Mesh.Index(a.Rank, axes) }

// Work is what Share cuts in pieces.
type Work interface {
	// Piece does the work from lo to hi.
	Piece(lo, hi int)
}

// whole is Work in a function.
type whole func(lo, hi int)

func (f whole) Piece(lo, hi int) { f(lo, hi) }

// Parallel is Share for work in a function, which has to be allocated.
func (a *Args) Parallel(n, grain int, f func(lo, hi int)) { a.Share(n, grain, whole(f)) }

// Share splits 0..n into pieces of at least grain and has w do each, at most
// a.Threads at a time, and returns when all are done; there are at most a.Threads
// pieces. What w does must not depend on how the range is cut. If it panics, so does
// Share, when all are done. Kernels of a step have their work from Keep, so that
// nothing is allocated.
//
// To share work takes 1 to 5 microseconds while helpers look for it, and some 20
// when they have gone to sleep, so grain is work of about 20.
func (a *Args) Share(n, grain int, w Work) {
	parts := a.pieces(n, grain)
	if parts <= 1 {
		w.Piece(0, n)
		return
	}
	if a.Crew != nil {
		a.Crew.run(n, parts, w)
		return
	}
	separately(n, parts, w)
}

// separately gives every piece a goroutine of its own.
func separately(n, parts int, w Work) {
	panics := make([]error, parts)
	piece := func(p int) {
		defer func() {
			if r := recover(); r != nil {
				panics[p] = fmt.Errorf("%v\n%s", r, debug.Stack())
			}
		}()
		w.Piece(n*p/parts, n*(p+1)/parts)
	}
	var wg sync.WaitGroup
	for p := 1; p < parts; p++ {
		wg.Go(func() { piece(p) })
	}
	piece(0)
	wg.Wait()
	for _, err := range panics {
		if err != nil {
			panic(err)
		}
	}
}

// Alone reports whether Share would leave all of 0..n in one piece.
func (a *Args) Alone(n, grain int) bool { return a.pieces(n, grain) <= 1 }

func (a *Args) pieces(n, grain int) int {
	parts := min(max(a.Threads, 1), max(n/max(grain, 1), 1))
	if parts > 1 && a.Crew != nil {
		parts = min(parts, 1+max(a.Crew.spare(), 0))
	}
	return parts
}

// Exchange is the body of a collective: it calls g once, with c.
type Exchange func(ctx context.Context, g Group, c Call, a *Args) error

// Agreed is the error of a kernel that every rank returns alike, because each
// has computed it from the same gathered data. It ends the step without
// poisoning the communicator: the next step may run.
type Agreed struct{ Err error }

func (e *Agreed) Error() string { return e.Err.Error() }
func (e *Agreed) Unwrap() error { return e.Err }
