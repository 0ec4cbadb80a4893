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
	queue   *mtl.CommandQueue
	scratch *mtl.Buffer // nil if no instruction uses scratch memory
	records *records

	open    *part  // nil before the part's first instruction
	handed  []part // parts handed to the GPU and not waited for, in order
	begun   bool   // parts of the open segment have been handed over
	tickets uint64 // number of completed segments
	known   int    // number of complaints returned
	clock   clock
	spans   []runtime.Span
	record  bool // whether spans are recorded

	// encoding is the method encode, and i and bufs are its arguments. encode is called in a pool;
	// making the function value in every call would allocate memory.
	encoding func() error
	i        int
	bufs     []array.Array
	// hazards belong to the open part, reads and writes to the launch being encoded.
	hazards       hazards
	reads, writes []span
	// in, out and zones are the operands of instruction i.
	in, out []operand
	zones   operand
}

// part is one command buffer of a segment. Most segments have one part.
type part struct {
	ticket      uint64 // of the segment
	commands    *mtl.CommandBuffer
	encoder     *mtl.Compute
	dispatches  int
	first, last int // the part's instructions in the plan
	instrs      []int
	committed   time.Time
}

// mostDispatches is the number of dispatches after which a command buffer is handed over, at the
// end of an instruction. The GPU then starts while the host is still encoding, and the watchdog of
// macOS, which ends command buffers running for seconds, sees shorter ones. MLX hands over the same
// number of operations at a time (device.cpp).
const mostDispatches = 30

// Open implements runtime.Device.
func (d *Device) Open(ctx context.Context, p *lowering.Plan, rank int) (_ runtime.Queue, err error) {
	q := &queue{device: d, rank: rank}
	if q.program, err = d.compile(ctx, p, rank); err != nil {
		return nil, err
	}
	if err := d.fits(p, q.program.scratch); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			q.Close()
		}
	}()
	if q.queue, err = d.gpu.CommandQueue(); err != nil {
		return nil, fmt.Errorf("metal: %w", err)
	}
	q.queue.Keep(d.resident)
	if n := q.program.scratch; n > 0 {
		if q.scratch, err = d.gpu.Buffer(n); err != nil {
			return nil, fmt.Errorf("metal: %d bytes of kernels' scratch memory: %w", n, err)
		}
		d.resident.Add(q.scratch)
	}
	if q.records, err = newRecords(d.gpu, q.program); err != nil {
		return nil, fmt.Errorf("metal: %w", err)
	}
	d.resident.Add(q.records.buffer)
	q.encoding = q.encode
	return q, nil
}

// errClosed is the error of a queue used after Close.
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
	if err := q.resolve(); err != nil {
		return err
	}
	if q.open == nil {
		if err := q.begin(); err != nil {
			return err
		}
	}
	s, x := q.open, &q.program.instrs[q.i]
	if len(s.instrs) == 0 {
		s.first = q.i
	}
	s.last, s.instrs = q.i, append(s.instrs, q.i)
	if q.device.capture {
		s.encoder.PushDebugGroup(x.label)
		defer s.encoder.PopDebugGroup()
	}
	for k := range x.launches {
		l := &x.launches[k]
		q.order(s.encoder, x, l)
		s.encoder.SetPipeline(l.pipeline)
		for at, arg := range l.args {
			q.bind(s.encoder, x, at, arg)
		}
		for at, n := range l.memory {
			s.encoder.SetThreadgroupMemory(at, n)
		}
		s.encoder.Dispatch(l.groups, l.threads)
	}
	s.dispatches += len(x.launches)
	if err := s.commands.Mistake(); err != nil {
		return fmt.Errorf("metal: instruction %s: %w", x.label, err)
	}
	if s.dispatches >= mostDispatches {
		return q.hand()
	}
	return nil
}

// order puts a barrier before a launch that must see the writes of earlier ones, or that overwrites
// memory used by them. Everything that a launch may write counts as read, too. Arguments are only
// read: results, scratch memory and status records are written.
func (q *queue) order(e *mtl.Compute, x *instr, l *launch) {
	q.reads, q.writes = q.reads[:0], q.writes[:0]
	for _, arg := range l.args {
		switch o, size := q.place(x, arg); {
		case size == 0:
		case arg.Kind == kernels.OfIn || arg.Kind == kernels.OfZones:
			q.reads = append(q.reads, span{o.buffer, o.offset, o.offset + size})
		default:
			q.writes = append(q.writes, span{o.buffer, o.offset, o.offset + size})
		}
	}
	if q.hazards.meets(q.reads, q.writes) {
		e.Barrier()
		q.hazards.clear()
	}
	q.hazards.add(q.reads, q.writes)
}

// hand hands the open part over to the GPU. It is called in a pool.
func (q *queue) hand() error {
	s := *q.open
	q.open = nil
	s.encoder.End()
	s.committed = time.Now()
	if err := s.commands.Commit(); err != nil {
		s.commands.Close()
		return fmt.Errorf("metal: %w", err)
	}
	s.ticket = q.tickets + 1
	q.handed = append(q.handed, s)
	q.begun = true
	return nil
}

// operand is the location of an argument or a result of an instruction.
type operand struct {
	buffer *mtl.Buffer
	offset int
	size   int
}

// resolve finds the operands of the instruction. The error names an operand invisible to the GPU.
func (q *queue) resolve() error {
	in := &q.program.plan.Instrs[q.i]
	q.in, q.out, q.zones = q.in[:0], q.out[:0], operand{}
	for _, b := range in.In {
		o, err := q.operand(b)
		if err != nil {
			return err
		}
		q.in = append(q.in, o)
	}
	for _, b := range in.Out {
		o, err := q.operand(b)
		if err != nil {
			return err
		}
		q.out = append(q.out, o)
	}
	if in.Zones < 0 {
		return nil
	}
	var err error
	q.zones, err = q.operand(in.Zones)
	return err
}

func (q *queue) operand(b int) (operand, error) {
	mem := q.bufs[b].Bytes()
	if len(mem) == 0 {
		return operand{q.device.none, 0, 0}, nil
	}
	buffer, offset := q.device.memory.find(mem)
	if buffer == nil {
		return operand{}, fmt.Errorf("metal: the GPU does not see the %d bytes of buffer %d", len(mem), b)
	}
	return operand{buffer, offset, len(mem)}, nil
}

func (q *queue) begin() error {
	c, err := q.queue.CommandBuffer(fmt.Sprintf("%s rank %d segment %d", q.program.plan.Name, q.rank, q.tickets+1))
	if err != nil {
		return fmt.Errorf("metal: %w", err)
	}
	q.open = &part{commands: c, encoder: c.Compute(true)}
	q.hazards.clear() // an encoder sees the writes of earlier ones
	return nil
}

// bind passes an argument of an instruction to the next dispatch.
func (q *queue) bind(e *mtl.Compute, x *instr, at int, arg kernels.Arg) {
	if arg.Kind == kernels.OfBytes {
		e.SetBytes(at, arg.Bytes)
		return
	}
	o, _ := q.place(x, arg)
	e.SetBuffer(at, o.buffer, o.offset)
}

// place returns the location of an argument of an instruction, and its size, 0 for bytes.
func (q *queue) place(x *instr, arg kernels.Arg) (o operand, size int) {
	switch arg.Kind {
	case kernels.OfIn:
		o = q.in[arg.Index]
	case kernels.OfOut:
		o = q.out[arg.Index]
	case kernels.OfZones:
		o = q.zones
	case kernels.OfScratch:
		o = operand{q.scratch, x.scratch[arg.Index].at, x.scratch[arg.Index].size}
	case kernels.OfStatus:
		o = operand{q.records.buffer, q.records.offset(x.status), recordBytes}
	}
	return o, o.size
}

// Commit implements runtime.Queue.
func (q *queue) Commit() (uint64, error) {
	if q.queue == nil {
		return 0, errClosed
	}
	if q.open != nil {
		if err := q.queue.Pool(q.hand); err != nil {
			return 0, err
		}
	}
	if q.begun {
		q.begun = false
		q.tickets++
	}
	return q.tickets, nil
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
	// The end of the last part is the end of all, because a queue runs them in order. Its failure
	// is reported below, naming its instructions.
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

// done returns the first error of a part completed by the GPU, and clears its records.
func (q *queue) done(s *part, now time.Time) error {
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

// complaint returns the rules of Metal violated on the emulated GPU since the last call.
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
		q.device.resident.Remove(q.scratch)
		q.scratch.Close()
		q.scratch = nil
	}
	if q.records != nil {
		q.device.resident.Remove(q.records.buffer)
		q.records.close()
		q.records = nil
	}
	if q.queue != nil {
		q.queue.Close()
		q.queue = nil
	}
	return nil
}
