package meet

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/google/uuid"

	"github.com/gomoe/gomoe/internal/quoted"
)

// DefaultDeadline is the default of Options.Deadline.
const DefaultDeadline = 30 * time.Second

// maxSize is the largest number of ranks in a job.
const maxSize = 1 << 16

// Options describe this rank and its job.
type Options struct {
	// Rank is this process's index, 0 to Size-1.
	Rank, Size int
	// Coordinator is rank 0's host:port, the same on all ranks. The host is a name or an
	// address; an IPv6 address is written as [2001:db8::1] or [fe80::1%eth0]. A job of one
	// rank needs no coordinator.
	Coordinator string
	// Listener is an open listener for rank 0; Join owns it from then on. If Listener is
	// nil, rank 0 opens a listener at Coordinator.
	Listener net.Listener
	// Job is the job's id, which distinguishes jobs using the same address.
	Job uuid.UUID
	// Meetings counts this rank's meetings in the job. Nil means that there were none.
	Meetings *Meetings
	// Secret is known to the ranks of the job only. A job of one rank needs no secret.
	Secret []byte
	// Facts must be the same on all ranks: version, mesh, transport. They are compared in
	// order, and the first difference is an error on every rank.
	Facts []Fact
	// Host names this machine for people. Empty means the machine's own name.
	Host string
	// Deadline is the time that the ranks wait for each other in Join, in every Gather
	// and every Dial; 0 means DefaultDeadline.
	Deadline time.Duration
	// Log receives messages about connections turned away, with the reason: about each of
	// the first few, and then about one every ten seconds with the number of the others.
	// Log may be nil. Several goroutines call it, one at a time.
	Log func(remote net.Addr, reason string)
	// Waiting is called once if this rank has waited some seconds for rank 0. The text
	// has rank 0's address, the reason why it is not reached, and the end of this rank's
	// wait. Waiting may be nil.
	Waiting func(text string)
	// linger is the longest time that rank 0 waits for ranks that still have to learn why
	// there is no job; 0 means lingerTime.
	linger time.Duration
}

// Fact is something that must be the same on all ranks.
type Fact struct{ Name, Value string }

// complete returns o with its defaults, or an error if o is invalid.
func (o Options) complete() (Options, error) {
	switch {
	case o.Size < 1 || o.Size > maxSize:
		return o, fmt.Errorf("meet: job of %d ranks, want 1 to %d", o.Size, maxSize)
	case o.Rank < 0 || o.Rank >= o.Size:
		return o, fmt.Errorf("meet: rank %d of a job of %d, want 0 to %d", o.Rank, o.Size, o.Size-1)
	case o.Deadline < 0:
		return o, fmt.Errorf("meet: deadline %v, want 0 for %v or more", o.Deadline, DefaultDeadline)
	case o.Listener != nil && o.Rank != 0:
		return o, fmt.Errorf("meet: rank %d has a listener; it is rank 0 that listens for the others", o.Rank)
	}
	if o.Deadline == 0 {
		o.Deadline = DefaultDeadline
	}
	if o.linger == 0 {
		o.linger = lingerTime
	}
	if o.Host == "" {
		o.Host = hostname()
	}
	if len(o.Host) > maxName {
		return o, fmt.Errorf("meet: the host's name has %d bytes, want at most %d", len(o.Host), maxName)
	}
	if len(o.Facts) > maxFacts {
		return o, fmt.Errorf("meet: %d facts, want at most %d", len(o.Facts), maxFacts)
	}
	for _, f := range o.Facts {
		if len(f.Name) > maxName || len(f.Value) > maxFact {
			return o, fmt.Errorf("meet: fact %s has %d bytes, want at most %d", quoted.Text(f.Name), len(f.Value), maxFact)
		}
	}
	if o.Meetings == nil {
		o.Meetings = &Meetings{}
	}
	if o.Log == nil {
		o.Log = func(net.Addr, string) {}
	}
	if o.Waiting == nil {
		o.Waiting = func(string) {}
	}
	return o, nil
}

// secret checks the secret, which a job of one rank does not need.
func (o Options) secret() error {
	if len(o.Secret) == 0 {
		return errors.New("meet: the job has no secret; give all ranks the same one, as the launcher does")
	}
	return nil
}

// Meetings counts the meetings of one rank in one job. A rank that is early for the next
// meeting must not join the last one, which other ranks have yet to leave. Rank 0 numbers
// the meetings, including failed ones; the other ranks learn the number and join no
// meeting twice. So ranks can meet again, however the last meeting ended on each of them.
// The zero Meetings is for a rank that has joined none. Only one Join at a time may use a
// Meetings.
type Meetings struct {
	last int // the number of the last meeting that this rank began, as rank 0, or joined
}

// begin returns, on rank 0, the number of its next meeting, and on other ranks the number
// of the last meeting that they have joined.
func (m *Meetings) begin(rank int) int {
	if rank == 0 {
		m.last++
	}
	return m.last
}

// past returns an error unless number, the meeting that a rank wants to join, comes after
// last, the last one that it has joined.
func past(last, number int) error {
	if last < number {
		return nil
	}
	return fmt.Errorf("it was at meeting %d and looks for a later one, this is meeting %d", last, number)
}
