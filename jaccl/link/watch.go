package link

import (
	"time"

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

// Partings is implemented by watches whose ranks tell each other which groups they have
// closed, so that nobody waits there for who will not come.
type Partings interface {
	Watch
	// Tell tells a rank that this rank has closed a group of both.
	Tell(rank int, p Parting)
	// Hear makes f what is called with all that other ranks tell this one, also with
	// what they have told before. f does not block, and is called from any goroutine,
	// until Close. Hear is called once.
	Hear(f func(from int, p Parting))
}

// Parting is a group that a rank has closed.
type Parting struct {
	Group uint64 // the same number on all members
	Begun uint64 // operations that the rank has begun there with the one that is told
}

// Whereabouts is implemented by watches whose ranks tell each other in what they wait,
// so that a rank that waits for another is not blamed for the ranks that wait for it.
type Whereabouts interface {
	Watch
	// Answer makes f this rank's answer to ranks that ask. f does not block, and is
	// called from any goroutine, until Close. It is called once, before Ask.
	Answer(f func() Waiting)
	// Ask asks all other ranks that have not left. It returns their answers, by rank,
	// when all have come, and those that have after d, when a failure is known, or
	// when the watch is closed.
	Ask(d time.Duration) map[int]Waiting
}

// Waiting is an operation that a rank is in. The zero Waiting is none.
type Waiting struct {
	Text string // the call, for people; empty if the rank is in none
	For  []int  // the ranks that it may wait for
}

// MaxWaiting is the most bytes of the Text of a Waiting.
const MaxWaiting = 1 << 10
