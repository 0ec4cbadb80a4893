package runtime

import (
	"sync"
	"time"
)

// keepFor is the time that an idle worker waits before its goroutine ends.
const keepFor = time.Second

// worker is a goroutine serving one call after another. A call starts the goroutine if it
// does not exist; the goroutine ends after being idle for keepFor, or when closed. So
// consecutive steps start no goroutines, and an unclosed session leaks none.
type worker[T any] struct {
	serve func(T)
	calls chan T // buffers one call
	close chan struct{}
	ended sync.WaitGroup

	mu     sync.Mutex
	alive  bool
	closed bool
}

func newWorker[T any](serve func(T)) *worker[T] {
	return &worker[T]{serve: serve, calls: make(chan T, 1), close: make(chan struct{})}
}

// call hands c to the goroutine and does not wait for it. All earlier calls must have
// been served. A closed worker serves c too, and ends afterwards.
func (w *worker[T]) call(c T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls <- c
	if !w.alive {
		w.alive = true
		w.ended.Add(1)
		go w.run()
	}
}

func (w *worker[T]) run() {
	defer w.ended.Done()
	asleep := time.NewTimer(keepFor)
	defer asleep.Stop()
	for {
		select {
		case c := <-w.calls:
			w.serve(c)
			asleep.Reset(keepFor)
			continue
		case <-asleep.C:
		case <-w.close:
		}
		w.mu.Lock()
		if len(w.calls) == 0 {
			w.alive = false
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		asleep.Reset(keepFor)
	}
}

// end ends the goroutine and returns after its end. It may be called twice, but not while
// a call is being served.
func (w *worker[T]) end() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.close)
	}
	w.mu.Unlock()
	w.ended.Wait()
}
