package mesh

import (
	"net"
	"time"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/jaccl/rdma"
)

// Options are a rank's place in a job of JACCL, and how it takes part.
type Options struct {
	rdma.Settings
	// Rank is this process's, and the matrix has a row for every rank: a mesh of 2 to 8.
	Rank    int
	Devices hostfile.Devices
	// Coordinator is the address, host:port of IPv4, on which rank 0 listens and to
	// which the others connect.
	Coordinator string
	// Listener, if it is not nil, is open at Coordinator, for rank 0, which closes it.
	Listener net.Listener
	// FramesOnly is to be set if a rank runs on macOS before 26.3, where JACCL sends
	// every frame as a message of its own.
	FramesOnly bool
	// Deadline is how long an operation waits while nothing comes; 0 for
	// jaccl.DefaultDeadline.
	Deadline time.Duration
}

func (o Options) deadline() time.Duration {
	if o.Deadline == 0 {
		return jaccl.DefaultDeadline
	}
	return o.Deadline
}
