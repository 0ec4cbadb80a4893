package jaccl_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
)

func TestRequestQueueOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q jaccl.RequestQueue
		var got []int
		var rs []*jaccl.Request
		for i := range 20 {
			rs = append(rs, q.Do(t.Context(), func(context.Context) error {
				time.Sleep(time.Duration(20-i) * time.Millisecond)
				got = append(got, i)
				return nil
			}))
		}
		select {
		case <-rs[0].Done():
			t.Error("an operation that sleeps is done at once")
		default:
		}
		for i, r := range rs {
			if err := r.Wait(t.Context()); err != nil {
				t.Errorf("operation %d: %v", i, err)
			}
			<-r.Done()
		}
		if !slices.IsSorted(got) || len(got) != 20 {
			t.Errorf("operations ran in the order %v", got)
		}
		synctest.Wait() // the goroutine ends with the work: the bubble ends without Close
	})
}

func TestRequestQueueFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q jaccl.RequestQueue
		defer q.Close()
		bad := errors.New("bad")
		ran := 0
		fine := func(context.Context) error { ran++; return nil }
		rs := []*jaccl.Request{
			q.Do(t.Context(), fine),
			q.Do(t.Context(), func(context.Context) error { return bad }),
			q.Do(t.Context(), fine),
		}
		for i, r := range rs {
			if err := r.Wait(t.Context()); (err == bad) != (i > 0) {
				t.Errorf("operation %d: %v", i, err)
			}
		}
		if err := q.Do(t.Context(), fine).Wait(t.Context()); err != bad || ran != 1 {
			t.Errorf("a later operation: %v, and %d have run; want the first failure and 1", err, ran)
		}
	})
}

func TestRequestQueueWaitAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q jaccl.RequestQueue
		first := q.Do(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
		second := q.Do(t.Context(), func(context.Context) error { t.Error("an operation ran after Close"); return nil })
		impatient, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		cancel(enough)
		if err := first.Wait(impatient); err != enough {
			t.Errorf("wait with an ended context: %v, want its cause", err)
		}
		synctest.Wait()
		for range 2 {
			if err := q.Close(); err != nil {
				t.Error(err)
			}
		}
		for i, r := range []*jaccl.Request{first, second, q.Do(t.Context(), nil)} {
			if err := r.Wait(t.Context()); !errors.Is(err, jaccl.ErrClosed) {
				t.Errorf("operation %d: %v, want ErrClosed", i, err)
			}
		}
	})
}

// The end of an operation's own context ends the operation, and fails the queue's later ones.
func TestRequestQueueContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		comms := jaccltest.Connect(t, jaccltest.Links(2), time.Minute)
		var q jaccl.RequestQueue
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		g := comms[0].World()
		r := q.Do(ctx, func(ctx context.Context) error {
			return g.Barrier(ctx, collective.Call{Op: "barrier", DType: graph.F32})
		})
		time.Sleep(time.Second)
		cancel(enough)
		if err := r.Wait(t.Context()); !errors.Is(err, enough) {
			t.Errorf("%v, want the cause of the operation's context", err)
		}
		for _, c := range comms {
			c.Close()
		}
		q.Close()
	})
}
