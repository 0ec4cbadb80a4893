package link

import (
	"context"
	"net"
)

// Site is this process's place in a job of several processes, one rank each. It
// is what transports are set up with. Its blocking methods are collective: every
// rank calls them, in the same order, and each has the site's own deadline.
type Site interface {
	Rank() int
	Size() int
	// Host names the machine of a rank, for people.
	Host(rank int) string
	// SameHost reports whether a rank runs on this machine, in the same name space
	// of processes and with the same shared memory.
	SameHost(rank int) bool
	// Gather returns what every rank passes, by rank. It is for what fits into a
	// few KiB. key says what it is about: ranks that pass different keys are told
	// of it, with both.
	Gather(ctx context.Context, key string, mine []byte) ([][]byte, error)
	// Dial returns a new connection to each other rank, nil for this one. Both
	// sides have proved that they know the job's secret. purpose is compared as a
	// key of Gather is. The connections are the caller's to close.
	Dial(ctx context.Context, purpose string) ([]net.Conn, error)
}
