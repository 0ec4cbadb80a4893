package jaccltest

import (
	"fmt"
	"sync"
	"time"

	"github.com/gomoe/gomoe/jaccl/link"
)

// Watches returns the watches of n ranks of one process, by rank, for tests of links. They
// tell all ranks of a failure at once.
func Watches(n int) []link.Watch {
	b := &board{down: make(chan struct{}), left: make([]bool, n), answers: make([]func() link.Waiting, n), hear: make([]func(int, link.Parting), n)}
	ws := make([]link.Watch, n)
	for i := range ws {
		ws[i] = &watch{b, i}
	}
	return ws
}

// board is shared by the watches.
type board struct {
	mu    sync.Mutex
	first *link.Notice
	down  chan struct{}
	left  []bool

	answers []func() link.Waiting     // by rank
	hear    []func(int, link.Parting) // by rank
}

type watch struct {
	b    *board
	rank int
}

func (w *watch) Host(rank int) string { return fmt.Sprintf("host%d", rank) }

func (w *watch) Announce(n link.Notice) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	if w.b.first == nil {
		n.From = w.rank
		w.b.first = &n
		close(w.b.down)
	}
}

func (w *watch) Down() <-chan struct{} { return w.b.down }

func (w *watch) First() (link.Notice, bool) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	if w.b.first == nil {
		return link.Notice{}, false
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

func (w *watch) Answer(f func() link.Waiting) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	w.b.answers[w.rank] = f
}

func (w *watch) Ask(time.Duration) map[int]link.Waiting {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	all := map[int]link.Waiting{}
	for r, f := range w.b.answers {
		if f != nil && r != w.rank && !w.b.left[r] {
			all[r] = f()
		}
	}
	return all
}

func (w *watch) Hear(f func(from int, p link.Parting)) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	w.b.hear[w.rank] = f
}

func (w *watch) Tell(rank int, p link.Parting) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	if f := w.b.hear[rank]; f != nil { // Tell is called only after all ranks have called Hear
		f(w.rank, p)
	}
}

func (w *watch) Close() error {
	w.Leave()
	return nil
}
