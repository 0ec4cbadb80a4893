package ring

import (
	"errors"
	"os"
	"time"
)

// listenAfter is the time after which an operation also watches the connections on which
// it waits for nothing. Most operations have ended by then.
const listenAfter = 100 * time.Millisecond

// listen watches the connections from which the operation does not read, so that a rank
// that only sends to a neighbour notices the neighbour's departure. A byte that arrives
// instead is the beginning of a later operation, and the wire keeps it for that
// operation.
func (o *operation) listen() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done {
		return
	}
	for _, w := range o.used {
		if !w.in.TryLock() {
			continue // another goroutine reads
		}
		if w.held {
			w.in.Unlock()
			continue
		}
		o.listening = append(o.listening, w)
		o.heard.Go(func() {
			defer w.in.Unlock()
			var b [1]byte
			n, err := w.Read(b[:])
			switch {
			case n == 1:
				w.byte, w.held = b[0], true
			case !errors.Is(err, os.ErrDeadlineExceeded) && w.owes():
				o.broke(w, err) // if nothing is left to send, the neighbour may only have finished first
			}
		})
	}
}

// owes reports whether this rank has data left to send on a connection that the other
// side has ended. It waits a little, because bytes already received by the other side may
// not have been counted yet.
func (w *wire) owes() bool {
	for range 20 {
		if w.toSend.Load() <= 0 {
			return false
		}
		time.Sleep(listenAfter / 20)
	}
	return true
}

// deaf ends listen's goroutines after the operation.
func (o *operation) deaf() {
	for _, w := range o.listening {
		w.SetReadDeadline(time.Unix(1, 0))
	}
	o.heard.Wait()
	for _, w := range o.listening {
		w.SetReadDeadline(time.Time{})
	}
}
