package ring

import (
	"errors"
	"os"
	"time"
)

// listenAfter is how long an operation runs before it also looks at the connections
// on which it waits for nothing. Most are over by then.
const listenAfter = 100 * time.Millisecond

// listen waits for the end of connections from which the operation does not read:
// a neighbour that has left would otherwise be missed by a rank that only sends to
// it. What comes instead is the beginning of a later operation, and is held for it.
func (o *operation) listen() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done {
		return
	}
	for _, w := range o.used {
		if !w.in.TryLock() {
			continue // somebody reads
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
				o.broke(w, err) // with nothing to send the neighbour may just have finished first
			}
		})
	}
}

// owes reports whether this rank has something to send on the connection, which the
// other side has ended. What that has received already is counted here a moment later.
func (w *wire) owes() bool {
	for range 20 {
		if w.toSend.Load() <= 0 {
			return false
		}
		time.Sleep(listenAfter / 20)
	}
	return true
}

// deaf ends listen, after the operation.
func (o *operation) deaf() {
	for _, w := range o.listening {
		w.SetReadDeadline(time.Unix(1, 0))
	}
	o.heard.Wait()
	for _, w := range o.listening {
		w.SetReadDeadline(time.Time{})
	}
}
