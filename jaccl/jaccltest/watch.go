package jaccltest

import (
	"fmt"
	"sync"
	"time"

	"github.com/gomoe/gomoe/jaccl"
)

// Watches returns the watches of n ranks of one process, for tests of links.
func Watches(n int) []jaccl.Watch {
	b := &board{down: make(chan struct{}), left: make([]bool, n), answers: make([]func() jaccl.Waiting, n), hear: make([]func(int, jaccl.Parting), n)}
	ws := make([]jaccl.Watch, n)
	for i := range ws {
		ws[i] = &watch{b, i}
	}
	return ws
}

// board is what the watches share.
type board struct {
	mu    sync.Mutex
	first *jaccl.Notice
	down  chan struct{}
	left  []bool

	answers []func() jaccl.Waiting     // by rank
	hear    []func(int, jaccl.Parting) // by rank
}

type watch struct {
	b    *board
	rank int
}

func (w *watch) Host(rank int) string { return fmt.Sprintf("host%d", rank) }

func (w *watch) Announce(n jaccl.Notice) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	if w.b.first == nil {
		n.From = w.rank
		w.b.first = &n
		close(w.b.down)
	}
}

func (w *watch) Down() <-chan struct{} { return w.b.down }

func (w *watch) First() (jaccl.Notice, bool) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	if w.b.first == nil {
		return jaccl.Notice{}, false
	}
	return *w.b.first, true
}

func (w *watch) Leave() {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	w.b.left[w.rank] = true
}

func (w *watch) Left(rank int) bool {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	return w.b.left[rank]
}

func (w *watch) Answer(f func() jaccl.Waiting) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	w.b.answers[w.rank] = f
}

func (w *watch) Ask(time.Duration) map[int]jaccl.Waiting {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	all := map[int]jaccl.Waiting{}
	for r, f := range w.b.answers {
		if f != nil && r != w.rank && !w.b.left[r] {
			all[r] = f()
		}
	}
	return all
}

func (w *watch) Hear(f func(from int, p jaccl.Parting)) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	w.b.hear[w.rank] = f
}

func (w *watch) Tell(rank int, p jaccl.Parting) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	if f := w.b.hear[rank]; f != nil { // all have their communicators before one is used
		f(w.rank, p)
	}
}

func (w *watch) Close() error {
	w.Leave()
	return nil
}
