package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/link"
)

// bubble runs f with the communicators, links and watches of n ranks, in a bubble
// that ends only when all of its goroutines have ended.
func bubble(t *testing.T, n int, deadline time.Duration, f func(t *testing.T, comms []jaccl.Communicator, links []link.Link, watches []link.Watch)) {
	synctest.Test(t, func(t *testing.T) {
		links, watches := jaccltest.Links(n), jaccltest.Watches(n)
		comms := make([]jaccl.Communicator, n)
		for i, l := range links {
			var err error
			comms[i], err = engine.Connect(l, watches[i], jaccl.Options{Deadline: deadline})
			require.NoError(t, err)
		}
		f(t, comms, links, watches)
		for _, c := range comms {
			require.NoError(t, c.Close())
		}
	})
}

// at runs f for some of the ranks and returns their errors.
func at(comms []jaccl.Communicator, ranks []int, f func(c jaccl.Communicator) error) map[int]error {
	errs := make([]error, len(comms))
	var wg sync.WaitGroup
	for _, r := range ranks {
		wg.Go(func() { errs[r] = f(comms[r]) })
	}
	wg.Wait()
	out := map[int]error{}
	for _, r := range ranks {
		out[r] = errs[r]
	}
	return out
}

func sumOf(n int) func(c jaccl.Communicator) error {
	return func(c jaccl.Communicator) error {
		return c.World().AllSum(context.Background(), call("all_sum", 3), make([]byte, n), make([]byte, n))
	}
}

func TestConnectDeadline(t *testing.T) {
	for _, n := range []int{8, 4 << 20} {
		bubble(t, 4, time.Second, func(t *testing.T, comms []jaccl.Communicator, _ []link.Link, _ []link.Watch) {
			start := time.Now()
			errs := at(comms, []int{0, 2}, sumOf(n))
			if took := time.Since(start); took < time.Second || took > 1100*time.Millisecond {
				t.Errorf("gave up after %v, want about a second", took)
			}
			errs[1] = sumOf(n)(comms[1])
			if took := time.Since(start); took > 1100*time.Millisecond {
				t.Errorf("a call on a poisoned job took %v", took)
			}
			for rank, err := range errs {
				problem(t, err, rank, call("all_sum", 3), []int{1, 3}, jaccl.ErrDeadline,
					"rank 1, rank 3 did not arrive within 1s at all_sum #3 f32 8 bytes (moe.go:13) among ranks [0 1 2 3] (rank 1 is on host1, rank 3 is on host3)")
			}
		})
	}
}

// Not a rank that itself waits for another one is to blame, but that other one.
func TestConnectStuckElsewhere(t *testing.T) {
	bubble(t, 4, time.Second, func(t *testing.T, comms []jaccl.Communicator, _ []link.Link, _ []link.Watch) {
		errs := at(comms, []int{0, 1, 2}, func(c jaccl.Communicator) error {
			i := c.Rank()
			g, err := c.Among([]int{i, i + 1})
			if err != nil {
				return err
			}
			// Rank 0 gives up first, and has said why before another one does: a supervisor looks
			// every tick, and a rank that asks the others where they are waits for a grace.
			time.Sleep(time.Duration(i) * 300 * time.Millisecond)
			if i == 2 {
				return g.Recv(t.Context(), call("recv", i), 1, make([]byte, 8))
			}
			return g.Barrier(t.Context(), call("barrier", i))
		})
		for i, err := range errs {
			op := "barrier"
			if i == 2 {
				op = "recv"
			}
			problem(t, err, i, call(op, i), []int{3}, jaccl.ErrDeadline,
				"rank 1 (it waits in barrier #1 f32 8 bytes (moe.go:11) among ranks [1 2]) did not arrive within 1s at barrier #0", "; rank 3 is waited for: it is in no operation (rank 3 is on host3)")
		}
	})
}

// dribble is one of two ranks. The peer's data comes as slowly as the test wants.
type dribble struct {
	link.Link
	pause time.Duration
	stop  int // bytes after which nothing more comes
	fault func(head []byte) []byte
}

func (d dribble) Exchange(ctx context.Context, x *link.Exchange) error {
	x.Begin()
	wait := func() error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(d.pause):
			return nil
		}
	}
	if err := wait(); err != nil {
		return err
	}
	if x.Head != nil {
		x.Came(0)
		head := x.Head // the peer makes the same call
		if d.fault != nil {
			head = d.fault(slices.Clone(head))
		}
		if err := x.Heads([][]byte{head}); err != nil {
			return err
		}
	}
	for _, b := range x.Send[0] {
		x.Sent(0, len(b))
	}
	come := 0
	for _, b := range x.Recv[0] {
		for i := range b {
			if come == d.stop {
				<-ctx.Done()
			}
			if err := wait(); err != nil {
				return err
			}
			b[i] = 0
			x.Received(0, 1)
			come++
		}
	}
	return nil
}

func dribbled(t *testing.T, d dribble) error {
	var err error
	synctest.Test(t, func(t *testing.T) {
		links, watches := jaccltest.Links(2), jaccltest.Watches(2)
		d.Link = links[0]
		c, e := engine.Connect(d, watches[0], jaccl.Options{Deadline: time.Second})
		require.NoError(t, e)
		err = sumOf(8)(c)
		require.NoError(t, c.Close())
		require.NoError(t, links[1].Close())
	})
	return err
}

// Every byte that moves restarts the deadline; the error says which bytes have not moved.
func TestProgressResetsDeadline(t *testing.T) {
	if err := dribbled(t, dribble{pause: 900 * time.Millisecond, stop: 100}); err != nil {
		t.Errorf("9 pauses shorter than the deadline: %v", err)
	}
	err := dribbled(t, dribble{pause: 100 * time.Millisecond, stop: 3})
	problem(t, err, 0, call("all_sum", 3), []int{1}, jaccl.ErrDeadline, "rank 1 (8 of 8 bytes sent to it, 3 of 8 received; it does not answer) made no progress within 1s at all_sum #3")
}

// Whatever a peer sends as a wrong head, the job fails and names the peer.
func TestBadHeads(t *testing.T) {
	for want, fault := range map[string]func([]byte) []byte{
		"0 bytes, want 12 or more":   func([]byte) []byte { return nil },
		"version 3, want 2":          func(h []byte) []byte { h[0] = 3; return h },
		"operation 200 is unknown":   func(h []byte) []byte { h[1] = 200; return h },
		"flags 0x80 are unknown":     func(h []byte) []byte { h[3] = 0x80; return h },
		"another group of the same":  func(h []byte) []byte { h[4] ^= 1; return h },
		"1 bytes after its end":      func(h []byte) []byte { return append(h, 0) },
		"cut short":                  func(h []byte) []byte { return h[:len(h)-1] },
		"16385 bytes, want at most":  func(h []byte) []byte { return make([]byte, link.MaxHead+1) },
		"all_to_all with 0 lengths":  func(h []byte) []byte { h[1] = 6; return h },
		"rank 1 calls all_max #3":    func(h []byte) []byte { h[1] = 1; return h },
		"all_sum #3 i32":             func(h []byte) []byte { h[2] = byte(graph.I32); return h },
		"all_sum #3 dtype(250)":      func(h []byte) []byte { h[2] = 250; return h },
		"all_sum #3 f32 8 bytes (mo": func(h []byte) []byte { h[12+1]++; return h }, // another rank in the group
	} {
		err := dribbled(t, dribble{stop: -1, fault: fault})
		var e *jaccl.Error
		if !errors.As(err, &e) || !errors.Is(err, jaccl.ErrMismatch) || !slices.Contains(e.Blame, 1) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want a mismatch with %q that blames rank 1", err, want)
		}
	}
}

func TestConnectionLost(t *testing.T) {
	bubble(t, 3, time.Minute, func(t *testing.T, comms []jaccl.Communicator, links []link.Link, _ []link.Watch) {
		time.AfterFunc(time.Second, func() { links[1].Close() })
		start := time.Now()
		for rank, err := range at(comms, []int{0, 2}, sumOf(8)) {
			problem(t, err, rank, call("all_sum", 3), []int{1}, jaccl.ErrLost, "has lost rank 1 in all_sum #3", "rank 1 is on host1")
		}
		if took := time.Since(start); took > 1500*time.Millisecond {
			t.Errorf("it took %v to give up, want a second and a grace", took)
		}
	})
}

// The watch says a little later why a connection ended, and that reason counts.
func TestConnectionLostForAReason(t *testing.T) {
	bubble(t, 3, time.Minute, func(t *testing.T, comms []jaccl.Communicator, links []link.Link, watches []link.Watch) {
		time.AfterFunc(time.Second, func() { links[1].Close() })
		time.AfterFunc(1100*time.Millisecond, func() {
			watches[1].Announce(link.Notice{Blame: []int{1}, Kind: link.KindArgument, Text: "rank 1 has a reason"})
		})
		for rank, err := range at(comms, []int{0, 2}, sumOf(8)) {
			problem(t, err, rank, call("all_sum", 3), []int{1}, jaccl.ErrArgument, "rank 1 has a reason; seen by")
		}
	})
}

func TestConnectCloseWhileWaiting(t *testing.T) {
	bubble(t, 3, time.Minute, func(t *testing.T, comms []jaccl.Communicator, _ []link.Link, _ []link.Watch) {
		time.AfterFunc(time.Second, func() { comms[1].Close() })
		for rank, err := range at(comms, []int{0, 2}, sumOf(8)) {
			problem(t, err, rank, call("all_sum", 3), []int{1}, jaccl.ErrClosed, "rank 1 has closed its communicator")
		}
		problem(t, sumOf(8)(comms[1]), 1, call("all_sum", 3), []int{1}, jaccl.ErrClosed, "rank 1 has closed")
	})
}

// A rank's own Close ends its operation.
func TestConnectCloseInOperation(t *testing.T) {
	bubble(t, 2, time.Minute, func(t *testing.T, comms []jaccl.Communicator, _ []link.Link, _ []link.Watch) {
		time.AfterFunc(time.Second, func() { comms[0].Close() })
		start := time.Now()
		problem(t, sumOf(8)(comms[0]), 0, call("all_sum", 3), []int{0}, jaccl.ErrClosed, "rank 0 has closed")
		if took := time.Since(start); took > 1100*time.Millisecond {
			t.Errorf("it took %v, want a second", took)
		}
	})
}

// A failure of a rank that takes no part ends the others' operations at once.
func TestFailureElsewhere(t *testing.T) {
	bubble(t, 3, time.Minute, func(t *testing.T, comms []jaccl.Communicator, _ []link.Link, watches []link.Watch) {
		time.AfterFunc(time.Second, func() { comms[2].Fail(errors.New("out of tokens")) })
		start := time.Now()
		errs := at(comms, []int{0}, func(c jaccl.Communicator) error {
			return group(t, c, 0, 1).Barrier(t.Context(), call("barrier", 1))
		})
		if took := time.Since(start); took > 1100*time.Millisecond {
			t.Errorf("it took %v, want a second", took)
		}
		e := &jaccl.Error{}
		if !errors.As(errs[0], &e) || !slices.Equal(e.Blame, []int{2}) || !strings.Contains(errs[0].Error(), "rank 2 failed: out of tokens (rank 2 is on host2); seen by rank 0 in barrier #1") {
			t.Errorf("%v, want the failure of rank 2", errs[0])
		}
	})
}

// A failure among some ranks is announced to all.
func TestFailureIsAnnounced(t *testing.T) {
	bubble(t, 3, time.Minute, func(t *testing.T, comms []jaccl.Communicator, _ []link.Link, watches []link.Watch) {
		at(comms, []int{0, 1}, func(c jaccl.Communicator) error {
			return group(t, c, 0, 1).Barrier(t.Context(), call("barrier", c.Rank()))
		})
		<-watches[2].Down()
		n, _ := watches[2].First()
		if n.Kind != link.KindMismatch || !slices.Equal(n.Blame, []int{1, 0}) || n.Call.Op != "barrier" || !strings.Contains(n.Text, "rank 1 calls barrier #1") {
			t.Errorf("%+v, want the mismatch", n)
		}
	})
}

func TestConnectCancel(t *testing.T) {
	bubble(t, 3, time.Minute, func(t *testing.T, comms []jaccl.Communicator, _ []link.Link, _ []link.Watch) {
		cause := errors.New("the step was given up")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		start := time.Now()
		errs := at(comms, []int{0, 1}, func(c jaccl.Communicator) error {
			own := t.Context()
			if c.Rank() == 1 {
				own = ctx
			}
			return c.World().Barrier(own, call("barrier", 4))
		})
		if took := time.Since(start); took > 1100*time.Millisecond {
			t.Errorf("it took %v, want a second", took)
		}
		problem(t, errs[1], 1, call("barrier", 4), []int{1}, cause, "rank 1 left barrier #4 f32 8 bytes (moe.go:14): the step was given up")
		problem(t, errs[0], 0, call("barrier", 4), []int{1}, errs[0], "rank 1 left barrier #4 f32 8 bytes (moe.go:14): the step was given up")
	})
}

// A context that has been used, and ends between two operations, ends neither.
func TestContextsComeAndGo(t *testing.T) {
	bubble(t, 2, time.Minute, func(t *testing.T, comms []jaccl.Communicator, _ []link.Link, _ []link.Watch) {
		for rank, err := range at(comms, []int{0, 1}, func(c jaccl.Communicator) error {
			for seq := range 20 {
				ctx, cancel := context.WithCancel(t.Context())
				time.Sleep(time.Duration(c.Rank()*15) * time.Millisecond)
				err := c.World().Barrier(ctx, call("barrier", seq))
				cancel()
				if err != nil {
					return err
				}
				time.Sleep(30 * time.Millisecond)
			}
			return nil
		}) {
			if err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		}
	})
}

func TestConnectTwoGoroutines(t *testing.T) {
	bubble(t, 2, time.Minute, func(t *testing.T, comms []jaccl.Communicator, _ []link.Link, _ []link.Watch) {
		var first error
		var wg sync.WaitGroup
		wg.Go(func() { first = comms[0].World().Barrier(t.Context(), call("barrier", 0)) })
		synctest.Wait()
		second := group(t, comms[0], 0).Barrier(t.Context(), call("barrier", 1))
		wg.Wait()
		problem(t, first, 0, call("barrier", 0), []int{0}, jaccl.ErrArgument, "in progress")
		problem(t, second, 0, call("barrier", 1), []int{0}, jaccl.ErrArgument, "one goroutine per rank")
	})
}

// If ranks meet in different groups, the error names both groups.
func TestOtherGroup(t *testing.T) {
	bubble(t, 3, time.Minute, func(t *testing.T, comms []jaccl.Communicator, _ []link.Link, _ []link.Watch) {
		groups := [][]int{{0, 1}, {1, 0}, {1, 0}}
		for rank, err := range at(comms, []int{0, 1}, func(c jaccl.Communicator) error {
			return group(t, c, groups[c.Rank()]...).Barrier(t.Context(), call("barrier", 4))
		}) {
			problem(t, err, rank, call("barrier", 4), []int{1, 0}, jaccl.ErrMismatch,
				"rank 1 calls barrier #4 f32 8 bytes (moe.go:14) among ranks [1 0] where rank 0 calls barrier #4 f32 8 bytes (moe.go:14) among ranks [0 1]")
		}
	})
}

// liar is a link that states wrong offsets of its memory.
type liar struct{ link.Shared }

func (liar) Locate([]byte) (int64, bool) { return 1 << 40, true }

func TestBadOffsets(t *testing.T) {
	links := jaccltest.SharedLinks(2)
	comms := jaccltest.Connect(t, []link.Link{links[0], liar{links[1]}}, time.Minute)
	defer comms[0].Close()
	defer comms[1].Close()
	errs := at(comms, []int{0, 1}, func(c jaccl.Communicator) error {
		b, err := c.(jaccl.Memory).Alloc(1 << 20)
		require.NoError(t, err)
		return c.World().AllSum(t.Context(), collective.Call{Op: "all_sum", DType: graph.F32}, b, b)
	})
	problem(t, errs[0], 0, collective.Call{Op: "all_sum", DType: graph.F32}, []int{1}, jaccl.ErrMismatch, "rank 1 sent rank 0 buffers that cannot be used", "are not its shared memory")
}

func TestConnectArguments(t *testing.T) {
	links, watches := jaccltest.Links(1), jaccltest.Watches(1)
	defer links[0].Close()
	for want, f := range map[string]func() (jaccl.Communicator, error){
		"no link or no watch": func() (jaccl.Communicator, error) { return engine.Connect(nil, watches[0], jaccl.Options{}) },
		"no watch, want both": func() (jaccl.Communicator, error) { return engine.Connect(links[0], nil, jaccl.Options{}) },
		"deadline -1ns": func() (jaccl.Communicator, error) {
			return engine.Connect(links[0], watches[0], jaccl.Options{Deadline: -1})
		},
	} {
		if _, err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}
