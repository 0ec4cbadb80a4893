package runtime

import (
	"context"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/lowering"
)

// Device runs instructions of plans that were made for it, on memory that the host sees,
// too. Several sessions may use one at once, and its methods may be called at any time.
// Devices are compared with each other, so an implementation is a pointer, or else comparable.
type Device interface {
	lowering.Target
	// Alloc returns n bytes that host and device see, aligned as the device wants it,
	// and what gives them back; n bytes of anything. They stay until then, whatever
	// becomes of queues. free may be called twice, and by nobody while the device has
	// instructions that work on the memory.
	Alloc(n int) (mem []byte, free func(), err error)
	// Adopt lets the device see memory that somebody else has allocated, such as what a
	// network card reads, until free is called. The error says why it can not be seen;
	// then the host copies.
	Adopt(mem []byte) (free func(), err error)
	// Open returns what runs a rank's instructions of the plan. Its kernels are compiled
	// then, which may take seconds; ctx ends it.
	Open(ctx context.Context, p *lowering.Plan, rank int) (Queue, error)
}

// Queue runs one rank's instructions, in the order in which they are encoded, and each
// sees what those before have written, and the host before they were handed over. Its
// methods are called one at a time.
//
// The host keeps the memory of an instruction as it is until a ticket that covers the
// instruction has been waited for, and reads no result before.
type Queue interface {
	// Encode adds instruction i to the open segment. bufs is the memory of the plan's
	// buffers, all of which Alloc or Adopt of the device has made known, but for those
	// without bytes. It is the caller's again when Encode returns; what it refers to
	// stays. After an error the segment is as it was.
	Encode(i int, bufs []array.Array) error
	// Commit ends the open segment and hands it to the device, which starts at once. The
	// ticket counts from 1. With no instruction in it nothing is handed over, and the
	// last ticket returned.
	Commit() (ticket uint64, err error)
	// Wait returns when the device has done the segment of that ticket, and all before,
	// with the first error of their instructions that no call has returned. A failed
	// kernel's is a *QueueError. Only when ctx ends it returns earlier, with its error.
	// Of segments behind the ticket it says nothing.
	Wait(ctx context.Context, ticket uint64) error
	// Spans returns when the device worked on the segments that were waited for since the
	// last call, for traces. They are recorded from the first call on.
	Spans() []Span
	// Close waits for nothing: the session has waited for all tickets, or the device has
	// failed.
	Close() error
}
