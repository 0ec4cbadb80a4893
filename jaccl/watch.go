package jaccl

import (
	"github.com/gomoe/gomoe/collective"
)

// Watch tells the ranks of a job of each other's failures, whatever they are doing,
// beside the link that carries their data. Its methods do not block and may be
// called from any goroutine.
type Watch interface {
	// Host names the machine of a rank, for people.
	Host(rank int) string
	// Announce tells every rank of a failure, unless one is known already. When a
	// process ends or is cut off without a word, its peers' watches announce it.
	Announce(n Notice)
	// Down is closed when a failure is known, of this rank or another.
	Down() <-chan struct{}
	// First returns the failure that is known, the first one; false before Down is
	// closed. All ranks come to the same one where the network lets them.
	First() (Notice, bool)
	// Leave says that this rank is done: its end is no failure to ranks that do not
	// wait for it.
	Leave()
	// Left reports whether a rank has said so.
	Left(rank int) bool
	// Close ends the watch. It may be called twice.
	Close() error
}

// Notice is a failure as ranks tell each other.
type Notice struct {
	From  int    // the rank that noticed it
	Blame []int  // ranks that caused it
	Kind  Kind   // what Error wraps on the other ranks
	Text  string // for people: ranks, hosts, operations, bytes
	Call  collective.Call
}

// Kind is the kind of a failure, across processes.
type Kind uint8

// The kinds of failure.
const (
	KindCause    Kind = iota // a rank's own: what it gave to Fail, or its context's
	KindMismatch             // ErrMismatch
	KindDeadline             // ErrDeadline
	KindClosed               // ErrClosed
	KindArgument             // ErrArgument
	KindLost                 // ErrLost
)
