package runtime

import (
	"sync"
	"time"
)

// keepFor is how long a worker sleeps before its goroutine ends.
const keepFor = time.Second

// worker is a goroutine that serves one call after another. A call starts it if it
// is not there; it ends when it has slept for a second, or is closed. So steps that
// follow each other start none, and a session that nobody closes leaves none behind.
type worker[T any] struct {
	serve func(T)
	calls chan T // has room for one
	close chan struct{}
	ended sync.WaitGroup

	mu     sync.Mutex
	alive  bool
	closed bool
}

func newWorker[T any](serve func(T)) *worker[T] {
	return &worker[T]{serve: serve, calls: make(chan T, 1), close: make(chan struct{})}
}

// call has c served, and does not wait for that. All calls before have been served.
// A worker that is closed serves it too, and ends then.
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

// end ends the goroutine and returns when it has ended. It may be called twice; no
// call is being served meanwhile.
func (w *worker[T]) end() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.close)
	}
	w.mu.Unlock()
	w.ended.Wait()
}
