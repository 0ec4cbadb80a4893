package link

import "context"

// Link carries bytes between this rank and each of the others of a job. It knows
// nothing of operations: Connect makes collectives of it. Its methods are called
// by one goroutine at a time, but for Close.
type Link interface {
	// Rank is this process's index, 0 to Size()-1.
	Rank() int
	Size() int
	// Transport names what carries the bytes: tcp, shm, verbs, mpi.
	Transport() string
	// Exchange sends to every peer and receives from every peer, all at once. It
	// returns nil when every byte has come and every buffer of x is the caller's
	// again; a peer may have to come to an exchange of its own for that, of its
	// n-th one with this rank for this rank's n-th one with it. An exchange
	// without heads and data waits for nobody.
	//
	// It returns soon after ctx ends, with its cause, and when a peer's connection
	// ends, with an error of type *PeerError. The link is of no use then, but to be
	// closed. Between heads and data of one pair of ranks nothing is mixed up:
	// what is sent arrives in order.
	Exchange(ctx context.Context, x *Exchange) error
	// Close releases everything and makes an Exchange in progress return. It may be
	// called twice. Peers that are in an Exchange with this rank, or come to one, get
	// a *PeerError.
	Close() error
}

// PeerError is a connection that ended or broke.
type PeerError struct {
	Peer int // rank of the job
	Err  error
}

func (e *PeerError) Error() string { return e.Err.Error() }
func (e *PeerError) Unwrap() error { return e.Err }

// Lender is implemented by links that carry memory of theirs better than other memory:
// shared memory is read by those that it is sent to, and a device sends and receives what
// it knows without a copy.
type Lender interface {
	Link
	// Lease returns n bytes of such memory, zeroed, which begin at a page and stay until
	// release is called, also when the link has been closed. The memory is used again
	// then, if the link is open: nothing of it may be in an exchange. release may be
	// called twice. The error says what is used up, or is ErrUnsupported; memory of the
	// process does as well. Lease and release may be called at any time, by any goroutine.
	Lease(n int) (b []byte, release func() error, err error)
}

// Shared is implemented by links whose ranks read each other's memory. Collectives
// on buffers in it move no byte twice.
type Shared interface {
	Lender
	// Alloc returns n bytes of this rank's shared memory, zeroed, which begin at a
	// page. They are released with the link.
	Alloc(n int) ([]byte, error)
	// Locate returns where in this rank's shared memory b lies. It is false for
	// other memory.
	Locate(b []byte) (offset int64, ok bool)
	// View returns n bytes of a peer's shared memory. The error says what is wrong
	// with an offset that a peer has sent.
	View(peer int, offset int64, n int) ([]byte, error)
}
