package metal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/metal/mtl"
	"github.com/gomoe/gomoe/runtime"
)

// queue runs a rank's instructions.
type queue struct {
	device  *Device
	rank    int
	program *program
	queue   *mtl.Queue
	scratch *mtl.Buffer // nil if nothing uses any
	records *records

	open    *segment  // nil before its first instruction
	handed  []segment // to the GPU, and not waited for, in order
	tickets uint64
	known   int // complaints that were returned
	clock   clock
	spans   []runtime.Span
	record  bool // spans

	// encoding is encode, and i and bufs its arguments: it is called in a pool, and to
	// make it a function takes memory.
	encoding func() error
	i        int
	bufs     []array.Array
}

// segment is a command buffer.
type segment struct {
	ticket      uint64
	commands    *mtl.CommandBuffer
	encoder     *mtl.Compute
	first, last int // of its instructions in the plan
	instrs      []int
	committed   time.Time
}

// Open implements runtime.Device.
func (d *Device) Open(ctx context.Context, p *lowering.Plan, rank int) (_ runtime.Queue, err error) {
	q := &queue{device: d, rank: rank}
	if q.program, err = d.compile(ctx, p, rank); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			q.Close()
		}
	}()
	if q.queue, err = d.gpu.Queue(); err != nil {
		return nil, fmt.Errorf("metal: %w", err)
	}
	if n := q.program.scratch; n > 0 {
		if q.scratch, err = d.gpu.Buffer(n); err != nil {
			return nil, fmt.Errorf("metal: %d bytes that kernels use beside their arguments: %w", n, err)
		}
	}
	if q.records, err = newRecords(d.gpu, q.program); err != nil {
		return nil, fmt.Errorf("metal: %w", err)
	}
	q.encoding = q.encode
	return q, nil
}

// errClosed is the error of using a queue that is closed.
var errClosed = errors.New("metal: the queue is closed")

// Encode implements runtime.Queue.
func (q *queue) Encode(i int, bufs []array.Array) error {
	if q.queue == nil {
		return errClosed
	}
	q.i, q.bufs = i, bufs
	err := q.queue.Pool(q.encoding)
	q.bufs = nil
	return err
}

func (q *queue) encode() error {
	x := &q.program.instrs[q.i]
	if q.open == nil {
		if err := q.begin(); err != nil {
			return err
		}
	}
	s := q.open
	if len(s.instrs) == 0 {
		s.first = q.i
	}
	s.last, s.instrs = q.i, append(s.instrs, q.i)
	s.encoder.PushDebugGroup(x.label)
	defer s.encoder.PopDebugGroup()
	for k := range x.launches {
		l := &x.launches[k]
		s.encoder.SetPipeline(l.pipeline)
		for at, arg := range l.args {
			if err := q.bind(s.encoder, x, at, arg); err != nil {
				return err
			}
		}
		for at, n := range l.memory {
			s.encoder.SetThreadgroupMemory(at, n)
		}
		s.encoder.Dispatch(l.groups, l.threads)
	}
	return nil
}

func (q *queue) begin() error {
	c, err := q.queue.CommandBuffer(fmt.Sprintf("%s rank %d segment %d", q.program.plan.Name, q.rank, q.tickets+1))
	if err != nil {
		return fmt.Errorf("metal: %w", err)
	}
	q.open = &segment{commands: c, encoder: c.Compute(false)}
	return nil
}

// bind passes an argument of an instruction to the next dispatch.
func (q *queue) bind(e *mtl.Compute, x *instr, at int, arg kernels.Arg) error {
	in := &q.program.plan.Instrs[q.i]
	b := 0
	switch arg.Kind {
	case kernels.OfIn:
		b = in.In[arg.Index]
	case kernels.OfOut:
		b = in.Out[arg.Index]
	case kernels.OfZones:
		b = in.Zones
	case kernels.OfScratch:
		e.SetBuffer(at, q.scratch, x.scratch[arg.Index])
		return nil
	case kernels.OfStatus:
		e.SetBuffer(at, q.records.buffer, q.records.offset(x.status))
		return nil
	case kernels.OfBytes:
		e.SetBytes(at, arg.Bytes)
		return nil
	}
	mem := q.bufs[b].Bytes()
	if len(mem) == 0 {
		e.SetBuffer(at, q.device.none, 0)
		return nil
	}
	buffer, offset := q.device.memory.find(mem)
	if buffer == nil {
		return fmt.Errorf("metal: argument %d: the GPU does not see the %d bytes of buffer %d", at, len(mem), b)
	}
	e.SetBuffer(at, buffer, offset)
	return nil
}

// Commit implements runtime.Queue.
func (q *queue) Commit() (uint64, error) {
	if q.queue == nil {
		return 0, errClosed
	}
	if q.open == nil {
		return q.tickets, nil
	}
	s := *q.open
	q.open = nil
	s.encoder.End()
	s.committed = time.Now()
	if err := s.commands.Commit(); err != nil {
		s.commands.Close()
		return 0, fmt.Errorf("metal: %w", err)
	}
	q.tickets++
	s.ticket = q.tickets
	q.handed = append(q.handed, s)
	return s.ticket, nil
}

// Wait implements runtime.Queue.
func (q *queue) Wait(ctx context.Context, ticket uint64) error {
	if q.queue == nil {
		return errClosed
	}
	if ticket > q.tickets {
		return fmt.Errorf("metal: waiting for segment %d of %d", ticket, q.tickets)
	}
	n := 0
	for n < len(q.handed) && q.handed[n].ticket <= ticket {
		n++
	}
	if n == 0 {
		return nil
	}
	// The last one's end is that of all: a queue runs them in order. A failure of it is
	// reported below, with its instructions.
	if err := q.handed[n-1].commands.Wait(ctx); err != nil && q.handed[n-1].commands.Status() < mtl.Completed {
		return err
	}
	now := time.Now()
	var first error
	for k := range q.handed[:n] {
		if err := q.done(&q.handed[k], now); err != nil && first == nil {
			first = err
		}
	}
	q.handed = append(q.handed[:0], q.handed[n:]...)
	if first == nil {
		first = q.complaint()
	}
	return first
}

// done returns the first error of a segment that the GPU has done, and clears its records.
func (q *queue) done(s *segment, now time.Time) error {
	err := s.commands.Err()
	if err != nil {
		what := fmt.Sprintf("this instruction or one of the %d behind it up to %d", len(s.instrs)-1, s.last)
		if len(s.instrs) == 1 {
			what = "this instruction"
		}
		err = &runtime.QueueError{Index: s.first, Err: fmt.Errorf("metal: %s: %w", what, err)}
	}
	for _, i := range s.instrs {
		x := &q.program.instrs[i]
		if x.status < 0 {
			continue
		}
		record, written := q.records.take(x.status)
		if !written || err != nil {
			continue
		}
		if x.fault == nil {
			err = &runtime.QueueError{Index: i, Err: fmt.Errorf("metal: a kernel has found a mistake, %v, which nobody explains", record)}
		} else if fault := x.fault(record); fault != nil {
			err = &runtime.QueueError{Index: i, Err: fault}
		}
	}
	if q.record {
		from, to := q.clock.span(s.commands.GPUStart(), s.commands.GPUEnd(), s.committed, now)
		q.spans = append(q.spans, runtime.Span{Ticket: s.ticket, From: from, To: to, First: s.first, Len: s.last - s.first + 1})
	}
	s.commands.Close()
	return err
}

// complaint returns what the emulated GPU has against the driver since the last call.
func (q *queue) complaint() error {
	if q.device.emulation == nil {
		return nil
	}
	all := q.device.emulation.Report().Violations()
	news := all[min(q.known, len(all)):]
	q.known = len(all)
	return complaint(news)
}

// Spans implements runtime.Queue.
func (q *queue) Spans() []runtime.Span {
	s := q.spans
	q.spans, q.record = nil, true
	return s
}

// Close implements runtime.Queue.
func (q *queue) Close() error {
	if q.open != nil {
		q.open.commands.Close()
		q.open = nil
	}
	for i := range q.handed {
		q.handed[i].commands.Close()
	}
	q.handed = nil
	if q.scratch != nil {
		q.scratch.Close()
		q.scratch = nil
	}
	if q.records != nil {
		q.records.close()
		q.records = nil
	}
	if q.queue != nil {
		q.queue.Close()
		q.queue = nil
	}
	return nil
}
