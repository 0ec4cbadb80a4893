package link

import (
	"errors"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
)

// Watch tells the ranks of a job of each other's failures, whatever they are doing.
// It is separate from the link that carries their data. Its methods do not block and
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
	// Leave says that this rank is done. When its process ends after that, the other
	// ranks' watches do not take this for a failure.
	Leave()
	// Left reports whether a rank has called Leave.
	Left(rank int) bool
	// Close ends the watch. It may be called twice.
	Close() error
}

// Notice describes a failure to other ranks.
type Notice struct {
	From  int             // the rank that noticed the failure
	Blame []int           // the ranks that caused it
	Kind  Kind            // what jaccl.Error wraps on the other ranks
	Text  string          // for people: ranks, hosts, operations, bytes
	Call  collective.Call // the call of rank From; zero for none
}

// Kind is the kind of a failure, in a form that processes can send each other.
type Kind uint8

// The kinds of failure.
const (
	KindCause    Kind = iota // a rank's own cause: what it gave to Fail, or its context's cause
	KindMismatch             // ErrMismatch
	KindDeadline             // ErrDeadline
	KindClosed               // ErrClosed
	KindArgument             // ErrArgument
	KindLost                 // ErrLost
)

// Err returns what an error of the kind wraps. It returns nil for KindCause, of which other
// ranks know the text alone.
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

// Partings is implemented by watches whose ranks tell each other which groups they have
// closed, so that no rank waits in a group for a rank that will not come.
type Partings interface {
	Watch
	// Tell tells a rank that this rank has closed a group that both are in.
	Tell(rank int, p Parting)
	// Hear makes the watch call f with every parting that other ranks tell this rank,
	// also those that came before Hear. f must not block; it may be called from any
	// goroutine, until Close. Hear is called once.
	Hear(f func(from int, p Parting))
}

// Parting is a group that a rank has closed.
type Parting struct {
	Group uint64 // the same number on all members
	Begun uint64 // how many operations of the group the rank has begun with the rank that it tells
}

// Whereabouts is implemented by watches whose ranks ask each other where they wait, so that
// a rank that itself waits for another one is not blamed.
type Whereabouts interface {
	Watch
	// Answer makes the watch call f for this rank's answer when another rank asks. f must
	// not block; it may be called from any goroutine, until Close. Answer is called once,
	// before Ask.
	Answer(f func() Waiting)
	// Ask asks all other ranks and returns their answers, by rank. It blocks until all
	// ranks that have not left have answered. When d has passed, a failure is known or
	// the watch is closed, Ask returns the answers that have come by then.
	Ask(d time.Duration) map[int]Waiting
}

// Waiting is an operation that a rank waits in. The zero Waiting means that the rank is in no
// operation.
type Waiting struct {
	Text string // the call, for people; empty if the rank is in no operation
	For  []int  // the ranks that it may wait for
}

// MaxWaiting is the largest size of the Text of a Waiting in bytes.
const MaxWaiting = 1 << 10
