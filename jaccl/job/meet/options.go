package meet

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/google/uuid"
)

// DefaultDeadline is how long ranks wait for each other.
const DefaultDeadline = 30 * time.Second

// MaxSize is the most ranks of a job.
const MaxSize = 1 << 16

// Options say which rank of which job this is.
type Options struct {
	// Rank is this process's index, 0 to Size-1.
	Rank, Size int
	// Coordinator is rank 0's host:port, alike on all ranks; host is a name or an
	// address, [2001:db8::1] or [fe80::1%eth0] if it is one of IPv6. A job of one
	// rank needs none.
	Coordinator string
	// Listener is what rank 0 listens with, if it is open already. Rank 0 closes it.
	Listener net.Listener
	// Job tells jobs apart that use one address.
	Job uuid.UUID
	// Meetings are this rank's in the job. If it is nil, it was at none.
	Meetings *Meetings
	// Secret is what the ranks of the job know and nobody else. A job of one rank
	// needs none.
	Secret []byte
	// Facts are to be the same on all ranks: version, mesh, transport. They are
	// compared in order, and the first difference is an error on every rank.
	Facts []Fact
	// Host names this machine for people; the machine's own name if it is "".
	Host string
	// Bind is the address, without a port, that this rank listens at; the one
	// that its connection to the coordinator has if it is "", and that of the
	// coordinator on rank 0.
	Bind string
	// Advertise is the address, without a port, that the other ranks dial; the one
	// that this rank listens at if it is "", and the one that its connection to the
	// coordinator has where Bind is all addresses.
	Advertise string
	// Deadline is how long the ranks wait for each other in Join, in every Gather
	// and every Dial; 0 means DefaultDeadline.
	Deadline time.Duration
	// Log is told who was turned away and why: of the first few every one, then one every
	// ten seconds with the number of the others. It may be nil, and is called by several
	// goroutines, one at a time.
	Log func(remote net.Addr, reason string)
	// Waiting is told once, by a rank that has waited some seconds for rank 0: where rank 0
	// is to be, why it is not reached, and until when this rank waits. It may be nil.
	Waiting func(text string)
}

// Fact is something that all ranks have to have alike.
type Fact struct{ Name, Value string }

// complete returns o with its defaults, or what is wrong with it.
func (o Options) complete() (Options, error) {
	switch {
	case o.Size < 1 || o.Size > MaxSize:
		return o, fmt.Errorf("meet: job of %d ranks, want 1 to %d", o.Size, MaxSize)
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
	if o.Host == "" {
		if name, err := os.Hostname(); err == nil {
			o.Host = name
		} else {
			o.Host = "unnamed"
		}
	}
	if len(o.Host) > maxName {
		return o, fmt.Errorf("meet: the host's name has %d bytes, want at most %d", len(o.Host), maxName)
	}
	if len(o.Facts) > maxFacts {
		return o, fmt.Errorf("meet: %d facts, want at most %d", len(o.Facts), maxFacts)
	}
	for _, f := range o.Facts {
		if len(f.Name) > maxName || len(f.Value) > maxFact {
			return o, fmt.Errorf("meet: fact %.40q has %d bytes, want at most %d", f.Name, len(f.Value), maxFact)
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
