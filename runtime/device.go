package runtime

import (
	"context"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/lowering"
)

// Device runs the instructions of plans compiled for it, on memory shared with the host.
// Several sessions may use one Device at once, and its methods may be called at any time.
// Devices are compared with ==, so an implementation is a pointer or another comparable
// type.
type Device interface {
	lowering.Target
	// Alloc returns n bytes visible to host and device, aligned as the device needs, and
	// the function freeing them. The contents are undefined. The bytes stay valid until
	// free is called, even after queues are closed. free may be called twice, but not
	// while the device still has instructions using the memory.
	Alloc(n int) (mem []byte, free func(), err error)
	// Adopt makes existing memory, such as a network card's buffers or a mapped file,
	// visible to the device without copying, until free is called. Memory that is never
	// written may be adopted several times; the device then only reads it. The error
	// gives the reason why the device cannot see the memory; the host then copies.
	Adopt(mem []byte) (free func(), err error)
	// Open returns the Queue that runs one rank's instructions of the plan. It compiles their
	// kernels, which may take seconds; the end of ctx ends it early.
	Open(ctx context.Context, p *lowering.Plan, rank int) (Queue, error)
}

// Queue runs one rank's instructions in the order of encoding. Each instruction sees the
// writes of earlier instructions, and the host's writes before the segment was committed.
// The methods are called one at a time.
//
// The host neither changes the memory of an instruction nor reads its results before
// waiting for a ticket covering the instruction.
type Queue interface {
	// Encode adds instruction i to the open segment. bufs are the plan's buffers; all of
	// them come from the device's Alloc or Adopt, except buffers without bytes. The slice
	// belongs to the caller again when Encode returns; the memory it refers to must stay.
	// After an error the segment is unchanged.
	Encode(i int, bufs []array.Array) error
	// Commit ends the open segment and hands it to the device, which starts at once. Tickets
	// count from 1. If the segment is empty, nothing is handed over and Commit returns the
	// last ticket again.
	Commit() (ticket uint64, err error)
	// Wait blocks until the device has finished the ticket's segment and all earlier
	// ones. It returns the first error of their instructions that no earlier call has
	// returned; the error of a failed kernel is a *QueueError. If ctx ends first, Wait
	// returns its error. Wait implies nothing about segments after the ticket.
	Wait(ctx context.Context, ticket uint64) error
	// Spans returns the times at which the device ran the segments waited for since the
	// last call, for traces. Recording starts with the first call.
	Spans() []Span
	// Close does not wait: the session has already waited for all tickets, or the device
	// has failed.
	Close() error
}
