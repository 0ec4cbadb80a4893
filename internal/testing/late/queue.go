package late

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/runtime"
)

// queue runs a rank's instructions.
type queue struct {
	device *Device
	plan   *lowering.Plan
	rank   int
	start  time.Time
	args   exec.Args

	open      []encoded
	handed    []segment // submitted and not waited for
	tickets   uint64
	spans     []runtime.Span
	recording bool
	closed    bool
}

type encoded struct {
	i    int
	bufs map[int]array.Array
}

type segment struct {
	ticket uint64
	work   []encoded
	done   chan error // gets the error of a segment running concurrently with the host; otherwise nil
}

// Encode implements runtime.Queue.
func (q *queue) Encode(i int, bufs []array.Array) error {
	if q.closed {
		return errClosed
	}
	in := &q.plan.Instrs[i]
	if !in.On || in.Communicates() {
		return fmt.Errorf("late: instruction %d, %s, is the host's", i, in.Name())
	}
	e := encoded{i, map[int]array.Array{}}
	for _, b := range touched(in) {
		if !q.device.sees(bufs[b].Bytes()) {
			return unseen(q.plan, i, b)
		}
		e.bufs[b] = bufs[b]
	}
	q.open = append(q.open, e)
	q.device.count(func(u *Uses) { u.Encode++ })
	return nil
}

func touched(in *lowering.Instr) []int {
	all := slices.Concat(in.In, in.Out)
	if in.Zones >= 0 {
		all = append(all, in.Zones)
	}
	return all
}

// Commit implements runtime.Queue.
func (q *queue) Commit() (uint64, error) {
	if q.closed {
		return 0, errClosed
	}
	if len(q.open) == 0 {
		return q.tickets, nil
	}
	if q.device.Broken != nil {
		if err := q.device.Broken(q.rank, q.tickets+1, false); err != nil {
			q.open = nil
			return 0, err
		}
	}
	q.device.count(func(u *Uses) { u.Commit++ })
	q.tickets++
	s := segment{ticket: q.tickets, work: q.open}
	q.open = nil
	if q.device.Beside {
		s.done = make(chan error, 1)
		var before chan error
		if n := len(q.handed); n > 0 {
			before = q.handed[n-1].done
		}
		go func() {
			var err error
			if before != nil { // segments run in order
				err = <-before
				before <- err
			}
			s.done <- q.run(s)
		}()
	}
	q.handed = append(q.handed, s)
	return s.ticket, nil
}

// Wait implements runtime.Queue.
func (q *queue) Wait(ctx context.Context, ticket uint64) error {
	if q.closed {
		return errClosed
	}
	q.device.count(func(u *Uses) { u.Waits++ })
	if ticket > q.tickets {
		return fmt.Errorf("late: ticket %d, want at most %d", ticket, q.tickets)
	}
	if q.device.Stuck != nil {
		select {
		case <-q.device.Stuck:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var first error
	for len(q.handed) > 0 && q.handed[0].ticket <= ticket {
		s := q.handed[0]
		q.handed = q.handed[1:]
		from := time.Now()
		var err error
		if s.done != nil {
			err = <-s.done
			s.done <- nil // for the next segment, which waits for this one
		} else {
			err = q.run(s)
		}
		if q.recording {
			i, j := s.work[0].i, s.work[len(s.work)-1].i
			q.spans = append(q.spans, runtime.Span{Ticket: s.ticket, From: from, To: time.Now(), First: i, Len: j - i + 1})
		}
		if first == nil {
			first = err
		}
		if q.device.Broken != nil && first == nil {
			first = q.device.Broken(q.rank, s.ticket, true)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return first
}

// Spans implements runtime.Queue.
func (q *queue) Spans() []runtime.Span {
	s := q.spans
	q.spans, q.recording = nil, true
	return s
}

// Close implements runtime.Queue.
func (q *queue) Close() error {
	if !q.closed {
		q.device.count(func(u *Uses) { u.Closed++ })
	}
	q.closed = true
	return nil
}
