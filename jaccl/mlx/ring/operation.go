package ring

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/mlx/headless"
)

// packetBytes is the number of bytes received before adding and forwarding them. It is a
// multiple of every element's size. It does not change the bytes on the wire, so
// neighbours may use another number.
const packetBytes = 128 << 10

// operation is a collective in progress on this rank. Whatever ends it early poisons
// the ring. That closes the connections, so that every read and write of the operation
// returns.
type operation struct {
	m    *comm
	call collective.Call
	used []*wire      // the wires in use
	last atomic.Int64 // when a byte last came or left, in nanoseconds since from
	from time.Time

	mu   sync.Mutex
	done bool

	heard     sync.WaitGroup // the goroutines of listen
	listening []*wire        // guarded by mu
}

// run runs one collective. bad is the failure of a call with invalid arguments, nil for a
// valid call. work does this rank's part; it returns when everything started by it has
// ended.
func (m *comm) run(ctx context.Context, c collective.Call, bad *headless.FailureError, work func(o *operation) error) error {
	if !m.inUse.CompareAndSwap(false, true) {
		f := m.Argument(c, "another collective in progress, want one goroutine per rank at a time")
		return m.Error(ctx, c, m.fail(f))
	}
	defer m.inUse.Store(false)
	if f := m.failed(); f != nil {
		return m.Error(ctx, c, f)
	}
	if bad != nil {
		return m.Error(ctx, c, m.fail(bad))
	}
	if ctx.Err() != nil {
		return m.Error(ctx, c, m.fail(m.Left(ctx, c, "")))
	}
	o := &operation{m: m, call: c, from: time.Now()}
	for _, ws := range [2][]*wire{m.left, m.right} {
		for _, w := range ws {
			w.toSend.Store(0)
			w.toReceive.Store(0)
			o.used = append(o.used, w)
		}
	}
	stop := context.AfterFunc(ctx, func() { o.end(func() *headless.FailureError { return m.Left(ctx, c, o.outstanding()) }) })
	timer, ear := o.watch(), time.AfterFunc(listenAfter, o.listen)
	err := work(o)
	o.mu.Lock()
	o.done = true
	o.mu.Unlock()
	stop()
	timer.Stop()
	ear.Stop()
	o.deaf()
	if err != nil {
		return m.Error(ctx, c, m.fail(&headless.FailureError{Blame: []int{m.Index}, Text: "ring: " + err.Error(), Err: err})) // fail returns the cause that has already poisoned the ring
	}
	if f := m.failed(); f != nil { // Fail or Close while running
		return m.Error(ctx, c, f)
	}
	return nil
}

// end poisons the ring with the failure that f returns, unless the operation has
// returned.
func (o *operation) end(f func() *headless.FailureError) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.done {
		o.m.fail(f())
	}
}

// watch starts a timer that poisons the ring when no byte has arrived or left for the
// duration of the deadline.
func (o *operation) watch() *time.Timer {
	var timer *time.Timer
	o.mu.Lock() // until timer is set
	defer o.mu.Unlock()
	part, at := min(o.m.deadline, jaccl.Pause), time.Now()
	timer = time.AfterFunc(part, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.done {
			return
		}
		now := time.Now()
		if stopped := now.Sub(at) - part; stopped > jaccl.Pause {
			o.last.Add(int64(stopped)) // this process was stopped for so long, which does not count
		}
		at = now
		if rest := o.m.deadline - (time.Since(o.from) - time.Duration(o.last.Load())); rest > 0 {
			part = min(rest, jaccl.Pause)
			timer.Reset(part)
			return
		}
		o.m.fail(o.late())
	})
	return timer
}

func (o *operation) late() *headless.FailureError {
	var blame []int
	for _, w := range o.used {
		if w.toSend.Load()+w.toReceive.Load() > 0 && (len(blame) == 0 || blame[len(blame)-1] != w.peer) {
			blame = append(blame, w.peer)
		}
	}
	return &headless.FailureError{Blame: blame, Text: fmt.Sprintf("ring: nothing came or left for %v on rank %d in %s%s; a rank is stuck or calls something else, which MLX's protocol does not tell",
		o.m.deadline, o.m.Index, o.call, o.outstanding()), Err: jaccl.ErrDeadline}
}

// broke poisons the ring after an error of a connection. It returns the error for the
// caller to return.
func (o *operation) broke(w *wire, err error) error {
	o.end(func() *headless.FailureError {
		return &headless.FailureError{Blame: []int{w.peer}, Text: fmt.Sprintf("ring: the connection of rank %d to %s ended in %s%s: %v; its process ended, or left the ring after an error",
			o.m.Index, o.m.host(w.peer), o.call, o.outstanding(), err), Err: jaccl.ErrLost}
	})
	return err
}

// outstanding lists the bytes not yet received from, and not yet sent to, each neighbour.
func (o *operation) outstanding() string {
	text := ""
	for _, side := range [][]*wire{o.m.left, o.m.right} {
		var send, receive int64
		for _, w := range side {
			send += w.toSend.Load()
			receive += w.toReceive.Load()
		}
		if send > 0 || receive > 0 {
			if text != "" {
				text += " and"
			}
			text += fmt.Sprintf(" %d bytes to come from %s and %d to go there", receive, o.m.host(side[0].peer), send)
		}
	}
	if text == "" {
		return ""
	}
	return " with" + text
}

// write sends all of b.
func (o *operation) write(w *wire, b []byte) error {
	for len(b) > 0 {
		n, err := w.Write(b[:min(len(b), packetBytes)])
		if n > 0 {
			w.toSend.Add(int64(-n))
			o.last.Store(int64(time.Since(o.from)))
		}
		if err != nil {
			return o.broke(w, err)
		}
		b = b[n:]
	}
	return nil
}

// read fills b. The caller holds w.in.
func (o *operation) read(w *wire, b []byte) error {
	if w.held && len(b) > 0 {
		b[0], w.held = w.byte, false
		w.toReceive.Add(-1)
		b = b[1:]
	}
	for len(b) > 0 {
		n, err := w.Read(b)
		if n > 0 {
			w.toReceive.Add(int64(-n))
			o.last.Store(int64(time.Since(o.from)))
			b = b[n:]
		}
		if err != nil && len(b) > 0 {
			if errors.Is(err, net.ErrClosed) {
				return err // this rank closed the connection and knows why
			}
			return o.broke(w, err)
		}
	}
	return nil
}

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
