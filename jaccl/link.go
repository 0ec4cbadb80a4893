package jaccl

import (
	"context"
	"sync/atomic"

	"github.com/gomoe/gomoe/collective"
)

// MaxHead is the most bytes that a head has: nothing that a peer sends makes a
// link allocate more than that before this rank has agreed to its length.
const MaxHead = 16 << 10

// Link carries bytes between this rank and each of the others of a job. It knows
// nothing of operations: Connect makes collectives of it. Its methods are called
// by one goroutine at a time, but for Close.
type Link interface {
	// Rank is this process's index, 0 to Size()-1.
	Rank() int
	Size() int
	// Transport names what carries the bytes: tcp, shm, jaccl, mpi.
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

// Exchange is what one rank sends and receives in one step of a collective.
type Exchange struct {
	// Peers are the others that take part, by their ranks in the job: ascending,
	// each once, without this rank.
	Peers []int
	// Head is sent to every peer before its data, if it is not nil; then every peer
	// sends one too. At most MaxHead bytes; peers' heads may have other lengths.
	Head []byte
	// Heads is called once, by the goroutine that called Exchange, when the heads of
	// all peers have come, in the order of Peers, and before any of their data is
	// written anywhere. It may set Recv. The heads are valid until it returns. Its
	// error ends the exchange and is returned as it is. It is nil if Head is nil.
	Heads func(heads [][]byte) error
	// Send and Recv are, for each peer, the buffers to send and to fill, one after
	// another. Both sides of a pair state the same number of bytes in all, not the
	// same cuts. A nil Send or Recv, or one of a peer, is nothing.
	Send, Recv [][][]byte
	// Alike says that the two sides of every pair cut alike, empty buffers aside, so that
	// a link may carry each buffer by itself. Both sides of a pair say so, or neither.
	Alike bool

	progress []progress
	moved    atomic.Int64 // heads and bytes of all peers, of all uses

	whole *Exchange // of which this is the part of one link of a mix; mostly nil
	index []int     // of each of Peers in the whole
}

// progress is what an exchange has done with one peer.
type progress struct {
	head           atomic.Bool // the peer's head has come
	sent, received atomic.Int64
}

// Begin resets the account of what has been done. Every Link calls it first.
func (x *Exchange) Begin() {
	if cap(x.progress) < len(x.Peers) {
		x.progress = make([]progress, len(x.Peers))
	}
	x.progress = x.progress[:len(x.Peers)]
	for i := range x.progress {
		p := &x.progress[i]
		p.head.Store(false)
		p.sent.Store(0)
		p.received.Store(0)
	}
}

// Moved returns how many heads have come, and bytes left and come, in all uses of x
// so far. It may be called at any time.
func (x *Exchange) Moved() int64 { return x.moved.Load() }

// Came says that the head of Peers[i] has come. Links call it, from any goroutine.
func (x *Exchange) Came(i int) {
	if x.whole != nil {
		x.whole.Came(x.index[i])
	}
	x.progress[i].head.Store(true)
	x.moved.Add(1)
}

// Sent says that n more bytes of data have left for Peers[i]. Links call it, from
// any goroutine.
func (x *Exchange) Sent(i, n int) {
	if x.whole != nil {
		x.whole.Sent(x.index[i], n)
	}
	x.progress[i].sent.Add(int64(n))
	x.moved.Add(int64(n))
}

// Received says that n more bytes of data have come from Peers[i]. Links call it,
// from any goroutine.
func (x *Exchange) Received(i, n int) {
	if x.whole != nil {
		x.whole.Received(x.index[i], n)
	}
	x.progress[i].received.Add(int64(n))
	x.moved.Add(int64(n))
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

// Memory is implemented by communicators that may have memory of their link.
type Memory interface {
	// Alloc returns n bytes that all ranks see: operations on them move no byte twice.
	// They are zeroed, begin at a page, and are released with the communicator. The
	// error is ErrUnsupported where ranks do not share memory.
	Alloc(n int) ([]byte, error)
	// Lease is that of a Lender, and has its errors; it is ErrUnsupported where the link
	// is none. It is what sessions work in; see collective.Leaser.
	collective.Leaser
}
