package jaccltest

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
)

// Far is a rank in another process, which runs Serve at the other end of a connection.
// With one Far for every rank, Conformance tests ranks that are processes.
type Far struct {
	enc *gob.Encoder

	mu     sync.Mutex
	calls  map[int]chan answer
	next   int
	broken error
}

// NewFar returns the rank at the other end of conn. A goroutine reads conn until conn ends.
func NewFar(conn io.ReadWriter) *Far {
	f := &Far{enc: gob.NewEncoder(conn), calls: map[int]chan answer{}}
	go func() {
		dec := gob.NewDecoder(conn)
		for {
			var a answer
			if err := dec.Decode(&a); err != nil {
				f.end(fmt.Errorf("jaccltest: the rank's process: %w", err))
				return
			}
			f.mu.Lock()
			c := f.calls[a.ID]
			delete(f.calls, a.ID)
			f.mu.Unlock()
			if c != nil {
				c <- a
			}
		}
	}()
	return f
}

// end makes all calls in progress return; they and later ones fail with err.
func (f *Far) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = err
	for _, c := range f.calls {
		close(c)
	}
	clear(f.calls)
}

// Open makes the rank open the communicator of a new job, returning it. It has to be
// called for all ranks of the job.
func (f *Far) Open() (jaccl.Communicator, error) {
	a := f.ask(context.Background(), request{Kind: "open"})
	if err := a.error(nil, nil); err != nil {
		return nil, err
	}
	return &farComm{far: f, rank: a.Group.Rank, size: a.Group.Size}, nil
}

// Clean ends the job. Its communicator must have been closed. It reports whether the
// rank's process can open another communicator: nothing has failed.
func (f *Far) Clean() bool {
	a := f.ask(context.Background(), request{Kind: "end"})
	return a.error(nil, nil) == nil && a.Clean
}

// ask sends a request to the rank and waits for its answer. When ctx ends, the rank's
// call is cancelled, and ask still waits.
func (f *Far) ask(ctx context.Context, r request) answer {
	c := make(chan answer, 1)
	f.mu.Lock()
	if f.broken != nil {
		f.mu.Unlock()
		return answer{Err: &farError{Text: f.broken.Error()}}
	}
	f.next++
	r.ID = f.next
	f.calls[r.ID] = c
	err := f.enc.Encode(r)
	f.mu.Unlock()
	if err != nil {
		f.end(err)
	}
	defer context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.enc.Encode(request{ID: r.ID, Kind: "cancel", Text: context.Cause(ctx).Error()})
	})()
	a, ok := <-c
	if !ok {
		return answer{Err: &farError{Text: f.broken.Error()}}
	}
	return a
}

// request is a request to a rank.
type request struct {
	ID       int
	Kind     string // the method
	Group    int    // the ID of the group, for methods of groups
	Call     collective.Call
	Dst, Src []place
	Blocks   []block
	To, From int
	Ranks    []int
	Text     string
}

// answer is the result of the request with the same ID.
type answer struct {
	ID     int
	Err    *farError
	Blocks []block
	Group  *farGroup
	Clean  bool
}

// farGroup describes a group of the rank.
type farGroup struct {
	ID, Rank, Size int
	Ranks          []int
}

// farError is an error in serialisable form.
type farError struct {
	Text      string
	Kinds     []int        // the indices in kinds of the errors that it wraps
	Own       *jaccl.Error // the *jaccl.Error, without its Err; nil if it is none
	OfContext bool         // it wraps the cause of the operation's context
	OfFail    bool         // it wraps the argument of Fail
}

// kinds returns the errors that a farError can wrap.
func kinds() []error {
	return []error{jaccl.ErrMismatch, jaccl.ErrDeadline, jaccl.ErrClosed, jaccl.ErrLost, jaccl.ErrUnsupported, jaccl.ErrArgument, context.Canceled, context.DeadlineExceeded}
}

// describe returns err for the other end. cause is the cause of the operation's context,
// and given is the argument of Fail, at this end.
func describe(err, cause, given error) *farError {
	if err == nil {
		return nil
	}
	e := &farError{Text: err.Error(), OfContext: cause != nil && errors.Is(err, cause), OfFail: given != nil && errors.Is(err, given)}
	for i, k := range kinds() {
		if errors.Is(err, k) {
			e.Kinds = append(e.Kinds, i)
		}
	}
	if own := (*jaccl.Error)(nil); errors.As(err, &own) {
		e.Text = own.Err.Error()
		e.Own = &jaccl.Error{Rank: own.Rank, Call: own.Call, Blame: own.Blame, Outstanding: own.Outstanding}
	}
	return e
}

// error returns the answer's error as an error of this end. cause and given are as for
// describe, at this end.
func (a *answer) error(cause, given error) error {
	e := a.Err
	if e == nil {
		return nil
	}
	w := &wrapping{text: e.Text}
	for _, k := range e.Kinds {
		w.is = append(w.is, kinds()[k])
	}
	if e.OfContext && cause != nil {
		w.is = append(w.is, cause)
	}
	if e.OfFail && given != nil {
		w.is = append(w.is, given)
	}
	if e.Own == nil {
		return w
	}
	own := *e.Own
	own.Err = w
	return &own
}

// wrapping is an error wrapping others.
type wrapping struct {
	text string
	is   []error
}

func (w *wrapping) Error() string   { return w.text }
func (w *wrapping) Unwrap() []error { return w.is }
