package exec

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// Work is divided into pieces by Share.
type Work interface {
	// Piece does the work from lo to hi.
	Piece(lo, hi int)
}

// whole is a function as a Work.
type whole func(lo, hi int)

func (f whole) Piece(lo, hi int) { f(lo, hi) }

// Parallel is Share for a function, which has to be allocated.
func (a *Args) Parallel(n, grain int, f func(lo, hi int)) { a.Share(n, grain, whole(f)) }

// Share splits 0..n into pieces of at least grain, runs w on each piece, and returns when
// all are done. There are at most a.Threads pieces, running concurrently. The result of w
// must not depend on the division of the range. If a piece panics, Share panics when all
// pieces are done. Kernels of a step take their Work from New, or call the function
// Share, so that nothing is allocated.
//
// Sharing work takes 1 to 5 microseconds while helpers poll for it, and some 20 if they
// sleep. Choose grain so that a piece takes about 20 microseconds.
func (a *Args) Share(n, grain int, w Work) {
	parts := a.pieces(n, grain)
	if a.Dry() != nil {
		if _, ok := w.(Taker); ok {
			a.Scratch.busy = max(a.Scratch.busy, parts)
			w.Piece(0, (n+parts-1)/parts)
		}
		return
	}
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

// Share is Args.Share for w, which it copies to memory of a.Scratch.
func Share[W any, P interface {
	*W
	Work
}](a *Args, n, grain int, w W) {
	k := New[W](a)
	*k = w
	a.Share(n, grain, P(k))
}

// separately runs every piece on a goroutine of its own.
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

// Alone reports whether Share would run all of 0..n as one piece.
func (a *Args) Alone(n, grain int) bool { return a.pieces(n, grain) <= 1 }

func (a *Args) pieces(n, grain int) int {
	parts := min(max(a.Threads, 1), max(n/max(grain, 1), 1))
	if parts > 1 && a.Crew != nil {
		parts = min(parts, 1+max(a.Crew.spare(), 0))
	}
	return parts
}
