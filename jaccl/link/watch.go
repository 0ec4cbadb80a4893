package link

import (
	"errors"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
)

// Watch tells the ranks of a job of each other's failures, whatever they are doing. It is
// separate from the link carrying their data. Its methods do not block and may be called
// from any goroutine.
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

// Partings is implemented by watches that tell ranks of closed groups, so that no rank
// waits in a group for a rank that will not come.
type Partings interface {
	Watch
	// Tell tells a rank that this rank has closed a group that both are in.
	Tell(rank int, p Parting)
	// Hear makes the watch call f with every parting announced to this rank, including
	// partings that came before Hear. f must not block; it may be called from any
	// goroutine, until Close. Hear is called once.
	Hear(f func(from int, p Parting))
}

// Parting is a group that a rank has closed.
type Parting struct {
	Group uint64 // the same number on all members
	Begun uint64 // number of operations of the group begun with the receiving rank
}

// Whereabouts is implemented by watches that tell ranks of each other's operations, so
// that a rank that is waiting for another one itself is not blamed.
type Whereabouts interface {
	Watch
	// Answer makes the watch call f for this rank's answer when another rank asks. f must
	// not block; it may be called from any goroutine, until Close. Answer is called once,
	// before Ask.
	Answer(f func() Waiting)
	// Ask asks all other ranks, returning their answers, by rank. It blocks until all
	// ranks that have not left have answered. When d has passed, a failure is known or
	// the watch is closed, Ask returns the answers received by then.
	Ask(d time.Duration) map[int]Waiting
}

// Waiting is the operation in which a rank waits. The zero Waiting means that the rank is
// in no operation.
type Waiting struct {
	Text string // the call, for people; empty if the rank is in no operation
	For  []int  // the ranks for which it may wait
}

// MaxWaiting is the largest size of the Text of a Waiting in bytes.
const MaxWaiting = 1 << 10
