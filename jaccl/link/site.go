package link

import (
	"context"
	"net"
)

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
