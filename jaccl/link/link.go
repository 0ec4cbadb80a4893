package link

import "context"

// Link carries bytes between this rank and each of the others of a job. It knows
// nothing of operations: engine.Connect makes collectives of it. One goroutine at a
// time calls its methods, except for Close, which any goroutine may call at any time.
type Link interface {
	// Rank is this process's index, 0 to Size()-1.
	Rank() int
	Size() int
	// Transport names the transport: tcp, shm, verbs, mpi.
	Transport() string
	// Exchange sends to every peer and receives from every peer at the same time. It
	// returns nil when every byte has been received and every buffer of x is the caller's
	// again. For that, a peer may have to call Exchange as well: this rank's n-th
	// exchange with a peer belongs to the peer's n-th exchange with this rank. An
	// exchange without heads and data does not wait.
	//
	// Exchange returns soon after ctx ends, with the cause of ctx. It returns a
	// *PeerError soon after the link has seen that the connection to a peer has ended, or
	// that the peer is Gone. A link need not detect the end of a peer's process: the
	// job's Watch does, and ctx ends. After an error the link can only be closed. Heads
	// and data between two ranks arrive in the order of sending.
	Exchange(ctx context.Context, x *Exchange) error
	// Close releases everything, except for leases, and makes an Exchange in progress
	// return. It may be called twice. Peers that wait for this rank in an Exchange, now
	// or later, get a *PeerError, at the latest when their exchanges report that this
	// rank is Gone.
	Close() error
}

// PeerError is the error of a connection to a peer that ended or broke.
type PeerError struct {
	Peer int // the peer's rank in the job
	Err  error
}

func (e *PeerError) Error() string { return e.Err.Error() }
func (e *PeerError) Unwrap() error { return e.Err }

// Lender is implemented by links carrying data in their own memory faster than data in
// other memory: peers read shared memory directly, and a device sends from and receives
// into registered memory without a copy.
type Lender interface {
	Link
	// Lease returns n zeroed bytes of such memory, aligned to a page. The bytes stay
	// valid until release is called, even after the link has been closed. No exchange may
	// use them when release is called; an open link may then lend them again. release may
	// be called twice. The error names the exhausted resource, or is ErrUnsupported; the
	// caller can always use ordinary memory instead. Lease and release may be called at
	// any time, by any goroutine.
	Lease(n int) (b []byte, release func() error, err error)
}

// Shared is implemented by links between ranks that read and write each other's memory.
// Collectives on buffers in that memory move no byte twice.
type Shared interface {
	Lender
	// Alloc returns n bytes of this rank's shared memory, zeroed, which begin at a
	// page. They are released with the link.
	Alloc(n int) ([]byte, error)
	// Locate returns the offset of b in this rank's shared memory; ok is false if b is
	// elsewhere.
	Locate(b []byte) (offset int64, ok bool)
	// View returns n bytes of a peer's shared memory at an offset sent by the peer. It is
	// an error if the offset is invalid.
	View(peer int, offset int64, n int) ([]byte, error)
}
