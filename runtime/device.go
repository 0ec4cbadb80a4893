package runtime

import (
	"context"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/lowering"
)

// Device runs the instructions of plans that were made for it, on memory that the host sees
// too. Several sessions may use one Device at once, and its methods may be called at any time.
// Devices are compared with ==, so an implementation is a pointer or another comparable type.
type Device interface {
	lowering.Target
	// Alloc returns n bytes that host and device see, aligned as the device needs, and the
	// function that frees them. The contents are undefined. The bytes stay valid until free is
	// called, also when queues have been closed. free may be called twice, but not while the
	// device still has instructions that use the memory.
	Alloc(n int) (mem []byte, free func(), err error)
	// Adopt lets the device see memory that somebody else allocated, such as a network card's
	// buffers or a mapped file, where it lies, until free is called. What nobody writes to may be
	// adopted several times, and the device then only reads it. The error says why the device cannot see it; the host
	// copies then.
	Adopt(mem []byte) (free func(), err error)
	// Open returns the Queue that runs one rank's instructions of the plan. It compiles their
	// kernels, which may take seconds; the end of ctx ends it early.
	Open(ctx context.Context, p *lowering.Plan, rank int) (Queue, error)
}

// Queue runs one rank's instructions in the order in which they are encoded. Each instruction
// sees what earlier instructions have written, and what the host wrote before the segment was
// committed. The methods are called one at a time.
//
// The host neither changes the memory of an instruction nor reads its results before it has
// waited for a ticket that covers the instruction.
type Queue interface {
	// Encode adds instruction i to the open segment. bufs are the plan's buffers; Alloc or
	// Adopt of the device has made all of them known, except those without bytes. The slice
	// belongs to the caller again when Encode returns; the memory it refers to must stay.
	// After an error the segment is as it was before.
	Encode(i int, bufs []array.Array) error
	// Commit ends the open segment and hands it to the device, which starts at once. Tickets
	// count from 1. If the segment is empty, nothing is handed over and Commit returns the
	// last ticket again.
	Commit() (ticket uint64, err error)
	// Wait blocks until the device has finished the ticket's segment and all earlier ones. It
	// returns the first error of their instructions that no earlier call has returned; the
	// error of a failed kernel is a *QueueError. If ctx ends first, Wait returns its error.
	// Wait says nothing about segments after the ticket.
	Wait(ctx context.Context, ticket uint64) error
	// Spans returns when the device worked on the segments that were waited for since the last
	// call, for traces. Recording starts with the first call.
	Spans() []Span
	// Close does not wait: the session has waited for all tickets before, or the device has
	// failed.
	Close() error
}
