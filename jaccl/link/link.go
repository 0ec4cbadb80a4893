package link

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
)

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

// Site is this process's place in a job of several processes, one rank each. Transports
// are set up with a Site. Its methods Gather and Dial block and are collective: every rank
// calls them, in the same order, and each call has the site's own deadline.
type Site interface {
	Rank() int
	Size() int
	// Host names the machine of a rank, for people.
	Host(rank int) string
	// SameHost reports whether a rank runs on this machine, in the same process
	// namespace and with the same shared memory.
	SameHost(rank int) bool
	// Gather returns the value of mine on every rank, by rank. It is for data of a few
	// KiB. key names the purpose; ranks passing different keys get an error showing both.
	Gather(ctx context.Context, key string, mine []byte) ([][]byte, error)
	// Dial returns a new connection to each other rank, nil for this one. Both
	// sides have proved that they know the job's secret. purpose is compared like
	// Gather's key. The caller owns the connections and closes them.
	Dial(ctx context.Context, purpose string) ([]net.Conn, error)
}

// Watch tells the ranks of a job of each other's failures, whatever they are doing. It is
// separate from the link carrying their data. Its methods, except for Ask, do not block and
// may be called from any goroutine.
type Watch interface {
	// Host names the machine of a rank, for people.
	Host(rank int) string
	// Announce tells every rank of a failure, unless one is known already. If a process
	// ends or is cut off without an announcement, its peers' watches announce that.
	Announce(n Notice)
	// Down returns a channel that is closed when a failure is known, of this rank or
	// another.
	Down() <-chan struct{}
	// First returns the first failure; false before Down is closed. All ranks get the
	// same failure, as long as the network lets them tell each other.
	First() (Notice, bool)
	// Leave declares that this rank is done. When its process ends after that, the other
	// ranks' watches do not report a failure.
	Leave()
	// Left reports whether a rank has called Leave.
	Left(rank int) bool
	// Tell tells a rank that this rank has closed a group that both are in, so that no
	// rank waits in the group for a rank that will not come.
	Tell(rank int, p Parting)
	// Hear makes the watch call f with every parting announced to this rank, including
	// partings that came before Hear. f must not block; it may be called from any
	// goroutine, until Close. Hear is called once.
	Hear(f func(from int, p Parting))
	// Answer makes the watch call f for this rank's answer when another rank asks. f must
	// not block; it may be called from any goroutine, until Close. Answer is called once,
	// before Ask.
	Answer(f func() Waiting)
	// Ask asks all other ranks for their current operations, so that a rank that is waiting
	// for another one itself is not blamed. It returns the answers, by rank. It blocks until
	// all ranks that have not left have answered. When d has passed, a failure is known or
	// the watch is closed, Ask returns the answers received by then.
	Ask(d time.Duration) map[int]Waiting
	// Close ends the watch. It may be called twice.
	Close() error
}

// Notice describes a failure to other ranks.
type Notice struct {
	From  int             // the rank that noticed the failure
	Blame []int           // the ranks that caused it
	Kind  Kind            // the error that jaccl.Error wraps on the other ranks
	Text  string          // for people: ranks, hosts, operations, bytes
	Call  collective.Call // the call of rank From; zero for none
}

// Kind is the kind of a failure, in a form that processes can send each other.
type Kind uint8

// The kinds of failure.
const (
	KindCause    Kind = iota // a rank's own cause: the argument of Fail, or its context's cause
	KindMismatch             // ErrMismatch
	KindDeadline             // ErrDeadline
	KindClosed               // ErrClosed
	KindArgument             // ErrArgument
	KindLost                 // ErrLost
)

// Err returns the error wrapped by errors of the kind. It returns nil for KindCause:
// other ranks know only its text.
func (k Kind) Err() error {
	switch k {
	case KindMismatch:
		return jaccl.ErrMismatch
	case KindDeadline:
		return jaccl.ErrDeadline
	case KindClosed:
		return jaccl.ErrClosed
	case KindArgument:
		return jaccl.ErrArgument
	case KindLost:
		return jaccl.ErrLost
	}
	return nil
}

// KindOf returns the kind of an error; KindCause if the error wraps none of the others.
func KindOf(err error) Kind {
	for k := KindMismatch; k <= KindLost; k++ {
		if errors.Is(err, k.Err()) {
			return k
		}
	}
	return KindCause
}

// Parting is a group that a rank has closed.
type Parting struct {
	Group uint64 // the same number on all members
	Begun uint64 // number of operations of the group begun with the receiving rank
}

// Waiting is the operation in which a rank waits. The zero Waiting means that the rank is
// in no operation.
type Waiting struct {
	Text string // the call, for people; empty if the rank is in no operation
	For  []int  // the ranks for which it may wait
}

// MaxWaiting is the largest size of the Text of a Waiting in bytes.
const MaxWaiting = 1 << 10
