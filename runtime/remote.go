package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/lowering"
)

// remote is the state of a rank for running instructions on the session's device.
type remote struct {
	device   Device
	hold     *holding // owns the queue
	queue    Queue    // nil before the first step
	schedule *lowering.Schedule
	donated  map[int]bool // buffers of donated inputs
	// Of the current step:
	tickets []uint64 // of the step's segments
	open    bool     // the open segment has an instruction
	done    int      // number of segments waited for
	begun   bool     // a step has begun and its last segment has not been waited for
}

func newRemote(p *lowering.Plan, d Device, h *holding) *remote {
	m := &remote{device: d, hold: h, schedule: p.Schedule(), donated: map[int]bool{}}
	m.tickets = make([]uint64, 0, len(p.Instrs)+1)
	for _, d := range p.Donated {
		m.donated[p.In[d.In].Buf] = true
	}
	return m
}

// openQueues opens the queues of every rank, one for its plan and one for each loop body,
// unless they are open already.
func (s *Session) openQueues(ctx context.Context) error {
	if s.heap == nil || s.queues {
		return nil
	}
	err := s.each(ctx, (*rank).openQueue)
	s.queues = err == nil
	return err
}

func (r *rank) openQueue(ctx context.Context) error {
	for _, b := range r.bodies {
		b.opts = r.opts
		if err := b.openQueue(ctx); err != nil {
			return err
		}
	}
	m := r.remote
	if m.queue != nil {
		return nil
	}
	q, err := m.device.Open(ctx, r.plan, r.comm.Rank())
	if err != nil {
		return fmt.Errorf("runtime: rank %d: plan %s on %s: %w", r.comm.Rank(), r.plan.Name, m.device.Name(), err)
	}
	m.hold.mu.Lock()
	defer m.hold.mu.Unlock()
	m.queue, m.hold.queue = q, q
	if r.opts.Trace != nil {
		q.Spans()
	}
	return nil
}

// inTurns runs the plan, some instructions on the host and some on the device.
func (r *rank) inTurns(ctx context.Context, opts Options) error {
	m := r.remote
	if err := m.begin(); err != nil {
		return fmt.Errorf("runtime: rank %d: plan %s: %w", r.comm.Rank(), r.plan.Name, err)
	}
	for i := range r.plan.Instrs {
		if ctx.Err() != nil {
			return r.fail(i, context.Cause(ctx))
		}
		in := &r.plan.Instrs[i]
		if in.On {
			if err := m.encode(i, r); err != nil {
				return r.fail(i, err)
			}
			continue
		}
		if err := m.turn(ctx, r, i, opts.Trace); err != nil {
			return r.fail(i, err)
		}
		var began time.Time
		if opts.Trace != nil {
			began = time.Now()
		}
		if err := r.exec(ctx, in, r.groups[i]); err != nil {
			return r.fail(i, err)
		}
		opts.Trace.add(r, in, began)
	}
	end := len(r.plan.Instrs)
	err := m.turn(ctx, r, end, opts.Trace)
	m.trace(opts.Trace, r)
	if err != nil {
		last := m.schedule.Segments[len(m.schedule.Segments)-1]
		return r.fail(last[len(last)-1], err)
	}
	return nil
}

// begin begins a step.
func (m *remote) begin() error {
	if m.hold.lost {
		return fmt.Errorf("an earlier step left %s at work, which has not ended; open another session", m.device.Name())
	}
	m.tickets, m.open, m.done, m.begun = m.tickets[:0], false, 0, true
	return nil
}

func (m *remote) encode(i int, r *rank) error {
	m.open = true
	return m.queue.Encode(i, r.bufs)
}

// turn does the commits and waits scheduled before instruction i, or before the step's
// end.
func (m *remote) turn(ctx context.Context, r *rank, i int, t *Trace) error {
	turn := m.schedule.Turns[i]
	if turn.Commit {
		if err := m.commit(); err != nil {
			return err
		}
	}
	if turn.Wait > m.done {
		if err := m.wait(ctx, r, turn.Wait, t); err != nil {
			return err
		}
	}
	if i == len(r.plan.Instrs) {
		m.begun = false
	}
	return nil
}

func (m *remote) commit() error {
	t, err := m.queue.Commit()
	if err == nil {
		m.tickets, m.open = append(m.tickets, t), false
	}
	return err
}

// wait returns when the given number of the step's segments are done. Meanwhile others
// use the rank's threads.
func (m *remote) wait(ctx context.Context, r *rank, segments int, t *Trace) error {
	if t != nil {
		defer t.addWait(r.comm.Rank(), time.Now())
	}
	r.args.Crew.Leave()
	defer r.args.Crew.Enter()
	if err := m.queue.Wait(ctx, m.tickets[segments-1]); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	m.done = segments
	return nil
}

// alone returns a function that runs instruction i on the device and waits for it.
func (m *remote) alone(r *rank, i int) execute {
	return func(ctx context.Context, _ *lowering.Instr, _ collective.Group) error {
		if err := m.begin(); err != nil {
			return err
		}
		if err := m.encode(i, r); err != nil {
			return err
		}
		if err := m.commit(); err != nil {
			return err
		}
		err := m.wait(ctx, r, 1, nil)
		m.begun = err != nil
		return err
	}
}

// settleWithin limits the wait of a failed step for the device. Devices themselves abort
// work that hangs, within seconds.
const settleWithin = 30 * time.Second

// settle ends a step that has failed. It returns when the device has finished all
// submitted work, because the memory will be reused. It commits the open segment as well,
// although its results are not needed. If the device does not finish, the memory is never
// used again.
func (m *remote) settle(r *rank) {
	if m == nil || m.queue == nil || !m.begun {
		return
	}
	m.begun = false
	ctx, cancel := context.WithTimeout(context.Background(), settleWithin)
	defer cancel()
	if m.open {
		if err := m.commit(); err != nil { // the device did not get the segment
			m.open = false
		}
	}
	if len(m.tickets) == 0 {
		return
	}
	_ = m.queue.Wait(ctx, m.tickets[len(m.tickets)-1]) // the error of the step is already known
	if ctx.Err() == nil {
		return
	}
	r.lose()
}

// lose leaves the rank's memory to the device for ever.
func (r *rank) lose() {
	r.hold.mu.Lock()
	r.hold.lost = true
	r.hold.mu.Unlock()
	r.temps.leak()
	for i := range r.from {
		r.from[i].leak()
		r.copies[i].from.leak()
	}
}

// trace records the segments that the device ran.
func (m *remote) trace(t *Trace, r *rank) {
	if m == nil || t == nil {
		return
	}
	for _, s := range m.queue.Spans() {
		t.addSpan(r, s)
	}
}

// target returns the name of a plan's target.
func target(p *lowering.Plan) string {
	if p.Target == "" {
		return "the host"
	}
	return p.Target
}
